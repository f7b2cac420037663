package policy

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

// fact is one line of testdata/classification.tsv.
type fact struct {
	id        string
	processed Processed
	verdicts  map[jobs.Idempotency]jobs.Verdict
	settles   bool
}

func facts(t testing.TB) []fact {
	t.Helper()
	f, err := os.Open("testdata/classification.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []fact
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		col := strings.Split(line, "\t")
		if len(col) != 7 {
			t.Fatalf("line %q has %d columns, want 7", line, len(col))
		}
		verdicts := map[jobs.Idempotency]jobs.Verdict{}
		for i, class := range []jobs.Idempotency{jobs.IdempotencyNatural, jobs.IdempotencyKeyed, jobs.IdempotencyConditional, jobs.IdempotencyNone} {
			v, err := jobs.Parse("verdict", col[2+i], jobs.Verdicts)
			if err != nil {
				t.Fatalf("row %s: %v", col[0], err)
			}
			verdicts[class] = v
		}
		out = append(out, fact{id: col[0], processed: Processed(col[1]), verdicts: verdicts, settles: col[6] == "yes"})
	}
	return out
}

// onlyByRule are the rows that no answer reaches by itself: it takes a rule that
// knows the gateway.
var onlyByRule = []string{"H200R", "H200D", "H409F", "H409M", "H409D", "H409S", "H429", "H500R"}

// answer is a sample with a status and a body.
func answer(status int, header map[string][]string, body string) Sample {
	return Sample{Phase: PhaseAnswered, Status: status, Header: header, Body: []byte(body), WireBytes: 200}
}

// byContent are samples for the rows that need more than a phase or a status.
var byContent = map[string][]Sample{
	"N19":   {{Phase: PhaseAnswered, Status: 200, Body: []byte(`{"id":`), BodyCut: true, WireBytes: 200}, {Phase: PhaseAnswered, Status: 204, BodyCut: true, WireBytes: 200}},
	"N20":   {{Phase: PhaseAnswered, Status: 200, Body: []byte(`{"id":`), UntilClose: true, WireBytes: 200}},
	"H200G": {answer(200, nil, ""), answer(201, nil, "<!DOCTYPE html><html>"), answer(200, nil, `{"id":`)},
	"H413R": {answer(413, map[string][]string{"Retry-After": {"3"}}, "")},
	"H4XX":  {answer(418, nil, ""), answer(444, nil, ""), answer(499, nil, "")},
	"H529":  {answer(555, nil, "")},
	"HXXX":  {answer(999, nil, ""), answer(99, nil, ""), answer(0, nil, ""), answer(-1, nil, "")},
}

// reach returns what Classify makes of every sample that leads to the row.
func reach(row Row, class jobs.Idempotency) []Classification {
	var out []Classification
	for _, p := range row.On.Phases {
		s := Sample{Phase: p}
		if !unsent(p) {
			s.WireBytes = 200
		}
		out = append(out, Classify(s, class))
	}
	for _, status := range row.On.Statuses {
		body := ""
		if status == 200 || status == 201 {
			body = `{"id":"ch_1"}`
		}
		out = append(out, Classify(answer(status, nil, body), class))
	}
	for _, s := range byContent[row.ID] {
		out = append(out, Classify(s, class))
	}
	for _, code := range row.On.Codes {
		out = append(out, ClassifyGRPC(GRPCSample{Code: code}, class))
	}
	switch row.ID {
	case "G14T":
		out = append(out, ClassifyGRPC(GRPCSample{Code: 14, Refused: true}, class))
	case "GPB":
		out = append(out, ClassifyGRPC(GRPCSample{Code: 14, Pushback: "250"}, class))
	}
	if slices.Contains(onlyByRule, row.ID) {
		c := index.id[row.ID].classify(class, true, true)
		c.Class = jobs.ClassOther // a row alone knows no status
		out = append(out, c)
	}
	return out
}

