package redrive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// A decline beside an error was a decline: an answer whose end nobody could read, or an SDK
// that fills in a status and fails.
func TestAStatusBesideAnErrorIsNoDecline(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	kinds, _ := classKinds()
	b.withKinds(kinds, "")
	for name, mode := range modes {
		c := b.another(mode)
		for _, class := range jobs.Idempotencies {
			for _, status := range []int{100, 302, 400, 402, 404, 410, 422, 429, 501, 700} {
				for cause, err := range map[string]error{"died": errors.New("connection died"), "not-sent": fmt.Errorf("no route: %w", ErrNotSent), "timeout": os.ErrDeadlineExceeded} {
					key := fmt.Sprintf("%s-%d-%s", name, status, cause)
					var deferred *Deferred
					_, got := c.Do(t.Context(), Operation{Kind: string(class), Key: key, Body: []byte(`{}`)},
						func(context.Context, *Attempt) (Reply, error) { return Reply{Status: status}, err })
					if !errors.As(got, &deferred) || deferred.Outcome != Unknown || !strings.Contains(got.Error(), fmt.Sprintf("status %d", status)) {
						t.Errorf("%s %s: %v, want it deferred as unknown, and both told", class, key, got)
					}
				}
			}
			// The effect of a 2xx is certain, whatever became of its body.
			_, got := c.Do(t.Context(), Operation{Kind: string(class), Key: name + "-200", Body: []byte(`{}`)},
				func(context.Context, *Attempt) (Reply, error) {
					return Reply{Status: http.StatusOK, Body: []byte(`{"id":`)}, errors.New("connection died")
				})
			var deferred *Deferred
			if natural := class == jobs.IdempotencyNatural; natural != (got == nil) || !natural && (!errors.As(got, &deferred) || deferred.Outcome != Unknown) {
				t.Errorf("%s: a 200 that was cut short: %v", class, got)
			}
		}
	}
}

// A full backlog was reported as a mistake of the caller.
func TestAFullBacklogIsNoMistakeOfTheCaller(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.withKinds("", "max_backlog: 3, ")
	c := b.another(nil)
	for i := range 3 {
		if r, err := c.Submit(t.Context(), charge(fmt.Sprint("waits-", i))); err != nil || r.Answer != Accepted {
			t.Fatal(r, err)
		}
	}
	_, err := c.Do(t.Context(), charge("one-more"), nil)
	var wrong *Invalid
	if !errors.Is(err, ErrBacklogFull) || errors.As(err, &wrong) || !strings.Contains(err.Error(), "charge/one-more") {
		t.Errorf("durable: %v", err)
	}
	if n := b.gateway.Stats().Requests; n != 0 {
		t.Errorf("%d requests", n)
	}
	if _, err := c.Get(t.Context(), "charge", "one-more"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is kept: %v", err)
	}
	// Light mode asks nobody before it sends; then only what may have acted has room on top.
	light := b.another(func(o *Options) { o.Mode = Light })
	if reply, err := light.Do(t.Context(), charge("light"), nil); err != nil || reply.Status != http.StatusCreated {
		t.Errorf("light: %v", err)
	}
	var failed *HandoverError
	if _, err := light.Do(t.Context(), charge("refused"), func(context.Context, *Attempt) (Reply, error) { return Reply{}, ErrNotSent }); !errors.As(err, &failed) ||
		errors.Is(err, ErrBacklogFull) || failed.Outcome != NotSent {
		t.Errorf("light, not sent: %v", err)
	}
}

// What was spooled forgot what its answer meant, and a 202 was sent again when Redis was back.
func TestASpooled202IsNotSentAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, nil, srv)
	c := b.another(func(o *Options) { o.Mode, o.Spool = Light, b.spoolAt })
	srv.Kill9()
	var kept *HandoverError
	for status, key := range map[int]string{http.StatusAccepted: "taken", http.StatusTemporaryRedirect: "moved"} {
		_, err := c.Do(t.Context(), charge(key), func(context.Context, *Attempt) (Reply, error) { return Reply{Status: status}, nil })
		if !errors.As(err, &kept) || !kept.Spooled {
			t.Fatalf("%s: %v", key, err)
		}
	}
	srv.Restart()
	b.worker()
	for key, want := range map[string]string{"taken": "dead/unsafe applied unknown", "moved": "dead/misconfigured applied no"} {
		await(t, key, func() bool { return strings.HasPrefix(stand(t, c, "charge", key), want) })
	}
	if n := b.gateway.Stats().Requests; n != 0 {
		t.Errorf("%d requests of a worker", n)
	}
}

// The error said "charge/order-1 is : ..." of what is not in the ledger.
func TestAReconcileOfWhatNobodyKnowsTellsNoState(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	_, err := b.Reconcile(t.Context(), "charge", "order-1", time.Time{}, "asked for")
	if err == nil || strings.Contains(err.Error(), "is :") || !strings.Contains(err.Error(), "charge/order-1: ") {
		t.Errorf("got %v", err)
	}
}
