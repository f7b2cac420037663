package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/wire"
)

// What must never be seen by who did not ask for it (T86, this program's part).
const (
	markerCard   = "4111111111111111"
	markerToken  = "tok_live_9f8e7d6c5b4a"
	markerEmail  = "jo.doe@shop.example"
	markerHeader = "hdr-secret-77"
)

var markers = []string{markerCard, markerToken, markerEmail, markerHeader}

// marked leaves operations with the markers in body, header, path, answer and error
// text of each state.
func (b *testBundle) marked() {
	b.t.Helper()
	sub := func(kind jobs.Kind, key string) jobs.Submission {
		s := jobs.Submission{Kind: kind, Key: jobs.Key(key), Headers: map[string]string{"X-Account": markerHeader},
			Body: []byte(fmt.Sprintf(`{"amount":1,"currency":"GBP","card":%q,"email":%q,"token":%q}`, markerCard, markerEmail, markerToken))}
		if kind == "void" {
			s.Params = map[string]string{"id": markerEmail}
		}
		return s
	}
	errorText := "POST https://payrail.example/v1/charges?email=" + markerEmail + "&card=" + markerCard + ": card " + markerCard + " of " + markerEmail +
		" refused, Authorization: Bearer " + markerToken + ", 4111 1111 1111 1111, api_key=" + markerToken
	res := decline(402, errorText)
	res.Body = []byte(fmt.Sprintf(`{"error":"card %s of %s"}`, markerCard, markerEmail))
	b.submit(sub("charge", "declined"))
	b.attempt("charge/declined", res)
	unknown := timedOut(ledger.StepAsk)
	unknown.Error, unknown.Body = errorText, res.Body
	b.submit(sub("payout", "lost"))
	b.attempt("payout/lost", unknown)
	good := succeeded()
	good.Body = res.Body
	b.submit(sub("charge", "done"))
	b.attempt("charge/done", good)
	b.submit(sub("void", "waiting"), sub("charge", "waiting"))
}

func TestNoSecretIsShownThatWasNotAskedFor(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.marked()
		file := filepath.Join(t.TempDir(), "in.jsonl")
		bad := fmt.Sprintf(`{"kind":"charge","key":"x","body":{"card":%q,"token":%q},"headers":{"Authorization":"Bearer %s"}}`, markerCard, markerToken, markerToken) + "\n" +
			fmt.Sprintf(`{"kind":"charge","key":"y","body":{"email":%q}`, markerEmail) + "\n" +
			fmt.Sprintf(`{"kind":"charge","key":"done","body":{"card":%q}}`, markerCard) + "\n" +
			fmt.Sprintf(`{"kind":"charge","key":"z","body":{},"headers":{"X-Account":"%s\u0000"}}`, markerHeader)
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			line("list"), line("list -o json"), line("list -o jsonl"), line("list -o csv"), line("list --error card -o json"),
			line("dlq list"), line("dlq list -o json"), line("dlq list -o csv"), line("dlq stats -o json"), line("dlq export -o csv"),
			line("show charge/declined"), line("show charge/declined -o json"), line("show payout/lost"), line("show void/waiting"), line("show void/waiting -o json"), line("show charge/done"), line("show waiting -o jsonl"),
			line("dlq show charge/declined"), line("dlq show payout/lost -o json"),
			line("dlq requeue charge/declined payout/lost --dry-run"), line("dlq requeue --all-matching --dry-run -o json"),
			line("import " + file), line("import " + file + " -o json"), line("import " + file + " -o jsonl"),
			{"add", "charge/declined", "--body", fmt.Sprintf(`{"card":%q}`, markerCard)}, {"add", "charge/new", "--body", fmt.Sprintf(`{"card":%q`, markerCard)},
			{"add", "charge/new", "--body", "{}", "--header", "Authorization: Bearer " + markerToken}, {"add", "void/new", "--body", "{}", "--param", "id=..", "--header", "X-A: " + markerHeader},
			line("stats -o json"), line("audit -o json"),
			line("cancel charge/waiting --note x -y"), line("resolve payout/lost --applied --note x"),
		} {
			got := b.run(args...)
			for _, m := range append(markers, "4111 1111") {
				if strings.Contains(got.stdout, m) {
					t.Errorf("enqueue %s: %q on stdout:\n%s", strings.Join(args, " "), m, got.stdout)
				}
				if strings.Contains(got.stderr, m) {
					t.Errorf("enqueue %s: %q on stderr:\n%s", strings.Join(args, " "), m, got.stderr)
				}
			}
		}
	})
}

