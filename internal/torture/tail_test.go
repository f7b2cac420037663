package torture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cutTail rolls Redis back: kill -9, the end of the append-only file cut off, start.
// Only keyed and natural operations run meanwhile, those of the other classes are at
// rest before the part that may be cut, so that what the rollback makes the workers
// send again is sent under its key. What the shop was told is accepted within that
// part is handed over again.
func (r *rig) cutTail(s step) {
	r.shop.onlySafe.Store(true)
	defer r.shop.onlySafe.Store(false)
	r.misbehave(calm)
	// Handovers drawn before the shop was told: the room empties as they end.
	for range cap(r.shop.room) {
		r.shop.room <- struct{}{}
	}
	for range cap(r.shop.room) {
		<-r.shop.room
	}
	if !poll(time.Minute, func() bool { n, err := r.open(kindNone, kindConditional); return err == nil && n == 0 }) {
		r.shop.breach("before a cut of the tail: the kinds of class none and conditional did not come to rest within a minute")
		return
	}
	file, mark := r.tail()
	from := time.Now()
	time.Sleep(s.span)

	down := time.Now()
	r.server.Kill9()
	after, size := r.tail()
	if after != file || size <= mark {
		r.server.Restart() // rewritten meanwhile: what is old and what is new cannot be told apart
		r.outage(down, time.Now())
		return
	}
	orders := r.mayBeCut(from)
	// Anywhere: Redis itself goes back to the last whole command or transaction
	// (aof-load-truncated).
	if err := os.Truncate(file, mark+(size-mark)/2); err != nil {
		r.t.Fatal(err)
	}
	r.server.Restart()
	r.outage(down, time.Now())
	again := make([]*handover, 0, len(orders))
	for _, o := range orders {
		h := &handover{o: o, want: fresh, what: "handed over again after a cut"}
		h.submission = o.submission(o.said())
		again = append(again, h)
	}
	r.shop.submit(r.t.Context(), again)
}

// mayBeCut marks and returns the orders whose records may be inside the tail: handed
// over since from, or not ended then.
func (r *rig) mayBeCut(from time.Time) []*order {
	var out []*order
	for _, o := range r.shop.book.list() {
		if o.id.Kind != kindKeyed && o.id.Kind != kindNatural {
			continue
		}
		o.mu.Lock()
		touched := o.touchedAt.After(from)
		recent := o.accepted && o.touchedAt.After(from.Add(-2*time.Minute))
		if touched || recent {
			o.inCut = true
			if o.accepted {
				out = append(out, o)
			}
		}
		o.mu.Unlock()
	}
	return out
}

// tail returns the file that Redis appends to, and its size.
func (r *rig) tail() (file string, size int64) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(r.server.Socket()), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) == 0 {
		r.t.Fatalf("no append-only file: %v", err)
	}
	// Their numbers count up: the longest name, then the greatest, is the last.
	slices.SortFunc(files, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	file = files[len(files)-1]
	info, err := os.Stat(file)
	if err != nil {
		r.t.Fatal(err)
	}
	return file, info.Size()
}

// exempt: a rollback takes attempts out of the ledger that were on the wire.
func exempt(o *order) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inCut
}
