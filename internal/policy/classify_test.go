package policy

import (
	"strings"
	"testing"

	"redrive/internal/jobs"
)

func TestWhatNoRowListsIsNeverResent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sample Sample
		want   jobs.Outcome
	}{
		"an unknown phase, nothing sent":       {Sample{Phase: "martian"}, jobs.OutcomeNotSent},
		"an unknown phase, bytes sent":         {Sample{Phase: "martian", WireBytes: 1}, jobs.OutcomeUnknown},
		"not sent, yet bytes were":             {Sample{Phase: PhaseConnect, WireBytes: 1}, jobs.OutcomeUnknown},
		"an unlisted 1xx":                      {answer(150, nil, ""), jobs.OutcomeUnknown},
		"an unlisted 2xx":                      {answer(203, nil, `{}`), jobs.OutcomeUnknown},
		"an unlisted 3xx":                      {answer(399, nil, ""), jobs.OutcomeUnknown},
		"an answer, though we counted nothing": {Sample{Phase: PhaseAnswered, Status: 299}, jobs.OutcomeUnknown},
	} {
		for _, class := range jobs.Idempotencies {
			t.Run(name+"/"+string(class), func(t *testing.T) {
				t.Parallel()
				c := Classify(tc.sample, class)
				if c.Row != RowUnlisted || c.Outcome != tc.want || c.Verdict.Resends() {
					t.Errorf("got %+v, want row %s, outcome %s and no resend", c, RowUnlisted, tc.want)
				}
				in := roomy(c, class)
				if d := Decide(in); d.Next != NextEnd || d.Reason != jobs.ReasonPermanent {
					t.Errorf("decided %+v, want an end", d)
				}
			})
		}
	}
	if c := ClassifyGRPC(GRPCSample{Code: 99}, jobs.IdempotencyNatural); c.Row != RowUnlisted || c.Outcome != jobs.OutcomeUnknown {
		t.Errorf("gRPC code 99: got %+v", c)
	}
}

