package torture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
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
	r.mend(r.slots...)
	// Handovers drawn before the shop was told: the room empties as they end.
	for range cap(r.shop.room) {
		r.shop.room <- struct{}{}
	}
	for range cap(r.shop.room) {
		<-r.shop.room
	}
	if !poll(time.Minute, func() bool { open, err := r.open(kindNone, kindConditional); return err == nil && open == 0 }) {
		// What never comes to rest is judged at the end; here it is only not the moment.
		r.shop.count("cuts of the tail left out: something was not at rest in time", 1)
		return
	}
	from := time.Now()
	var open []jobs.Operation
	for range 2 { // what moves on while they are listed may be missing in one list
		page, err := r.direct.List(r.t.Context(), ledger.Filter{States: openStates()}, r.specs)
		if err != nil {
			r.t.Fatal(err)
		}
		open = append(open, page.Items...)
	}
	file, mark := r.tail()
	time.Sleep(s.span)

	begun := r.begins()
	down := time.Now()
	r.server.Kill9()
	last, size := r.tail()
	orders := r.mayBeCut(from, open)
	cut := int64(0)
	if last == file { // else it was rewritten meanwhile, and what is older cannot be told apart
		var err error
		if cut, err = boundary(file, mark+(size-mark)/2); err != nil {
			r.t.Fatal(err)
		}
	}
	if cut > mark {
		if err := os.Truncate(file, cut); err != nil {
			r.t.Fatal(err)
		}
		r.shop.count("bytes of the tail cut off", int(size-cut))
	}
	r.server.Restart()
	r.outage(down, time.Now())
	rolledBack := r.begins() < begun
	again := make([]*handover, 0, len(orders))
	for _, o := range orders {
		again = append(again, &handover{o: o, want: fresh, what: "handed over again after a cut", submission: o.submission(o.said())})
	}
	r.shop.submit(r.t.Context(), again)
	if rolledBack {
		r.resume()
	}
}

// begins returns how many attempts the ledger says were ever begun.
func (r *rig) begins() int64 {
	s, err := r.direct.Snapshot(r.t.Context(), dependency)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.Begins
}

// resume is the person's part after a rollback: the workers must notice it, and hold
// what is not surely safe until somebody says go on.
func (r *rig) resume() {
	if !poll(15*time.Second, func() bool {
		s, err := r.direct.Snapshot(r.t.Context(), dependency)
		return err == nil && !s.RolledBackAt.IsZero()
	}) {
		r.shop.breach("Redis was rolled back over attempts that had begun, and nobody noticed")
		return
	}
	r.shop.count("rollbacks noticed", 1)
	time.Sleep(2 * time.Second) // the workers tell again what they remember
	if err := r.direct.Resume(r.t.Context(), dependency, ledger.Actor{By: "torture", Note: "the tail was cut on purpose"}); err != nil {
		r.t.Fatal(err)
	}
}

// mayBeCut marks and returns the orders whose records may be inside the tail: handed
// over since from, or open then.
func (r *rig) mayBeCut(from time.Time, open []jobs.Operation) []*order {
	ids := map[jobs.ID]bool{}
	for _, o := range open {
		ids[o.ID()] = true
	}
	var out []*order
	for _, o := range r.shop.book.list() {
		o.mu.Lock()
		if o.touchedAt.After(from) || ids[o.id] {
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

// boundary returns the end of the last whole command or transaction that lies before
// limit. A cut anywhere else would not do: Redis (7.0, aof-load-truncated) goes back
// to the last whole command, even within a transaction, and appends what comes next
// to the half transaction; at the start after that it executes the half.
func boundary(file string, limit int64) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return lastBoundary(bufio.NewReaderSize(io.LimitReader(f, limit), 1<<20))
}

func lastBoundary(r *bufio.Reader) (int64, error) {
	var at, end int64
	within := false // a transaction
	for {
		name, n, err := readCommand(r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return end, nil
		}
		if err != nil {
			return 0, fmt.Errorf("append-only file, after byte %d: %w", at, err)
		}
		at += n
		switch strings.ToUpper(name) {
		case "MULTI":
			within = true
		case "EXEC":
			within = false
		}
		if !within {
			end = at
		}
	}
}

// readCommand reads one command and returns its name and length.
func readCommand(r *bufio.Reader) (name string, length int64, err error) {
	number := func(mark byte) (int, error) {
		line, err := r.ReadBytes('\n')
		length += int64(len(line))
		if err != nil {
			return 0, io.ErrUnexpectedEOF
		}
		if line[0] != mark {
			return 0, fmt.Errorf("want %q, got %.40q", mark, line)
		}
		return strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	}
	args, err := number('*')
	if err != nil {
		return "", 0, err
	}
	for i := range args {
		size, err := number('$')
		if err != nil {
			return "", 0, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return "", 0, io.ErrUnexpectedEOF
		}
		length += int64(len(arg))
		if i == 0 {
			name = string(arg[:size])
		}
	}
	return name, length, nil
}

// exempt: a rollback takes attempts out of the ledger that were on the wire.
func exempt(o *order) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inCut
}

func TestTailIsCutBetweenTransactions(t *testing.T) {
	t.Parallel()
	const set = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
	const text = set + "*1\r\n$5\r\nMULTI\r\n" + set + "*1\r\n$4\r\nEXEC\r\n" + set
	transaction := len(text) - len(set) // its end
	for limit := range len(text) + 1 {
		want := 0
		switch {
		case limit == len(text):
			want = len(text)
		case limit >= transaction:
			want = transaction
		case limit >= len(set):
			want = len(set)
		}
		got, err := lastBoundary(bufio.NewReader(strings.NewReader(text[:limit])))
		if err != nil || got != int64(want) {
			t.Errorf("cut at %d: got %d (%v), want %d", limit, got, err, want)
		}
	}
	if _, err := lastBoundary(bufio.NewReader(strings.NewReader("hello\r\n"))); err == nil {
		t.Error("what is no command must be an error")
	}
}
