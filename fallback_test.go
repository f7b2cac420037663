package redrive

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"redrive/internal/redistest"
)

// The customer heard that it was charged, and in the ledger it waited, was sent again, or
// died at its deadline as not applied.
func TestASuccessWhileRedisHungWasNotToldOfAnOperationThatWaited(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, func(o *Options) { o.Reserve = 100 * time.Millisecond }, srv)
	b.warm()
	waits := func(key string) Operation {
		o := charge(key)
		o.Deadline = time.Now().Add(2 * time.Hour)
		first := o
		first.NotBefore = time.Now().Add(time.Hour)
		if r, err := b.Submit(t.Context(), first); err != nil || r.State != Waiting {
			t.Fatal(r, err)
		}
		return o
	}
	charged, declined := waits("charged"), waits("declined")
	srv.Freeze()
	reply, ok := b.Do(t.Context(), charged, nil)
	_, no := b.Do(t.Context(), declined, func(context.Context, *Attempt) (Reply, error) {
		return Reply{Status: http.StatusPaymentRequired, Body: []byte(`{}`)}, nil
	})
	srv.Thaw()
	var permanent *Permanent
	if ok != nil || reply.Status != http.StatusCreated || !errors.As(no, &permanent) {
		t.Fatalf("charged: %v; declined: %v", ok, no)
	}
	if r := b.awaitState("charge", "charged", Succeeded); r.Applied != AppliedYes || r.Sends != 1 {
		t.Errorf("%+v", r)
	}
	if r := b.awaitState("charge", "declined", Dead); r.Reason != "permanent" || r.Applied != AppliedNo {
		t.Errorf("%+v", r)
	}
	b.wantEffects("charged", 1)
	if _, err := b.Do(t.Context(), charged, nil); err != nil {
		t.Errorf("again: %v", err)
	}
	b.wantEffects("charged", 1)
}

// A write-ahead that never reached Redis left nothing of a success, and Do again was a second send.
func TestASuccessWhoseWriteAheadWasLostIsKnownToTheLedger(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, func(o *Options) { o.Reserve = 100 * time.Millisecond }, srv)
	b.warm()
	srv.Freeze()
	_, ok := b.Do(t.Context(), charge("c-1"), nil)
	_, no := b.Do(t.Context(), charge("c-2"), func(context.Context, *Attempt) (Reply, error) {
		return Reply{Status: http.StatusPaymentRequired, Body: []byte(`{}`)}, nil
	})
	srv.Kill9() // what was on its way is gone
	srv.Restart()
	var permanent *Permanent
	if ok != nil || !errors.As(no, &permanent) {
		t.Fatalf("charged: %v; declined: %v", ok, no)
	}
	await(t, "the success", func() bool { r, err := b.Get(t.Context(), "charge", "c-1"); return err == nil && r.State == Succeeded })
	if _, err := b.Get(t.Context(), "charge", "c-2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a dead letter of what its customer was told: %v", err)
	}
	if _, err := b.Do(t.Context(), charge("c-1"), nil); err != nil {
		t.Errorf("again: %v", err)
	}
	b.wantEffects("c-1", 1)
}
