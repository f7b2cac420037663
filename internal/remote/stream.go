package remote

import (
	"bufio"
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
	// idleTimeout is how long nothing may come of an answer that comes bit by bit. A
	// stream of events has a comment every 15 s.
	idleTimeout  = 60 * time.Second
	maxLineBytes = 1 << 20 // of an answer that comes line by line
)

// errIdle ends an answer of which nothing came for a while.
var errIdle = errors.New("nothing came for too long")

// stream is an answer that is read line by line while it comes.
type stream struct {
	client *Client
	ctx    context.Context // of the request: reading ends with it
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	lines  *bufio.Reader
	timer  *time.Timer // cancels ctx when nothing came for a while
	wait   time.Duration
}

// open makes a request whose answer is read line by line. The caller closes it.
func (c *Client) open(ctx context.Context, r Request, header http.Header, body io.Reader, takes, gives string) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{client: c, ctx: ctx, cancel: cancel, wait: cmp.Or(c.idle, idleTimeout)}
	s.timer = time.AfterFunc(s.wait, func() { cancel(errIdle) })
	resp, err := c.send(ctx, r, header, body, takes, gives)
	if err != nil {
		s.close()
		return nil, err
	}
	s.body, s.lines = resp.Body, bufio.NewReaderSize(resp.Body, maxLineBytes)
	return s, nil
}

func (s *stream) close() {
	s.timer.Stop()
	s.cancel(nil)
	if s.body != nil {
		_ = s.body.Close() // all that was of interest was read
	}
}

// next returns the next line without its end; it holds until the line after it is read.
// io.EOF at the end of the answer; a last line without an end was cut.
func (s *stream) next() ([]byte, error) {
	s.timer.Reset(s.wait)
	line, err := s.lines.ReadSlice('\n')
	switch {
	case err == nil:
		return bytes.TrimRight(line, "\r\n"), nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, s.client.strange(http.StatusOK, fmt.Sprintf("its answer has a line of more than %d bytes, which Redrive's API does not send", maxLineBytes))
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	case errors.Is(context.Cause(s.ctx), errIdle):
		err = errIdle
	}
	return nil, s.client.unanswered(err, true)
}

// Exchange sends lines and calls answer for each line that comes back, which may be
// while lines are still being sent; what answer is given holds until it returns. It ends
// with the answer, or with the first error of answer.
func (c *Client) Exchange(ctx context.Context, r Request, lines []byte, answer func(line []byte) error) error {
	s, err := c.open(ctx, r, nil, bytes.NewReader(lines), ndjsonType, ndjsonType)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		line, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = answer(line)
		}
		if err != nil {
			return err
		}
	}
}
