package app

import (
	"strings"
	"testing"
)

// payrail is where the file "working" says how its dependency is reached.
const payrail = `slots: 2}`

func TestClassifyAsksTheRulesOfTheFile(t *testing.T) {
	t.Parallel()
	path := rewrite(t, file(t, working, "redis://127.0.0.1:1/0", "http://127.0.0.1:1"), payrail, `slots: 2, rules: [
      {when: 'body.fault.code == "busy"', verdict: hold_operator},
      {when: 'status == 402 && body.error.code == "processing_error"', verdict: retry_after, after: 1h, processed: no}]}`)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--status", "402", "--body", `{"error":{"code":"processing_error"}}`}, `row        R2
class      4xx
processed  no
verdict    retry_after
delay      1h0m0s (R2)
resolves a prior unknown  no
reason     rule 2 says so: status == 402 && body.error.code == "processing_error"
skipped    rule 1: when: line 1, column 11: no key "fault"
`},
		{[]string{"-o", "json", "--status", "402", "--body", `{"error":{"code":"processing_error"}}`},
			`{"row":"R2","class":"4xx","processed":"no","verdict":"retry_after","delay":"1h0m0s","resolves_prior_unknown":false,"reason":"rule 2 says so: status == 402 \u0026\u0026 body.error.code == \"processing_error\"","skipped":["rule 1: when: line 1, column 11: no key \"fault\""]}` + "\n"},
		{[]string{"--status", "402", "--body", `{"error":{"code":"card_declined"}}`}, "row        H402\n"},
		{[]string{"--status", "402", "--body", `declined`}, "skipped    rule 2: when: "},
		{[]string{"--network", "no_answer"}, "row        N11\n"},
	} {
		b := setup(t)
		code := b.run(t, append([]string{"classify", "payrail", "--config", path}, tc.args...)...)
		if code != exitDone || !strings.Contains(b.stdout.String(), tc.want) {
			t.Errorf("%v: exit %d: %s%s\nwant %s", tc.args, code, b.stdout, b.stderr, tc.want)
		}
	}
}

func TestCheckSaysWhereARuleOrAResultIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ old, with, want string }{
		{payrail, `slots: 2, rules: [{when: 'bdy.code == 1', verdict: permanent_failure}]}`,
			"error    FILE:5:83: dependencies.payrail.rules.1.when: line 1, column 1 of the expression: undeclared reference to 'bdy' (did you mean 'body'?)"},
		{payrail, `slots: 2, rules: [{when: 'status == 503', verdict: retry_after}]}`,
			"error    FILE:5:76: dependencies.payrail.rules.1.processed: retry_after could repeat the effect for kinds of class none: say processed: no"},
		{"idempotency: keyed}", "idempotency: keyed, result: {id: 'body.['}}",
			"error    FILE:7:96: operations.charge.result.id: line 1, column 6 of the expression: syntax error"},
	} {
		t.Run(tc.with, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			code := b.run(t, "check", "--offline", "--config", rewrite(t, file(t, working, "redis://127.0.0.1:1/0", "http://127.0.0.1:1"), tc.old, tc.with))
			if code != exitError || !strings.HasPrefix(steady(b.stdout.String()), tc.want) {
				t.Errorf("exit %d:\n%s\nwant %s", code, steady(b.stdout.String()), tc.want)
			}
		})
	}
}
