package operator

import (
	"errors"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

// A requeue could grant any number of attempts, a million to one operation.
func TestNoRequeueLeadsBeyondAThousandAttempts(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.dead("charge/a", "charge/b", "charge/c")
		requeue := func(name string, more *int, want ResultCode) {
			t.Helper()
			plan, err := RequeueWords{MoreAttempts: more}.Plan()
			if err != nil {
				t.Fatal(err)
			}
			dry, err := b.op.DryRun(t.Context(), b.named(name), plan)
			if err != nil || (dry.Refused == 1) != (want == ResultRefused) {
				t.Errorf("dry run of %s: %+v, %v", name, dry, err)
			}
			r, err := b.op.Requeue(t.Context(), b.named(name), plan, ann("x"))
			if err != nil || r.Failed != nil || codes(r)[name] != want {
				t.Fatalf("%s: %+v, %v, want %s", name, r, err, want)
			}
			if want == ResultRefused && !strings.Contains(r.Results[0].Detail, "1000") {
				t.Errorf("it is told %q", r.Results[0].Detail)
			}
		}
		fits, beyond, one := 995, 996, 1 // beside the 5 of the kind
		requeue("charge/a", &beyond, ResultRefused)
		requeue("charge/a", &fits, ResultDone)
		b.attempt(declined, "charge/a")
		requeue("charge/a", &one, ResultRefused) // granted bit by bit
		requeue("charge/a", nil, ResultDone)     // what leaves 3 grants nothing here
		b.wantStates(map[string]jobs.State{"charge/a": jobs.Waiting, "charge/b": jobs.Dead})
	})
	huge := 1001
	_, err := RequeueWords{MoreAttempts: &huge}.Plan()
	var wrong *InvalidError
	if !errors.As(err, &wrong) || wrong.Field != FieldMoreAttempts {
		t.Errorf("1001 at once: %v", err)
	}
}
