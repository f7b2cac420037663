package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"redrive/internal/jobs"
)

// maxLineBytes bounds one line of a file: a body of the greatest size, in base64 or
// with escapes, and the rest.
const maxLineBytes = 2 * jobs.MaxBodyBytes

var byteOrderMark = []byte("\xef\xbb\xbf")

// inputLine is one line of a file of submissions.
type inputLine struct {
	number  int
	raw     []byte // as read, with its end of line
	tooLong bool   // raw is only its beginning; see lineReader.rest
}

// text is the line without end of line and byte order mark, and how many bytes of
// raw stand before it.
func (l inputLine) text() (text []byte, before int) {
	text = bytes.TrimRight(l.raw, "\r\n")
	if l.number == 1 && bytes.HasPrefix(text, byteOrderMark) {
		return text[len(byteOrderMark):], len(byteOrderMark)
	}
	return text, 0
}

// skipped reports whether the line says nothing: blank, or begins with #.
func (l inputLine) skipped() bool {
	text, _ := l.text()
	text = bytes.TrimSpace(text)
	return len(text) == 0 || text[0] == '#'
}

// lineReader reads lines of bounded length.
type lineReader struct {
	r      *bufio.Reader
	number int
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, maxLineBytes+1)}
}

// next returns the next line, which stays the caller's; io.EOF after the last.
func (r *lineReader) next() (inputLine, error) {
	text, err := r.r.ReadSlice('\n')
	if len(text) == 0 && err != nil {
		return inputLine{}, err
	}
	r.number++
	line := inputLine{number: r.number, raw: bytes.Clone(text), tooLong: errors.Is(err, bufio.ErrBufferFull)}
	if err != nil && !line.tooLong && !errors.Is(err, io.EOF) {
		return inputLine{}, fmt.Errorf("read line %d: %w", line.number, err)
	}
	return line, nil
}

// rest hands what next left of a line that is too long to w.
func (r *lineReader) rest(w io.Writer) error {
	for {
		text, err := r.r.ReadSlice('\n')
		if _, written := w.Write(text); written != nil {
			return written
		}
		switch {
		case err == nil || errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("read line %d: %w", r.number, err)
		}
	}
}
