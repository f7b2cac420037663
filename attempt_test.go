package redrive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A sender that left before its own Send had ended was believed that nothing was sent, and
// the operation was sent a second time.
func TestASenderThatLeavesItsSendBehindKnowsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.Mode = Light })
	arrived, release := make(chan struct{}), make(chan struct{})
	gateway := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	t.Cleanup(gateway.Close)
	c := b.another(func(o *Options) {
		o.ConfigFile, o.Namespace = "", b.o.Namespace+"left"
		o.Dependencies = []Dependency{{Name: "payrail", BaseURL: gateway.URL}}
		o.Kinds = []Kind{{Name: "payout", Dependency: "payrail", Path: "/v1/charges"}}
	})
	var sending sync.WaitGroup
	_, err := c.Do(t.Context(), payout("p-1"), func(ctx context.Context, a *Attempt) (Reply, error) {
		sending.Go(func() { _, _ = a.Send(ctx) }) // ends with the attempt's context
		<-arrived
		return Reply{}, fmt.Errorf("gave up: %w", ErrNotSent)
	})
	close(release)
	sending.Wait()
	var deferred *Deferred
	if !errors.As(err, &deferred) || deferred.Outcome != Unknown || deferred.Receipt.State != Dead {
		t.Errorf("got %v, want an unknown outcome that a person looks at", err)
	}
}

// Nothing is sent of an attempt that has been judged.
func TestAnAttemptIsOverWhenItsSenderHasReturned(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var kept *Attempt
	var deferred *Deferred
	_, err := b.Do(t.Context(), payout("p-1"), func(_ context.Context, a *Attempt) (Reply, error) {
		kept = a
		return Reply{}, ErrNotSent
	})
	if !errors.As(err, &deferred) || deferred.Outcome != NotSent {
		t.Fatalf("got %v", err)
	}
	if _, err := kept.Send(t.Context()); err == nil {
		t.Error("it was sent all the same")
	}
	if n := b.gateway.Stats().Requests; n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestARedisThatRepeatsCommandsIsRefused(t *testing.T) {
	t.Parallel()
	nowhere := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody is asked") }
	for name, rdb := range map[string]redis.UniversalClient{
		"one server, by default": redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: nowhere}),
		"a cluster":              redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, Dialer: nowhere}),
		"a ring":                 redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, Dialer: nowhere}),
	} {
		t.Cleanup(func() { _ = rdb.Close() })
		if c, err := New(t.Context(), Options{Redis: rdb, Dependencies: []Dependency{{Name: "payrail", BaseURL: "http://127.0.0.1:1"}}}); err == nil {
			c.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAKindOfAnotherDependencyIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	if _, err := b.Submit(t.Context(), charge("c-1")); err != nil {
		t.Fatal(err)
	}
	c, err := New(t.Context(), Options{RedisURL: b.srv.URL(), Namespace: b.o.Namespace, Dependencies: []Dependency{{Name: "bank", BaseURL: b.url}},
		Kinds: []Kind{{Name: "charge", Dependency: "bank", Path: "/v1/charges", Class: Keyed}}})
	if err == nil {
		c.Close()
		t.Error("no error: its operations would be sent, and could not be handed over")
	}
}

func TestAClientIsClosedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c := b.another(nil)
	var closing sync.WaitGroup
	for range 4 {
		closing.Go(c.Close) // ends when the client has
	}
	closing.Wait()
}
