package httpapi

import (
	"context"
	"sync"
)

// actions go on without the request that asked for them.
type actions struct {
	running sync.WaitGroup
	ctx     context.Context // of all of them: it ends with close, and no request's is theirs
	cancel  context.CancelFunc

	mu   sync.Mutex // guards over, and running against one that begins while close waits
	over bool
}

func newActions() *actions {
	a := &actions{}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// begin runs do in the background; false, and nothing is done, after close.
func (a *actions) begin(do func(context.Context)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	a.running.Go(func() { do(a.ctx) }) // ends with do; close waits
	return true
}

// close cuts all off and waits for them. Idempotent.
func (a *actions) close() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.cancel()
	a.running.Wait()
}
