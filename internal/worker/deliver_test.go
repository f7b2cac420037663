package worker

import (
	"testing"
	"time"

	"redrive/internal/jobs"
)

func TestAThousandDueAtOnceAreSentOnceByTwoWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("charge", 1000)
	b.worker()
	b.worker()
	b.ended(20*time.Second, jobs.Succeeded, 1000)
	if n := b.sender.total(); n != 1000 || b.sender.most() != 1 {
		t.Errorf("%d sends, at most %d of one operation; want 1000 and 1", n, b.sender.most())
	}
}