func TestEveryRowSaysWhatTheFactsSay(t *testing.T) {
	t.Parallel()
	rows := Table()
	want := facts(t)
	if len(want) != 89 || len(rows) != len(want) {
		t.Fatalf("the table has %d rows and the facts %d, want 89 each", len(rows), len(want))
	}
	for i, fact := range want {
		for _, class := range jobs.Idempotencies {
			t.Run(fact.id+"/"+string(class), func(t *testing.T) {
				t.Parallel()
				if rows[i].ID != fact.id {
					t.Fatalf("row %d is %s, want %s", i, rows[i].ID, fact.id)
				}
				got := reach(rows[i], class)
				if len(got) == 0 {
					t.Fatal("nothing leads to this row")
				}
				for _, c := range got {
					if c.Row != fact.id || c.Processed != fact.processed || c.Verdict != fact.verdicts[class] || c.SettlesPrior != fact.settles {
						t.Errorf("got %+v, want %+v", c, fact)
					}
					if c.Reason == "" {
						t.Error("no reason")
					}
					checkOutcome(t, c)
				}
			})
		}
	}
}

// checkOutcome holds what an outcome may claim against what the row knows.
func checkOutcome(t *testing.T, c Classification) {
	t.Helper()
	if !slices.Contains(jobs.Outcomes, c.Outcome) || !slices.Contains(jobs.Classes, c.Class) {
		t.Errorf("outcome %q or class %q is not in the closed list", c.Outcome, c.Class)
	}
	if c.Processed == ProcessedMaybe && c.Outcome != jobs.OutcomeUnknown {
		t.Errorf("row %s: it may have acted, and the outcome is %s", c.Row, c.Outcome)
	}
	if c.Acted && c.Outcome != jobs.OutcomeUnknown {
		t.Errorf("row %s: acted mark with outcome %s", c.Row, c.Outcome)
	}
	if c.Processed == ProcessedYes && c.Outcome == jobs.OutcomeUnknown && !c.Acted {
		t.Errorf("row %s: the other side took it, and the acted mark is missing", c.Row)
	}
	if c.Processed == ProcessedYes && c.Outcome == jobs.OutcomeNotSent {
		t.Errorf("row %s: processed and not sent", c.Row)
	}
}

func TestTableInvariants(t *testing.T) {
	t.Parallel()
	phases, statuses, codes, ids := map[Phase]string{}, map[int]string{}, map[int]string{}, map[string]bool{}
	for _, row := range Table() {
		if ids[row.ID] {
			t.Errorf("row %s stands twice", row.ID)
		}
		ids[row.ID] = true
		if row.Processed == ProcessedMaybe && row.Verdicts.None.Resends() {
			t.Errorf("row %s may have acted and is resent by class none", row.ID)
		}
		if row.On.String() == "" {
			t.Errorf("row %s has no trigger", row.ID)
		}
		for _, p := range row.On.Phases {
			if other, twice := phases[p]; twice {
				t.Errorf("phase %s leads to %s and %s", p, other, row.ID)
			}
			phases[p] = row.ID
		}
		for _, s := range row.On.Statuses {
			if other, twice := statuses[s]; twice {
				t.Errorf("status %d leads to %s and %s", s, other, row.ID)
			}
			statuses[s] = row.ID
		}
		for _, c := range row.On.Codes {
			if other, twice := codes[c]; twice {
				t.Errorf("code %d leads to %s and %s", c, other, row.ID)
			}
			codes[c] = row.ID
		}
	}
	for _, p := range Phases {
		if phases[p] == "" && p != PhaseAnswered {
			t.Errorf("phase %s leads to no row", p)
		}
	}
	if len(codes) != 17 {
		t.Errorf("%d gRPC codes lead to a row, want all 17", len(codes))
	}
}

func TestTheCallerOwnsTheTable(t *testing.T) {
	t.Parallel()
	Table()[0].ID = "changed"
	if got := Table()[0].ID; got != "N01" {
		t.Errorf("first row is %s after a caller changed its copy", got)
	}
}
