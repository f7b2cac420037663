package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"redrive/internal/config"
	"redrive/internal/httpapi"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// everyChange is each command that changes something, with what it says where nobody
// knows whether that was done.
var everyChange = map[string]string{
	"add charge/new --body {}":                        "it may have been accepted: repeating the same add is safe",
	"import -":                                        "importing the same file again is safe",
	"cancel charge/a -y --note x":                     "the same command again goes on with the rest",
	"cancel --all-matching -y --note x":               "the same command again goes on with the rest",
	"dlq requeue --all-matching -y --note x":          "the same command again goes on with the rest",
	"dlq discard charge/dead -y --note x":             "the same command again goes on with the rest",
	"reconcile payout/unknown --note x":               "the same command again goes on with the rest",
	"resolve payout/unknown --applied --note x":       "the same command again goes on with the rest",
	"batch stop b-20261130-071242-f426bf1c --note x":  "it may have been done: the same command again is safe",
	"pause payrail --note x":                          "it may be paused: the same command again is safe",
	"resume payrail --note x":                         "it may go on: the same command again is safe",
	"resume payrail --credential m1 --note x":         "it may go on: the same command again is safe",
	"gate override payrail --cap 5 --for 1h --note x": "it may be in force: the same command again is safe",
	"gate clear payrail --note x":                     "it may have ended: the same command again is safe",
	"first-attempts payrail --ok 1":                   "it may have been counted, and the same command again would count it again",
}

// isChange reports whether a request is one whose effect is in question: not a look, and
// not the count before an action.
func isChange(r *http.Request, sent string) bool {
	return r.Method != http.MethodGet && !strings.Contains(sent, `"dry_run":true`)
}

func TestAnActionWhoseAnswerAProxySpoiltDidNotSayThatItMayHaveBeenDone(t *testing.T) {
	t.Parallel()
	page := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			fmt.Fprint(w, "<html>")
		}
	}
	raw := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				fmt.Fprint(conn, text)
				_ = conn.Close() // as a proxy that dies
			}
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		code   int
		open   bool
	}{
		"502":              {page(502), exitAgain, true},
		"504":              {page(504), exitAgain, true},
		"500":              {page(500), exitError, true},
		"cut":              {raw(""), exitAgain, true},
		"cut, no length":   {raw("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"dependency\":\"pay"), exitAgain, true},
		"refused by proxy": {page(413), exitError, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := served(t, nil)
			b.submit(submission("charge", "a", 1), submission("charge", "dead", 1), submission("payout", "unknown", 1))
			b.attempt("charge/dead", decline(402, "no"))
			b.attempt("payout/unknown", timedOut(ledger.StepEnd))
			b.wantState("charge/dead", jobs.Dead)
			instead(t, b, isChange, c.answer)
			for command, words := range everyChange {
				got := b.runWith(`{"kind":"charge","key":"b","body":{}}`, line(command)...)
				code := c.code
				if command == "import -" && name == "cut, no length" {
					code = exitError // it is no answer to an import
				}
				if got.code != code {
					t.Errorf("%s: exit %d, want %d: %s", command, got.code, code, got.stderr)
				}
				if c.open || command == "import -" {
					says(t, got.stderr, words)
				} else {
					hides(t, got.stderr, words, "may have", "later")
				}
			}
		})
	}
}

func TestASubmissionThatIsWrongWasAnsweredOtherwiseBehindAServer(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for _, deadline := range []string{"-5s", "xx"} {
			got := b.must(exitUsage, "add", "charge/dl1", "--body", "{}", "--deadline="+deadline, "-o", "json")
			receipt := into[jobs.Receipt](t, got)
			if receipt.Answer != jobs.Refused || !strings.HasPrefix(receiptText(receipt), "refused: deadline: ") {
				t.Errorf("--deadline=%s: %+v", deadline, receipt)
			}
			says(t, got.stderr, "enqueue: charge/dl1 refused: deadline: ")
			hides(t, got.stderr, "may have been accepted", "deadline: deadline", "server ")
		}
	})
}

func TestAServiceThatSpeaksNoHTTPOrAPortThatCannotBeWasSomethingToTryAgain(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	instead(t, b, func(*http.Request, string) bool { return true }, func(w http.ResponseWriter) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprint(conn, "SSH-2.0-OpenSSH_9.9\r\n")
			_ = conn.Close()
		}
	})
	for _, args := range everyCommand {
		got := b.runWith(`{"kind":"charge","key":"a","body":{}}`, args...)
		if got.code != exitError || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, want %d: %q", strings.Join(args, " "), got.code, exitError, got.stderr)
		}
		says(t, got.stderr, "does not answer in HTTP")
	}
	says(t, b.must(exitUsage, "list", "--server", "http://127.0.0.1:99999").stderr, "--server: it has the port 99999")
}

// The greatest page of the longest operations that the tests can make is no endless answer.
func TestALongListAndALongReportFitIntoTheirBounds(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	var subs []jobs.Submission
	for i := range 20 {
		s := submission("charge", fmt.Sprintf("%s%03d", strings.Repeat("k", 190), i), 1)
		s.Body = []byte(fmt.Sprintf(`{"amount":1,"currency":"GBP","x":%q}`, strings.Repeat("<", jobs.MaxBodyBytes/2)))
		s.IdempotencyKey, s.CorrelationID = strings.Repeat("i", 200), strings.Repeat("c", 200)
		subs = append(subs, s)
	}
	b.submit(subs...)
	for _, s := range subs {
		b.attempt(s.ID().String(), decline(402, strings.Repeat("e", 2000)))
	}
	b.must(exitOK, "list", "--limit", "0")
	b.must(exitOK, "show", subs[0].ID().String(), "--reveal")
	if got := b.must(exitOK, "dlq", "export"); strings.Count(got.stdout, "\n") != len(subs) {
		t.Errorf("%d lines exported, want %d", strings.Count(got.stdout, "\n"), len(subs))
	}
	b.must(exitOK, "dlq", "requeue", "--all-matching", "-y", "--note", strings.Repeat("n", 1000))
	b.must(exitOK, "audit", "--limit", "1000")
	b.must(exitOK, "batch", "list")
}

func TestWhatIsAnsweredToTheRequestHadTheServerInFront(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	at := " (" + b.env["REDRIVE_SERVER"] + ")\n"
	for command, want := range map[string]string{
		"list --cursor xx": `enqueue: --cursor: not a cursor that a list returned: "xx"` + at,
		"gate none":        `enqueue: no dependency "none": bank, payrail are known` + at,
		"resume payrail --credential m1 --note x": `enqueue: credential "m1" of payrail is not paused: none is` + at,
	} {
		if got := b.run(line(command)...); got.stderr != want {
			t.Errorf("%s: %q, want %q", command, got.stderr, want)
		}
	}
}

func TestWhoLacksTheRoleWasToldToAddTheSameAgainLater(t *testing.T) {
	t.Parallel()
	b := served(t, func(a *httpapi.API) { a.Tokens[0].Roles = []config.Role{config.RoleRead} })
	got := b.must(exitError, "add", "charge/a", "--body", "{}")
	says(t, got.stderr, "has not the role submit", "nothing was written")
	hides(t, got.stderr, "later")
}

func TestThatNothingWasWrittenWasSaidTwice(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	client := srv.Client(t)
	b := setup(t, client)
	b.serve(nil)
	if err := client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	got := b.must(exitAgain, "add", "charge/new", "--body", "{}")
	if strings.Count(got.stderr, "nothing was written") != 1 {
		t.Error(got.stderr)
	}
	says(t, got.stderr, "add the same again later")
}
