package redrive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"redrive/internal/redistest"
)

func TestRoundTripsOfDo(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for mode, want := range map[Mode]int64{Light: 0, Durable: 2} {
		c, trips := b.counted(mode)
		for i := range 5 { // Redis has the scripts from the first on
			if _, err := c.Do(t.Context(), charge(fmt.Sprintf("warm-%d-%d", mode, i)), nothing); err != nil {
				t.Fatal(err)
			}
		}
		const calls = 10
		for i := range calls {
			if _, err := c.Do(trips.mark(t.Context()), charge(fmt.Sprintf("order-%d-%d", mode, i)), nothing); err != nil {
				t.Fatal(err)
			}
		}
		if n := trips.n.Load(); n != want*calls {
			t.Errorf("mode %d: %d round trips for %d successes, want %d each", mode, n, calls, want)
		}
	}
}

// noBudget takes the budget of the dependency away.
func (b *bundle) noBudget() {
	b.Helper()
	if _, err := b.Client.ledger.Override(b.Context(), "payrail", map[string]int64{"ratio": 0, "floor": 0, "cap": 0}, time.Hour, b.who("test")); err != nil {
		b.Fatal(err)
	}
}

// stops makes a read that fails, and holds why it was not repeated.
func (b *bundle) stops(ctx context.Context, c *Client, want Stop) {
	b.Helper()
	var stopped *Stopped
	_, err := c.Call(ctx, "payrail", (&scripted{turn: []func() (Reply, error){status(500)}}).read)
	if !errors.As(err, &stopped) || stopped.Reason != want || stopped.Tries != 1 {
		b.Errorf("%v, want it stopped by the %s after one try", err, want)
	}
}

// Who is refused by the used-up budget does not ask Redis to hear it.
func TestACallThatTheBudgetRefusesMakesNoRoundTrip(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.noBudget()
	c, trips := b.counted(Durable)
	b.stops(t.Context(), c, StopBudget) // asks
	c.budget.mu.Lock()
	known := c.budget.until["payrail"]
	known.at = known.at.Add(time.Hour) // however slow the machine is
	c.budget.until["payrail"] = known
	c.budget.mu.Unlock()
	for range 100 {
		b.stops(trips.mark(t.Context()), c, StopBudget)
	}
	if n := trips.n.Load(); n != 0 {
		t.Errorf("%d round trips of 100 refused calls", n)
	}
}

// When all reads of a service failed at once each of them asked the gate, on a connection
// of its own: a hundred services brought Redis down with it, and hand-overs were lost.
func TestReadsThatFailTogetherDoNotAllAskRedis(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		frozen bool
		want   Stop
	}{"no budget": {false, StopBudget}, "no answer": {true, StopLedger}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Server(t)
			b := setup(t, nil, srv)
			b.noBudget()
			c, trips := b.counted(Durable)
			if tc.frozen {
				srv.Freeze()
				defer srv.Thaw()
			}
			const reads = 200
			var under sync.WaitGroup
			all := make(chan struct{}) // closed when every read is under way
			var here sync.WaitGroup
			here.Add(reads)
			for range reads {
				under.Go(func() { // ends with its one try
					var stopped *Stopped
					_, err := c.Call(trips.mark(t.Context()), "payrail", func(context.Context) (Reply, error) {
						here.Done()
						<-all
						return Reply{Status: 500}, nil
					})
					if !errors.As(err, &stopped) || stopped.Reason != tc.want {
						t.Errorf("%v, want it stopped by the %s", err, tc.want)
					}
				})
			}
			here.Wait()
			close(all)
			under.Wait()
			if n := trips.n.Load(); n == 0 || n > reads/10 {
				t.Errorf("%d reads that failed together made %d round trips", reads, n)
			}
		})
	}
}

// nothing is a sender that answers at once: what is left is the client's own.
func nothing(context.Context, *Attempt) (Reply, error) {
	return Reply{Status: 201, Body: []byte(`{"id":"ch_1"}`)}, nil
}
