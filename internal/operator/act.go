package operator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"redrive/internal/ledger"
)

// Order says in whose name and why an action is done.
type Order struct {
	By   string // for the audit
	Note string // why, for the audit: see [CheckNote]
	// ProgressFunc, if not nil, is told how far the action is: when it is written down,
	// before anything is changed, and from then on about every hundred operations. It
	// is called by the goroutine that called the action, which waits for it.
	ProgressFunc func(Progress)
}

// Progress is how far an action is.
type Progress struct {
	Batch    string // "" where one operation is no batch
	Planned  int    // operations that were chosen
	Acted    int    // of those, refused and missing ones included
	Waiting  bool   // for what becomes of the canaries
	Canaries int    // that it waits for
}

// actor is who acts, under a new batch.
func (o *Operator) actor(ctx context.Context, order Order) (ledger.Actor, error) {
	now, err := o.ledger.Now(ctx)
	return ledger.Actor{By: order.By, Note: order.Note, Batch: newBatch(now)}, err
}

// newBatch names a bulk action: when, and what nobody else draws.
func newBatch(now time.Time) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return "b-" + now.UTC().Format("20060102-150405") + "-" + hex.EncodeToString(random[:])
}

// tellEvery operations it is told how far an action is.
const tellEvery = 100

// actFunc does one thing to number i of a set. An error is one of Redis.
type actFunc func(ctx context.Context, i int, c Chosen) (Result, error)

// carryOut does one thing to each of set. At the first error of Redis it stops: the
// results of what was not reached, or whose reply was lost, have no Result. tell, if not
// nil, is called now and then with how many were acted on.
func (o *Operator) carryOut(ctx context.Context, set []Chosen, do actFunc, tell func(acted int)) ([]Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	results := make([]Result, len(set))
	next := make(chan int) // sent and closed below, taken by the hands
	var acted atomic.Int64
	var working sync.WaitGroup
	for range min(o.options.Hands, len(set)) {
		working.Go(func() { // ends when next is closed; carryOut waits
			for i := range next {
				results[i].Operation = set[i].Place.ID
				if ctx.Err() != nil {
					continue
				}
				if set[i].Op == nil && !set[i].anyway {
					results[i] = Result{Operation: set[i].Place.ID, Result: ResultMissing, Detail: "no such operation"}
					acted.Add(1)
					continue
				}
				r, err := do(ctx, i, set[i])
				if err != nil {
					stop(err)
					continue
				}
				results[i] = r
				acted.Add(1)
			}
		})
	}
	for i := range set {
		next <- i
		if tell != nil && i%tellEvery == tellEvery-1 {
			tell(int(acted.Load()))
		}
	}
	close(next)
	working.Wait()
	return results, context.Cause(ctx)
}
