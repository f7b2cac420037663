package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// reconnectPause is between two tries to follow events again.
	reconnectPause = time.Second
	// reconnectPatience is for how long that is tried: a worker that is replaced is back
	// sooner.
	reconnectPatience = time.Minute
)

// Follow calls each with the data of every event of a stream (Server-Sent Events), until
// ctx ends, each returns an error, or the stream is not to be had any more. A stream that
// is cut is gone on with where it was left, so that events are missed only if the server
// does not hold them any more; some may come twice.
func (c *Client) Follow(ctx context.Context, r Request, each func(data []byte) error) error {
	f := &follower{client: c, request: r, each: each}
	connected, err := f.follow(ctx)
	if !connected {
		return err
	}
	lost := time.Now()
	for f.mayPass(ctx, err) && time.Since(lost) < cmp.Or(c.patience, reconnectPatience) {
		if !sleep(ctx, max(cmp.Or(c.pause, reconnectPause), retryAfter(err))) {
			break
		}
		if connected, err = f.follow(ctx); connected {
			lost = time.Now()
		}
	}
	return err
}

// follower follows one stream over several connections.
type follower struct {
	client  *Client
	request Request
	each    func([]byte) error

	last string // id of the last event
}

// stopError is an error of each.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *stopError) Unwrap() error { return e.err }

// follow reads one connection to its end.
func (f *follower) follow(ctx context.Context) (connected bool, err error) {
	header := http.Header{}
	if f.last != "" {
		header.Set("Last-Event-ID", f.last)
	}
	s, err := f.client.open(ctx, f.request, header, nil, "", eventType)
	if err != nil {
		return false, err
	}
	defer s.close()
	var data []byte
	id := ""
	for {
		line, err := s.next()
		if errors.Is(err, io.EOF) {
			return true, f.client.unanswered(io.ErrUnexpectedEOF, true) // it has no end of its own
		}
		if err != nil {
			return true, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			if id != "" {
				f.last = id
			}
			if data != nil {
				if err := f.each(data); err != nil {
					return true, &stopError{err}
				}
			}
			data, id = nil, ""
		case string(name) == "id":
			id = string(value)
		case string(name) == "data":
			if data == nil {
				data = []byte{}
			} else {
				data = append(data, '\n')
			}
			if data = append(data, value...); len(data) > maxLineBytes {
				return true, f.client.strange(http.StatusOK, fmt.Sprintf("it sends an event of more than %d bytes, which Redrive's API does not", maxLineBytes))
			}
		}
	}
}

// mayPass reports whether a stream that ended with err may be had again.
func (f *follower) mayPass(ctx context.Context, err error) bool {
	var stop *stopError
	var unanswered *UnansweredError
	var strange *StrangeError
	switch {
	case ctx.Err() != nil, errors.As(err, &stop):
		return false
	case errors.As(err, &unanswered):
		return !unanswered.Certificate()
	case errors.As(err, &strange):
		return strange.Passing()
	}
	return Is(err, Busy, Closing, RedisAway, Timeout)
}

func retryAfter(err error) time.Duration {
	var p *Problem
	if errors.As(err, &p) {
		return p.RetryAfter
	}
	return 0
}

// sleep waits; false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
