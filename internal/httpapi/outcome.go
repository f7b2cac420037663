package httpapi

import (
	"context"
	"sync"
)

// keptOutcomes of bulk actions are kept: each is some MB at most, and what became of the
// operations is in the ledger.
const keptOutcomes = 4

// outcomes remembers what the last bulk actions came to, for those who did not wait.
// Safe for concurrent use.
type outcomes struct {
	mu   sync.Mutex // guards kept
	kept []BulkDone // the newest last
}

// keep remembers what an action came to. One without a batch was no bulk action.
func (o *outcomes) keep(done BulkDone) {
	if done.Batch == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, done)
	if len(o.kept) > keptOutcomes {
		o.kept = append([]BulkDone{}, o.kept[1:]...) // so that the first is let go
	}
}

func (o *outcomes) of(batch string) (BulkDone, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, done := range o.kept {
		if *done.Batch == batch {
			return done, true
		}
	}
	return BulkDone{}, false
}

func (d *door) outcome(_ context.Context, in *BatchPath) (*body[BulkDone], error) {
	done, ok := d.outcomes.of(in.Batch)
	if !ok {
		return nil, notFound.because("%s: it is not over, another worker did it, or it is long ago: /v1/batches/%s counts its operations", in.Batch, in.Batch)
	}
	return &body[BulkDone]{done}, nil
}
