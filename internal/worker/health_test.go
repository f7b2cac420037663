package worker

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redrive/internal/metrics"
)

// Found by the torture: what was noted just before Redis came back asks for one more
// probe; when that fails Redis is away once more, and coming back closed the same
// channel twice.
func TestAProbeThatFailsRightAfterRedisCameBackIsNewTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHealth(slog.New(slog.DiscardHandler), metrics.New(metrics.Options{}))
		answers := []error{nil, io.EOF, io.EOF, nil}
		probes := 0
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			h.watch(ctx, func(context.Context) error {
				if probes == 0 {
					h.note(io.EOF) // noted while the probe that succeeds is under way
				}
				probes++
				return answers[min(probes, len(answers))-1]
			})
		})
		h.note(io.EOF)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := h.trouble(); err != nil || probes != 4 {
			t.Errorf("trouble %v after %d probes", err, probes)
		}
		if !h.await(make(chan struct{})) {
			t.Error("nobody may go on")
		}
		cancel()
		watching.Wait()
	})
}
