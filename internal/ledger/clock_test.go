package ledger

import (
	"testing"
	"time"

	"redrive/internal/redistest"
)

func TestASmallStepBackOfTheClockRepeatsNoInstant(t *testing.T) {
	t.Parallel()
	store, rdb := redistest.Mini(t)
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		back time.Duration
		want time.Time // what scripts take for now
	}{
		{30 * time.Second, at},
		{59 * time.Second, at},
		{2 * time.Minute, at.Add(-2 * time.Minute)},
	} {
		store.FlushAll()
		store.SetTime(at)
		b := setup(t, rdb)
		b.add("o1", deadline("1h"))
		b.releaseUpTo(0) // notes the instant
		store.SetTime(at.Add(-c.back))
		b.add("o2", deadline("1h"))
		if got := b.get("o2").DeadlineAt.Add(-time.Hour); !got.Equal(c.want) {
			t.Errorf("%s back: now is %s, want %s", c.back, got, c.want)
		}
	}
}
