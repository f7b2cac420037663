package ledger

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

// A late result comes from a worker whose claim ran out: its attempt was closed as
// unknown (worker_lost) meanwhile.
func TestLateSuccess(t *testing.T) {
	each(t, func(s *suite) {
		s.test("an abandoned attempt after a late success does not lead to another send", func(b *bundle) {
			b.add("o1")
			first := b.start("o1")
			b.lose(first, lost(0))
			d := b.release("o1")
			second := b.begin(d)
			b.wantHow(b.finish(first, succeeded()), HowLate)
			b.want("o1", "attempting")
			b.abandon(d, second.RunID, 0)
			b.want("o1", "succeeded")
			b.wantFlags("o1", jobs.FlagLate)
		})
	})
}

var _ = time.Second
