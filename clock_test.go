package redrive

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"redrive/internal/ledger"
)

// apart has the client believe that Redis' clock goes so much before its own.
func (c *clock) apart(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.local = time.Now()
	c.redis = c.local.Round(0).Add(by)
}

func tooEarly(context.Context, *Attempt) (Reply, error) {
	return Reply{Status: http.StatusTooEarly}, nil
}

// The instant that a span became was one of the service's clock: while Redis' went behind
// it, a worker sent after the span was over.
func TestASpanThatWasHandedOverEndedByTheServicesClock(t *testing.T) {
	t.Parallel()
	const behind, within = -20 * time.Minute, time.Hour
	b := setup(t, func(o *Options) { o.Mode = Light })
	b.clock.apart(behind)
	until := time.Now().Add(within)
	span, instant := charge("span"), charge("instant")
	span.Within, instant.Deadline = within, until
	for o, want := range map[*Operation]time.Time{&span: until.Add(behind), &instant: until} { // an instant says for itself what it means
		var deferred *Deferred
		if _, err := b.Do(t.Context(), *o, tooEarly); !errors.As(err, &deferred) {
			t.Fatal(err)
		}
		r, err := b.Get(t.Context(), o.Kind, o.Key)
		if err != nil {
			t.Fatal(err)
		}
		if off := r.DeadlineAt.Sub(want).Abs(); off > 5*time.Minute {
			t.Errorf("%s: the deadline is %s, want %s", o.Key, r.DeadlineAt, want)
		}
		if off := r.CreatedAt.Sub(time.Now().Add(behind)).Abs(); off > 5*time.Minute {
			t.Errorf("%s: created %s", o.Key, r.CreatedAt)
		}
	}
}

// The ledger refused it, and Do called that a mistake of the caller.
func TestADeadlineThatIsOverByRedisClockWasInvalid(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		b := setup(t, mode)
		b.clock.apart(2 * time.Minute)
		o := charge("ahead")
		o.Deadline = time.Now().Add(time.Minute)
		_, err := b.Do(t.Context(), o, func(context.Context, *Attempt) (Reply, error) {
			t.Error("the sender is called")
			return Reply{}, ErrNotSent
		})
		if !errors.Is(err, ErrDeadline) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// Where its clock is not known here yet.
	b := setup(t, nil)
	o := charge("refused")
	o.Deadline = time.Now().Add(-time.Second)
	spec, err := b.spec(o.Kind)
	if err != nil {
		t.Fatal(err)
	}
	d := &doing{c: b.Client, o: o, spec: spec, s: o.submission(spec)}
	entry, err := ledger.Prepare(d.s, spec)
	if err != nil {
		t.Fatal(err)
	}
	d.started = time.Now()
	d.began, d.deadline = d.started, time.Hour // as by a clock that goes behind
	_, receipt, err := d.writeAhead(t.Context(), entry, ledger.NewRunID())
	if err != nil || receipt.Answer != Rejected {
		t.Fatal(receipt, err)
	}
	var wrong *Invalid
	if _, err := d.known(t.Context(), receipt, NotSent, nil); !errors.Is(err, ErrDeadline) || errors.As(err, &wrong) {
		t.Errorf("written ahead: got %v", err)
	}
	if err := d.deferUnsent(t.Context(), entry); !errors.Is(err, ErrDeadline) || errors.As(err, &wrong) {
		t.Errorf("unsent: got %v", err)
	}
	b.wantNothingKept(o)
}

func TestTheClockOfRedisAsItIsKnown(t *testing.T) {
	t.Parallel()
	var c clock
	now := time.Now()
	if got := c.at(now); !got.Equal(now) {
		t.Errorf("before it was read: %s of %s", got, now)
	}
	c.apart(time.Hour)
	if got := c.at(c.local.Add(-time.Minute)); !got.Equal(c.redis.Add(-time.Minute)) {
		t.Errorf("%s, want a minute before %s", got, c.redis)
	}
	b := setup(t, nil)
	if err := b.ready(t.Context()); err != nil || b.clock.now().IsZero() {
		t.Errorf("it was not read: %v", err)
	}
}