func TestRevealShowsEverythingAndIsAudited(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.marked()
		says(t, b.must(exitOK, "show", "charge/declined", "--reveal").stdout, markerCard, markerEmail, markerToken, markerHeader, "answer to attempt 1")
		says(t, b.must(exitOK, "dlq", "show", "payout/lost", "--reveal", "-o", "json").stdout, markerCard, markerEmail, markerToken, markerHeader)
		says(t, b.must(exitOK, "show", "void/waiting", "--reveal").stdout, "POST /v1/voids/jo.doe@shop.example")
		audit := b.must(exitOK, "audit", "-o", "jsonl").stdout
		if n := strings.Count(audit, `"action":"reveal","by":"ann@desk"`); n != 3 {
			t.Errorf("%d audit entries, want 3:\n%s", n, audit)
		}
		says(t, audit, `"operation":"charge/declined"`, `"operation":"payout/lost"`, `"operation":"void/waiting"`)
	})
}

func TestMaskedLeavesOrdinaryTextAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"card 4111111111111111 refused":                   "card [card number] refused",
		"card 4111-1111-1111-1111 refused":                "card [card number] refused",
		"order 4111111111111112, batch b-20261130-120000": "order 4111111111111112, batch b-20261130-120000",
		"wait until 1796040182000 ms":                     "wait until 1796040182000 ms",
		"mail to jo.doe@shop.example failed":              "mail to [e-mail] failed",
		"Bearer abcdef123456 expired":                     "Bearer [masked] expired",
		`{"api_key":"sk_1234","x":1}`:                     `{"api_key":"[masked]","x":1}`,
		"GET https://a.example/v1/x?email=1&b=2: refused": "GET https://a.example/v1/x?[masked] refused",
		"status 503":         "status 503",
		"connection refused": "connection refused",
		"the token was refused, password rejected":         "the token was refused, password rejected",
		"no answer within 3s":                              "no answer within 3s",
		"dial tcp 10.0.0.7:443: connect: no route to host": "dial tcp 10.0.0.7:443: connect: no route to host",
	} {
		if got := wire.Masked(text); got != want {
			t.Errorf("%q\nbecomes %q\nwant    %q", text, got, want)
		}
	}
}

func TestControlCharactersOfOthersNeverReachTheTerminal(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		res := decline(402, "\x1b[31mred\x1b[0m\a \u202eevil\u200b\r\nnext \u009b2J \x7f")
		s := jobs.Submission{Kind: "charge", Key: "a", Body: []byte(`{"amount":"\u001b]0;title\u0007","currency":"\u202e"}`)}
		b.submit(s)
		b.attempt("charge/a", res)
		for _, args := range [][]string{line("list"), line("dlq list"), line("list -o json"), line("list -o jsonl"), line("list -o csv"), line("show charge/a"), line("show charge/a -o json"),
			line("show charge/a --reveal"), line("dlq show charge/a"), line("dlq export"), {"pause", "payrail", "--note", "\x1b[2J"}, line("audit"), line("stats"), line("audit -o csv")} {
			got := b.run(args...)
			for _, r := range got.stdout + got.stderr {
				if hidden(r) && r != '\n' {
					t.Errorf("enqueue %s: %q reaches the terminal:\n%q", strings.Join(args, " "), r, got.stdout+got.stderr)
					break
				}
			}
		}
		says(t, b.must(exitOK, "show", "charge/a").stdout, `\u001b[31mred`, `\u202eevil\u200b\r\nnext \u009b2J \u007f`)
	})
}

func FuzzVisible(f *testing.F) {
	f.Add("plain")
	f.Add("\x1b[0m\xff\u202e\u2028\U000e0001\ufffd")
	f.Fuzz(func(t *testing.T, s string) {
		got := visible(s)
		for _, r := range got {
			if hidden(r) && r != '\ufffd' {
				t.Fatalf("%q is left in %q", r, got)
			}
		}
		if again := visible(got); again != got && !strings.Contains(s, "\ufffd") {
			t.Fatalf("%q becomes %q", got, again)
		}
	})
}
