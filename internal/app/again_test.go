package app

import (
	"strings"
	"testing"
)

func TestClassifyTellsThatADeclineForbidsAnotherAttempt(t *testing.T) {
	t.Parallel()
	path := rewrite(t, file(t, working, "redis://127.0.0.1:1/0", "http://127.0.0.1:1"), payrail, `slots: 2, rules: [
      {when: 'status == 402 && body.advice == "03"', verdict: permanent_failure, processed: yes, again: never}]}`)
	for body, want := range map[string]bool{`{"advice":"03"}`: true, `{"advice":"02"}`: false} {
		for output, line := range map[string]string{"text": "\nagain      never\n", "json": `"again":"never"`} {
			b := setup(t)
			code := b.run(t, "classify", "payrail", "--config", path, "--status", "402", "--body", body, "-o", output)
			if got := strings.Contains(b.stdout.String(), line); code != exitDone || got != want {
				t.Errorf("%s: exit %d: %s%s\nwant %q: %v", body, code, b.stdout, b.stderr, line, want)
			}
		}
	}
}
