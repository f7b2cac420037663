package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/remote"
	"redrive/internal/tracing"
	"redrive/internal/wire"
)

// A file goes to the server in parts, each one request: so that no more than a part is
// in doubt when a connection is cut, that a source that pauses keeps no request waiting,
// and that proxies which hold a body back until it is whole do no harm.
const (
	partBytes = 4 << 20
	partLines = 10_000
	// partQuiet is how long a part waits for its next line before it goes as it is.
	partQuiet = 100 * time.Millisecond
	// partGrace is what a part that is under way is given to end when the person interrupts.
	partGrace = 30 * time.Second
)

// serverImporter hands the lines of one file to a worker.
type serverImporter struct {
	on     *atServer
	tracer *tracing.Tracer
	tally  *tally // of run

	answered int // number of the last line of the file that was answered
}

func (s *atServer) importer(ctx context.Context, tracer *tracing.Tracer) (importer, error) {
	known, err := s.kinds(ctx)
	if err == nil && len(known) == 0 {
		err = s.unknownKind("")
	}
	return &serverImporter{on: s, tracer: tracer}, err
}

// sentLine is a line of a part.
type sentLine struct {
	line inputLine
	sub  *jobs.Submission
	text []byte // as it is sent
	span submitSpan
}

func (im *serverImporter) run(ctx context.Context, lines *lineReader, t *tally) error {
	im.tally = t
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in := make(chan sentLine, partLines) // the reader sends and closes; room for a part while one is under way
	read := make(chan error, 1)          // of the reader, once
	go func() {                          // ends with the input or ctx; run waits unless ctx ends: a read of a terminal cannot be stopped
		defer close(in)
		read <- im.read(ctx, lines, in)
	}()
	for {
		part, open := gather(ctx, in)
		if len(part) > 0 {
			if err := im.send(ctx, part); err != nil {
				stop(err)
				return err
			}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !open:
			return <-read
		}
	}
}

// read hands on each line that is a submission, and tells of the others.
func (im *serverImporter) read(ctx context.Context, lines *lineReader, in chan<- sentLine) error {
	for ctx.Err() == nil {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &failure{exitUsage, err}
		}
		if line.tooLong {
			err = im.tally.tooLong(line, lines)
		} else if line.skipped() {
			im.tally.skip(line)
		} else {
			err = im.decode(ctx, line, in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decode checks a line as the worker would, so that what is wrong is told with its column.
func (im *serverImporter) decode(ctx context.Context, line inputLine, in chan<- sentLine) error {
	text, before := line.text()
	sub, err := wire.DecodeSubmission(text)
	if err == nil {
		if wrong := jobs.CheckName(string(sub.Kind)); wrong != nil {
			err = &ledger.FieldError{Field: "kind", Err: wrong}
		}
	}
	if err != nil {
		return im.tally.reject(line, sub, column(text, before, err))
	}
	out := sentLine{line: line, sub: sub, text: bytes.TrimSpace(text)}
	if given := sub.Traceparent; given == "" { // a line that has one goes as it is
		out.span = beginSubmit(im.tracer, sub, im.on.known[sub.Kind].Dependency)
		if sub.Traceparent != "" {
			out.text = withField(out.text, "traceparent", []byte(fmt.Sprintf("%q", sub.Traceparent)))
		}
	}
	select {
	case in <- out:
	case <-ctx.Done():
	}
	return nil
}

// gather waits for a line and takes those that follow it at once; open is false after the
// last.
func gather(ctx context.Context, in <-chan sentLine) (part []sentLine, open bool) {
	size := 0
	quiet := time.NewTimer(partQuiet)
	defer quiet.Stop()
	var pause <-chan time.Time // nil before the first line: there is all the time for that
	for size < partBytes && len(part) < partLines {
		select {
		case l, ok := <-in:
			if !ok {
				return part, false
			}
			part, size = append(part, l), size+len(l.text)
			quiet.Reset(partQuiet)
			pause = quiet.C
		case <-pause:
			return part, true
		case <-ctx.Done():
			return nil, true // nothing of it was sent
		}
	}
	return part, true
}

// lineAnswer is one line of the answers, which the last of them ends.
type lineAnswer struct {
	Line      int      `json:"line"`
	Operation *jobs.ID `json:"operation"` // wins over the receipt's
	jobs.Receipt
	Type   string         `json:"type"`
	Errors []remote.Place `json:"errors"`

	End     bool            `json:"end"`
	Problem *remote.Problem `json:"problem"`
}

// send makes one request of a part and tells of its answers. What has no answer may or
// may not have been taken.
func (im *serverImporter) send(ctx context.Context, part []sentLine) error {
	var body bytes.Buffer
	for _, l := range part {
		body.Write(l.text)
		body.WriteByte('\n')
	}
	// A part that is cut off leaves its lines in doubt: once sent it is waited for.
	asked, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(partGrace, cancel) })()
	whole, next := false, 0
	err := im.on.client.Exchange(asked, remote.Request{Method: http.MethodPost, Path: []string{"operations:import"}}, body.Bytes(), func(text []byte) error {
		var a lineAnswer
		switch err := json.Unmarshal(text, &a); {
		case err != nil || whole:
			return im.on.client.Strange("its answer to an import is not that of Redrive's API")
		case a.End:
			whole = true
			if a.Problem != nil {
				a.Problem.Server = im.on.client.Server()
				return a.Problem
			}
			return nil
		case a.Line <= next || a.Line > len(part):
			return im.on.client.Strange(fmt.Sprintf("it answers line %d of %d", a.Line, len(part)))
		}
		next = a.Line
		return im.tell(part[next-1], a)
	})
	switch {
	case err == nil && !whole:
		err = &remote.UnansweredError{Server: im.on.client.Server(), Err: io.ErrUnexpectedEOF, Sent: true}
	case err == nil && next < len(part):
		err = im.on.client.Strange(fmt.Sprintf("it left line %d without an answer", part[next].line.number))
	}
	for _, l := range part[next:] {
		l.span.end(jobs.Receipt{}, err)
	}
	if err == nil || im.answered == 0 {
		return err
	}
	return &noted{err, fmt.Sprintf("all up to line %d are answered", im.answered)}
}

// tell counts one answer.
func (im *serverImporter) tell(l sentLine, a lineAnswer) error {
	im.answered = l.line.number
	r := a.Receipt
	r.Operation = l.sub.ID()
	if a.Operation != nil {
		r.Operation = *a.Operation
	}
	if len(a.Errors) > 0 {
		wrong := placed(a.Errors, nil)
		l.span.end(jobs.Receipt{}, wrong)
		text, before := l.line.text()
		return im.tally.reject(l.line, l.sub, column(text, before, wrong))
	}
	problem := remote.Problem{Type: a.Type}
	r.Later, r.Barred = problem.Name() == remote.BacklogFull, problem.Name() == remote.NotInState
	l.span.end(r, nil)
	return im.tally.receipt(l.line, r)
}
