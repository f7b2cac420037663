package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// rejects is the file of lines that an import did not take: each unchanged below a
// line that says why, so that it can be mended and imported again. It holds payload,
// so only its owner may read it. A nil *rejects takes nothing.
type rejects struct {
	path string
	file *os.File
	w    *bufio.Writer
	n    int
	open bool // the line written last has no end of line yet
}

// createRejects never overwrites: a file of that name may be the last import's, or
// the very file that is being imported. An empty one, which an import that was killed
// leaves behind, is taken over. "" makes none.
func createRejects(path string) (*rejects, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		if f, err = takeOver(path, err); err != nil {
			return nil, usagef("--rejects: %w", err)
		}
	case err != nil:
		return nil, usagef("--rejects: %w", err)
	default:
		_ = lockFile(f) // against being taken over while it is empty; where files cannot be locked none is
	}
	return &rejects{path: path, file: f, w: bufio.NewWriter(f)}, nil
}

// takeOver opens a file that is there already if it is empty and nobody writes it; else
// the error is exists.
func takeOver(path string, exists error) (_ *os.File, err error) {
	empty := func(info fs.FileInfo) bool { return info.Mode().IsRegular() && info.Size() == 0 }
	if info, err := os.Lstat(path); err != nil || !empty(info) { // what is no file, such as a pipe, is not even opened
		return nil, exists
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, exists
	}
	defer func() {
		if err != nil {
			_ = f.Close() // nothing was written
		}
	}()
	if err := lockFile(f); err != nil {
		return nil, exists // an import is at work that has rejected nothing yet
	}
	ours, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if there, err := os.Lstat(path); err != nil || !os.SameFile(ours, there) || !empty(ours) { // that import has ended meanwhile
		return nil, exists
	}
	return f, f.Chmod(0o600)
}

func (r *rejects) write(number int, why string, raw []byte) error {
	if r == nil {
		return nil
	}
	r.n++
	if r.open {
		fmt.Fprintln(r.w)
	}
	fmt.Fprintf(r.w, "# line %d: %s\n", number, visible(why))
	r.open = !bytes.HasSuffix(raw, []byte("\n"))
	if _, err := r.w.Write(raw); err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	return nil
}

// rest returns where the rest of the line written last goes.
func (r *rejects) rest() io.Writer {
	if r == nil {
		return io.Discard
	}
	r.open = true // whatever it ends with: an empty line between two is skipped
	return r.w
}

// close writes what is left. A file without lines is removed.
func (r *rejects) close() error {
	if r == nil {
		return nil
	}
	err := r.w.Flush()
	if closed := r.file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	if r.n == 0 {
		return os.Remove(r.path)
	}
	return nil
}
