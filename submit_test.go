package redrive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"redrive/internal/redistest"
)

func TestSubmitManyAnswersEachInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ops := make([]Operation, 1000)
	for i := range ops {
		ops[i] = charge(fmt.Sprintf("order-%d", i))
	}
	ops[500] = ops[7] // said twice
	ops[600].Kind = "transfer"
	ops[700].Key = "with space"
	ops[800] = payout("order-1")
	receipts, err := b.SubmitMany(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range receipts {
		want := Accepted
		switch i {
		case 500:
			want = Duplicate
		case 600, 700:
			want = Rejected
		}
		if r.Answer != want || r.Kind != ops[i].Kind || r.Key != ops[i].Key || (r.Error == "") == (want == Rejected) {
			t.Fatalf("%d: %+v, want %s", i, r, want)
		}
	}
	other := ops[7]
	other.Body = []byte(`{"amount":1}`)
	if r, err := b.Submit(t.Context(), other); err != nil || r.Answer != Conflict || len(r.Differs) != 1 {
		t.Errorf("another body: %+v, %v", r, err)
	}
}

func TestWaitAndEventsTellHowItEnded(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := b.Submit(ctx, charge("before")); err != nil {
		t.Fatal(err)
	}
	type ended struct {
		r   *Record
		err error
	}
	waits := make(chan ended, 20)
	for range cap(waits) {
		go func() { // ends with the operation; read below
			r, err := b.Wait(ctx, "charge", "before")
			waits <- ended{r, err}
		}()
	}
	b.worker()
	for range cap(waits) {
		if e := <-waits; e.err != nil || e.r.State != Succeeded || e.r.Result["id"] == "" || e.r.LastStatus != 201 {
			t.Fatalf("%+v, %v", e.r, e.err)
		}
	}
	// Followed from the beginning of what is kept, and on from the middle.
	seen := func(after string, until int) (events []Event) {
		for e, err := range b.Events(ctx, after) {
			if err != nil {
				t.Fatal(err)
			}
			if events = append(events, e); len(events) == until {
				break
			}
		}
		return events
	}
	all := seen("payrail=0-0", 2)
	if all[0].State != Waiting || all[1].State != Succeeded || all[1].Key != "before" || all[1].At.IsZero() {
		t.Fatalf("%+v", all)
	}
	if rest := seen(all[0].Cursor, 1); rest[0].State != Succeeded {
		t.Errorf("on from the first: %+v", rest)
	}
	for _, err := range b.Events(ctx, "nonsense") {
		var wrong *Invalid
		if !errors.As(err, &wrong) {
			t.Errorf("a cursor that is none: %v", err)
		}
	}
	if _, err := b.Wait(ctx, "charge", "nobody"); !errors.Is(err, ErrNotFound) {
		t.Errorf("wait for nobody: %v", err)
	}
	var wrong *Invalid
	if _, err := b.Wait(ctx, "transfer", "a"); !errors.As(err, &wrong) {
		t.Errorf("wait for a kind that is none: %v", err)
	}
	if _, err := b.Get(ctx, "charge", "a b"); !errors.As(err, &wrong) {
		t.Errorf("get under a key that is none: %v", err)
	}
}

func TestWhoWaitsHearsThatTheClientIsClosed(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c := b.another(nil)
	if _, err := c.Submit(t.Context(), charge("nobody-works")); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 2)
	go func() { // both end with the client
		_, err := c.Wait(t.Context(), "charge", "nobody-works")
		waits <- err
	}()
	go func() {
		var last error
		for _, err := range c.Events(t.Context(), "") {
			last = err
		}
		waits <- last
	}()
	await(t, "the wait", func() bool {
		c.hub.mu.Lock()
		defer c.hub.mu.Unlock()
		return len(c.hub.waiting) == 1
	})
	c.Close()
	for range cap(waits) {
		if err := <-waits; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}

