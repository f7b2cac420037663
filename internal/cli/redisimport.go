package cli

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"sync"
	"unicode/utf8"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
	"redrive/internal/tracing"
	"redrive/internal/wire"
)

// lanes submit at the same time, so that Redis has work while replies travel. All
// lines of one operation take the same lane, one batch after the other: what a file
// says twice is accepted once and then a duplicate, as if submitted line by line.
const lanes = 4

// redisImporter submits the lines of one file.
type redisImporter struct {
	on     *atRedis
	tracer *tracing.Tracer
	seed   maphash.Seed
	by     string // who submits

	lines *lineReader // of run
	tally *tally      // of run
}

func (s *atRedis) importer(ctx context.Context, tracer *tracing.Tracer) (importer, error) {
	if len(s.ours) == 0 {
		return nil, s.unknownKind("")
	}
	if err := s.fit(ctx); err != nil {
		return nil, err
	}
	return &redisImporter{on: s, tracer: tracer, seed: maphash.MakeSeed(), by: s.p.by()}, nil
}

// item is a line on its way to the ledger.
type item struct {
	line inputLine
	sub  *jobs.Submission
	spec jobs.KindSpec
	span submitSpan
}

// run submits everything, or stops at the first error of Redis or of reading. The
// tally then says what became of how many lines. When ctx ends, batches under way
// are still waited for.
func (im *redisImporter) run(ctx context.Context, lines *lineReader, t *tally) error {
	im.lines, im.tally = lines, t
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in := make([]chan item, lanes)
	var working sync.WaitGroup
	for i := range in {
		// The reader sends and closes. Two batches of room: one to submit, one to fill.
		in[i] = make(chan item, 2*ledger.MaxBatch)
		working.Go(func() { // ends when in[i] is closed or ctx ends; run waits
			if err := im.lane(ctx, in[i]); err != nil {
				stop(err)
			}
		})
	}
	read := make(chan error, 1) // of the reader, once: room for it even if nobody waits any more
	go func() {                 // ends with the input or ctx; run waits unless ctx ends: a read of a terminal cannot be stopped
		defer func() {
			for _, c := range in {
				close(c)
			}
		}()
		read <- im.read(ctx, in)
	}()
	var err error
	select {
	case err = <-read:
		if err != nil {
			stop(err)
		}
	case <-ctx.Done():
	}
	working.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// read decodes lines and hands each to its lane.
func (im *redisImporter) read(ctx context.Context, in []chan item) error {
	for ctx.Err() == nil {
		line, err := im.lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &failure{exitUsage, err}
		}
		if line.tooLong {
			if err := im.tally.tooLong(line, im.lines); err != nil {
				return err
			}
			continue
		}
		if line.skipped() {
			im.tally.skip(line)
			continue
		}
		it, err := im.decode(ctx, line)
		if err != nil {
			return err
		}
		if it == nil {
			continue
		}
		var hash maphash.Hash
		hash.SetSeed(im.seed)
		hash.WriteString(string(it.sub.Kind))
		hash.WriteByte('/')
		hash.WriteString(string(it.sub.Key))
		select {
		case in[hash.Sum64()%uint64(len(in))] <- *it:
		case <-ctx.Done():
		}
	}
	return nil
}

// decode returns nil for a line that is rejected.
func (im *redisImporter) decode(ctx context.Context, line inputLine) (*item, error) {
	text, before := line.text()
	sub, err := wire.DecodeSubmission(text)
	if err != nil {
		return nil, im.tally.reject(line, sub, column(text, before, err))
	}
	if err := jobs.CheckName(string(sub.Kind)); err != nil {
		return nil, im.tally.reject(line, sub, column(text, before, &ledger.FieldError{Field: "kind", Err: err}))
	}
	spec, err := im.on.kind(ctx, sub.Kind)
	var binding *ledger.BindingError
	var f *failure
	switch {
	case errors.As(err, &binding), errors.As(err, &f) && f.code == exitUsage:
		return nil, im.tally.reject(line, sub, column(text, before, &ledger.FieldError{Field: "kind", Err: err}))
	case err != nil:
		return nil, err
	}
	return &item{line: line, sub: sub, spec: spec}, nil
}

// placedError is an error at a column of a line, counted in characters from 1.
type placedError struct {
	column int
	err    error
}

func (e *placedError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *placedError) Unwrap() error { return e.err }

// column finds out where in the line an error is. before bytes of the line stand
// before text.
func column(text []byte, before int, err error) *placedError {
	offset := 0
	var line *wire.Error
	var field *ledger.FieldError
	switch {
	case errors.As(err, &line):
		offset = line.Offset
	case errors.As(err, &field):
		offset = wire.Locate(text, field.Field)
	}
	mark := 0
	if before > 0 {
		mark = 1 // the byte order mark is one character
	}
	return &placedError{utf8.RuneCount(text[:min(offset, len(text))]) + mark + 1, err}
}

// lane submits what comes in, in order. It never waits to fill a batch: while one is
// on its way the next gathers, so batches are as full as the input is fast.
func (im *redisImporter) lane(ctx context.Context, in <-chan item) error {
	batches := map[jobs.Dependency]*batch{}
	flush := func() error {
		for _, b := range batches {
			if err := im.submit(ctx, b); err != nil {
				return err
			}
		}
		return nil
	}
	for {
		var it item
		var open bool
		select {
		case it, open = <-in:
		default:
			if err := flush(); err != nil {
				return err
			}
			select {
			case it, open = <-in:
			case <-ctx.Done():
				return nil
			}
		}
		if !open {
			return flush()
		}
		if ctx.Err() != nil {
			return nil
		}
		b := batches[it.spec.Dependency]
		if b == nil {
			b = &batch{}
			batches[it.spec.Dependency] = b
		}
		if err := im.prepare(ctx, it, b); err != nil {
			return err
		}
		if len(b.entries) == ledger.MaxBatch {
			if err := im.submit(ctx, b); err != nil {
				return err
			}
		}
	}
}

// batch is what goes to one dependency in one call.
type batch struct {
	spec    jobs.KindSpec // of the last kind: what submitting asks of it is its dependency's
	items   []item
	entries []ledger.Entry
}

func (im *redisImporter) prepare(ctx context.Context, it item, b *batch) error {
	it.span = beginSubmit(im.tracer, it.sub, it.spec.Dependency)
	entry, err := prepare(it.sub, it.spec)
	if err != nil {
		it.span.end(jobs.Receipt{}, err)
		text, before := it.line.text()
		return im.tally.reject(it.line, it.sub, column(text, before, err))
	}
	more, err := im.on.warnings(ctx, it.sub)
	if err != nil {
		return err
	}
	entry.Warnings = append(entry.Warnings, more...)
	b.spec = it.spec
	b.items, b.entries = append(b.items, it), append(b.entries, entry)
	return nil
}

func (im *redisImporter) submit(ctx context.Context, b *batch) error {
	if len(b.entries) == 0 {
		return nil
	}
	// A call that is cut off leaves its lines in doubt: once sent it is waited for, as
	// long as the client's own time limits allow.
	receipts, err := im.on.ledger.Submit(context.WithoutCancel(ctx), terms.Submit(b.spec, im.by), b.entries)
	if err != nil {
		return err
	}
	for i, r := range receipts {
		b.items[i].span.end(r, nil)
		if err := im.tally.receipt(b.items[i].line, r); err != nil {
			return err
		}
	}
	b.items, b.entries = b.items[:0], b.entries[:0]
	return nil
}