func TestASuccessNeedsABodyThatCanHaveBeenMeant(t *testing.T) {
	t.Parallel()
	typed := func(ct string) map[string][]string { return map[string][]string{"content-type": {ct}} }
	for name, tc := range map[string]struct {
		sample Sample
		row    string
	}{
		"JSON":                            {answer(200, typed("application/json; charset=utf-8"), `{"id":1}`), "H200"},
		"JSON with byte order mark":       {answer(200, typed("application/json"), "\xef\xbb\xbf{}\n"), "H200"},
		"problem+json":                    {answer(201, typed("application/vnd.api+json"), `[]`), "H200"},
		"untyped JSON":                    {answer(200, nil, ` {"id":1}`), "H200"},
		"text that claims nothing":        {answer(200, typed("text/plain"), "OK"), "H200"},
		"a form":                          {answer(200, typed("application/x-www-form-urlencoded"), "[a]=b"), "H200"},
		"XML":                             {answer(200, typed("application/xml"), "<ok/>"), "H200"},
		"identity encoding":               {answer(200, map[string][]string{"Content-Encoding": {"identity"}}, "OK"), "H200"},
		"empty":                           {answer(200, typed("application/json"), ""), "H200G"},
		"white space":                     {answer(200, nil, " \n"), "H200G"},
		"HTML by type":                    {answer(200, typed("text/html"), "welcome"), "H200G"},
		"HTML by first bytes":             {answer(200, nil, "\n<HTML>"), "H200G"},
		"broken JSON":                     {answer(200, typed("application/json"), `{"id":`), "H200G"},
		"JSON that is not":                {answer(200, typed("application/json"), `OK`), "H200G"},
		"broken untyped JSON":             {answer(200, nil, `[1,`), "H200G"},
		"an encoding we did not ask for":  {answer(200, map[string][]string{"Content-Encoding": {"gzip"}}, "\x1f\x8b"), "H200G"},
		"204 has none":                    {answer(204, nil, ""), "H204"},
		"205 has none":                    {answer(205, nil, ""), "H204"},
		"202 is pending whatever it says": {Sample{Phase: PhaseAnswered, Status: 202, BodyCut: true}, "H202"},
		"cut, and HTML":                   {Sample{Phase: PhaseAnswered, Status: 200, Header: typed("text/html"), Body: []byte("<p"), BodyCut: true}, "H200G"},
		"cut before the first byte":       {Sample{Phase: PhaseAnswered, Status: 200, BodyCut: true}, "N19"},
		"until close, whole":              {Sample{Phase: PhaseAnswered, Status: 200, Body: []byte(`{}`), UntilClose: true}, "H200"},
		"an error's body may be cut":      {Sample{Phase: PhaseAnswered, Status: 402, Body: []byte(`{`), BodyCut: true}, "H402"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c := Classify(tc.sample, jobs.IdempotencyNone); c.Row != tc.row {
				t.Errorf("row %s, want %s", c.Row, tc.row)
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		row   string
		class jobs.Idempotency
		want  jobs.Outcome
		acted bool
	}{
		{"H200", jobs.IdempotencyNone, jobs.OutcomeSucceeded, false},
		{"H202", jobs.IdempotencyKeyed, jobs.OutcomeUnknown, true},
		{"N19", jobs.IdempotencyNone, jobs.OutcomeUnknown, true},
		{"N19", jobs.IdempotencyNatural, jobs.OutcomeSucceeded, false},
		{"H303", jobs.IdempotencyConditional, jobs.OutcomeUnknown, true},
		{"H402", jobs.IdempotencyKeyed, jobs.OutcomeRefused, false},
		{"H404", jobs.IdempotencyNatural, jobs.OutcomeSucceeded, false}, // already gone
		{"H404", jobs.IdempotencyKeyed, jobs.OutcomeRefused, false},
		{"H404", jobs.IdempotencyConditional, jobs.OutcomeRefused, false},
		{"H423", jobs.IdempotencyKeyed, jobs.OutcomeRefused, false},
		{"H423", jobs.IdempotencyNone, jobs.OutcomeUnknown, false}, // the row does not trust its "no" here
		{"H409M", jobs.IdempotencyKeyed, jobs.OutcomeUnknown, true},
		{"N05", jobs.IdempotencyNone, jobs.OutcomeNotSent, false},
		{"N08", jobs.IdempotencyNone, jobs.OutcomeRefused, false}, // bytes left, and were not looked at
		{"N17", jobs.IdempotencyNone, jobs.OutcomeRefused, false},
		{"N12", jobs.IdempotencyNatural, jobs.OutcomeUnknown, false},
	} {
		c := index.id[tc.row].classify(tc.class, true, true)
		if c.Outcome != tc.want || c.Acted != tc.acted {
			t.Errorf("%s/%s: outcome %s, acted %v, want %s, %v", tc.row, tc.class, c.Outcome, c.Acted, tc.want, tc.acted)
		}
	}
}

func TestResponseClasses(t *testing.T) {
	t.Parallel()
	for want, samples := range map[jobs.Class][]Sample{
		jobs.Class2xx:        {answer(200, nil, "{}"), answer(202, nil, "")},
		jobs.Class429:        {answer(429, nil, "")},
		jobs.Class503:        {answer(503, nil, "")},
		jobs.Class5xx:        {answer(500, nil, ""), answer(599, nil, "")},
		jobs.Class4xx:        {answer(400, nil, ""), answer(499, nil, "")},
		jobs.ClassTimeout:    {{Phase: PhaseAnswerTimeout}},
		jobs.ClassReset:      {{Phase: PhaseNoAnswer}, {Phase: PhaseWriteCut}, {Phase: PhaseNotWritten}},
		jobs.ClassConnect:    {{Phase: PhaseConnect}},
		jobs.ClassDNS:        {{Phase: PhaseDNSNotFound}, {Phase: PhaseDNSFailed}},
		jobs.ClassTLS:        {{Phase: PhaseTLSHandshake}, {Phase: PhaseCertificate}, {Phase: PhaseClientCertificate}},
		jobs.ClassWorkerLost: {{Phase: PhaseWorkerLost}},
		jobs.ClassOther: {answer(101, nil, ""), answer(302, nil, ""), answer(999, nil, ""), {Phase: PhaseGarbage}, {Phase: PhaseTooLate},
			{Phase: PhaseCancelledSent}, {Phase: PhaseCancelledUnsent}, {Phase: PhaseAnswered, Status: 200, BodyCut: true}},
	} {
		for _, s := range samples {
			if got := Classify(s, jobs.IdempotencyNone).Class; got != want {
				t.Errorf("%s %d: class %s, want %s", s.Phase, s.Status, got, want)
			}
		}
	}
}

func TestCredentialRefusals(t *testing.T) {
	t.Parallel()
	for _, s := range []Sample{answer(401, nil, ""), answer(403, nil, ""), answer(407, nil, ""), {Phase: PhaseCertificate}, {Phase: PhaseClientCertificate, WireBytes: 9}} {
		if c := Classify(s, jobs.IdempotencyNone); !c.CredentialRefused || Counts(c) {
			t.Errorf("%s %d: got %+v, want a refused credential that does not count", s.Phase, s.Status, c)
		}
	}
	for _, s := range []Sample{answer(400, nil, ""), answer(511, nil, ""), answer(307, nil, ""), {Phase: PhaseTLSHandshake}} {
		if c := Classify(s, jobs.IdempotencyNone); c.CredentialRefused {
			t.Errorf("%s %d is taken for a refused credential", s.Phase, s.Status)
		}
	}
}

func TestGRPCPushback(t *testing.T) {
	t.Parallel()
	c := ClassifyGRPC(GRPCSample{Code: 14, Pushback: "1500"}, jobs.IdempotencyKeyed)
	if c.Row != "GPB" || c.Hint.Wait.Milliseconds() != 1500 || c.Hint.From == "" {
		t.Errorf("1500 ms: got %+v", c)
	}
	if c := ClassifyGRPC(GRPCSample{Code: 14, Pushback: "9223372036854775807"}, jobs.IdempotencyKeyed); c.Hint.Wait != MaxWait {
		t.Errorf("a huge pushback: got %v, want %v", c.Hint.Wait, MaxWait)
	}
	for _, forbidden := range []string{"-1", "soon"} {
		for _, class := range jobs.Idempotencies {
			if c := ClassifyGRPC(GRPCSample{Code: 14, Pushback: forbidden}, class); c.Verdict.Resends() || c.Outcome != jobs.OutcomeUnknown {
				t.Errorf("pushback %q, %s: got %+v, want no resend", forbidden, class, c)
			}
		}
	}
	if c := ClassifyGRPC(GRPCSample{Code: 0, Pushback: "5"}, jobs.IdempotencyNone); c.Row != "G0" || c.Class != jobs.Class2xx {
		t.Errorf("OK with a pushback: got %+v", c)
	}
	for code, want := range map[int]jobs.Class{1: jobs.ClassOther, 4: jobs.ClassTimeout, 8: jobs.Class429, 13: jobs.Class5xx, 16: jobs.Class4xx} {
		if c := ClassifyGRPC(GRPCSample{Code: code}, jobs.IdempotencyNone); c.Class != want {
			t.Errorf("code %d: class %s, want %s", code, c.Class, want)
		}
	}
}

// The 4xx that may be sent again, and no other: counted over every status, class and
// Retry-After.
func TestNo4xxButTheseIsSentAgain(t *testing.T) {
	t.Parallel()
	may := map[int]bool{408: true, 409: true, 413: true, 417: true, 421: true, 422: true, 423: true, 424: true, 425: true, 429: true}
	outside := 0
	for status := 400; status < 500; status++ {
		for _, class := range jobs.Idempotencies {
			for _, header := range []map[string][]string{nil, {"Retry-After": {"5"}}} {
				c := Classify(Sample{Phase: PhaseAnswered, Status: status, Header: header}, class)
				unlisted := c.Row == RowUnlisted || strings.HasPrefix(c.Row, "H4XX")
				if !c.Verdict.Resends() || may[status] || class != jobs.IdempotencyNone && class != jobs.IdempotencyConditional && unlisted {
					continue
				}
				outside++
				t.Errorf("%d of a %s kind (row %s): %s", status, class, c.Row, c.Verdict)
			}
		}
	}
	t.Logf("%d retries outside of the list", outside)
}