// A wait on a Redis that refuses every command ended without a word of why.
func TestAWaitThatEndsNamesTheTrouble(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, nil, srv)
	srv.Kill9()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var refused *net.OpError
	if _, err := b.Wait(ctx, "charge", "c-1"); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &refused) {
		t.Errorf("got %v, want the deadline and the refused connection", err)
	}
}

func TestCancelAndReconcile(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ctx := t.Context()
	later := charge("later")
	later.NotBefore = time.Now().Add(time.Hour)
	later.Within = time.Hour
	if _, err := b.Submit(ctx, later); err != nil {
		t.Fatal(err)
	}
	if pending, err := b.Cancel(ctx, "charge", "later", "the customer changed their mind"); err != nil || pending {
		t.Fatalf("cancel: pending %v, %v", pending, err)
	}
	if r, err := b.Get(ctx, "charge", "later"); err != nil || r.State != Cancelled {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := b.Cancel(ctx, "charge", "later", "again"); err == nil {
		t.Error("what is cancelled was cancelled again")
	}
	if _, err := b.Cancel(ctx, "charge", "nobody", "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("cancel of nobody: %v", err)
	}
	// One that only the gateway knows.
	if _, err := b.another(func(o *Options) { o.Mode = Light }).Do(ctx, payout("theirs"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reconcile(ctx, "payout", "theirs", time.Now(), "from their statement"); err != nil {
		t.Fatal(err)
	}
	b.worker()
	b.awaitState("payout", "theirs", Succeeded)
	b.wantEffects("theirs", 1)
}

func TestOptionsThatCannotWorkSayWhy(t *testing.T) {
	t.Parallel()
	dep := []Dependency{{Name: "payrail", BaseURL: "http://127.0.0.1:1"}}
	for name, o := range map[string]Options{
		"no redis":                      {},
		"both":                          {RedisURL: "redis://127.0.0.1:1", ConfigFile: "x", Dependencies: dep},
		"no such file":                  {RedisURL: "redis://127.0.0.1:1", ConfigFile: "/nonexistent/redrive.yaml"},
		"a kind of nobody":              {RedisURL: "redis://127.0.0.1:1", Kinds: []Kind{{Name: "charge", Dependency: "payrail", Path: "/v1"}}},
		"twice":                         {RedisURL: "redis://127.0.0.1:1", Dependencies: append(dep, dep...)},
		"no path":                       {RedisURL: "redis://127.0.0.1:1", Dependencies: dep, Kinds: []Kind{{Name: "charge", Dependency: "payrail"}}},
		"a class that is none":          {RedisURL: "redis://127.0.0.1:1", Dependencies: dep, Kinds: []Kind{{Name: "charge", Dependency: "payrail", Path: "/v1", Class: "maybe"}}},
		"a spool that cannot be there":  {RedisURL: "redis://127.0.0.1:1", Dependencies: dep, Kinds: []Kind{{Name: "charge", Dependency: "payrail", Path: "/v1"}}, Spool: "/nonexistent/spool"},
		"a mode that is none":           {RedisURL: "redis://127.0.0.1:1", Mode: 7},
		"published kinds without Redis": {RedisURL: "redis://127.0.0.1:1"},
	} {
		if c, err := New(t.Context(), o); err == nil {
			c.Close()
			t.Errorf("%s: no error", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

func TestKindsFromCode(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c, err := New(t.Context(), Options{RedisURL: b.srv.URL(), Namespace: b.o.Namespace + "x", Dependencies: []Dependency{{Name: "payrail", BaseURL: b.url, Timeout: time.Second}},
		Kinds: []Kind{{Name: "charge", Dependency: "payrail", Path: "/v1/charges", Class: Keyed}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if reply, err := c.Do(t.Context(), charge("code"), nil); err != nil || reply.Status != 201 {
		t.Fatalf("%+v, %v", reply, err)
	}
	b.wantEffects("code", 1)
}
