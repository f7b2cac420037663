package worker

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"sync"
	"time"

	"redrive/internal/ledger"
)

// run is one life of a worker, from Start to Stop.
type run struct {
	o         Options
	plan      *plan
	startedAt time.Time

	stopOnce sync.Once
	ended    chan struct{} // closed when everything has ended
}

func newRun(o Options, p *plan) *run {
	return &run{o: o, plan: p, startedAt: time.Now(), ended: make(chan struct{})}
}

func (r *run) start(ctx context.Context) error { return r.announce(ctx) }

// announce makes this process and its kinds known. It is repeated whenever Redis
// comes back, because it may come back empty.
func (r *run) announce(ctx context.Context) error {
	if err := r.o.Ledger.CheckSchema(ctx); err != nil {
		return err
	}
	if err := r.o.Ledger.PublishKinds(ctx, r.plan.specs); err != nil {
		return err
	}
	return r.beat(ctx)
}

func (r *run) beat(ctx context.Context) error {
	return r.o.Ledger.Beat(ctx, ledger.Worker{ID: r.o.ID, Version: r.o.Version, StartedAt: r.startedAt.UTC(),
		Dependencies: r.plan.names(), Kinds: r.plan.kinds()})
}

func (r *run) stop(bool) {
	r.stopOnce.Do(func() { close(r.ended) })
	<-r.ended
}

func (r *run) reasons() []string { return nil }

func (r *run) alive() error { return nil }

// newRunID draws 128 random bits: who holds a run id holds the claim.
func newRunID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

