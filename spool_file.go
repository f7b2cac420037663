package redrive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

// spoolFile is a file of lines that belongs to one client. It is the file itself that is
// locked: neither a link to it nor the removal of anything beside it lets another one in.
// Others may still remove, replace or cut it. So each use makes sure that its name leads to
// the file that is open, and no line is kept whose file has no name.
type spoolFile struct {
	path string // without symbolic links
	log  *slog.Logger

	mu   sync.Mutex // guards the rest, and who writes the file
	file *os.File
	size int64    // when it was last looked at: less means that somebody cut it
	done [][]byte // lines that are to be removed and could not be yet
}

const (
	// fileTries: a file that is replaced more often while a line is written has an enemy.
	fileTries = 5
	lineEnd   = "\n"
)

func openSpoolFile(path string, log *slog.Logger) (*spoolFile, error) {
	if err := canLock(); err != nil {
		return nil, err
	}
	file, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	s := &spoolFile{path: path, log: log, file: file}
	if s.path, err = filepath.EvalSymlinks(path); err == nil {
		s.path, err = filepath.Abs(s.path) // the process may go elsewhere
	}
	info, statErr := file.Stat()
	if err = errors.Join(err, statErr); err == nil && names(info) > 1 {
		err = fmt.Errorf("the file has %d names (hard links): each client needs a file of its own", names(info))
	}
	if err == nil {
		s.size = info.Size()
		err = s.endLine()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return s, nil
}

// openLocked opens the file that the path leads to, a new one if there is none, and locks it.
func openLocked(path string) (*os.File, error) {
	for range fileTries {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		same, err := lockNamed(f, path)
		if same && err == nil {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s is replaced again and again", path)
}

// lockNamed is false where the file was replaced between its opening and its locking.
func lockNamed(f *os.File, path string) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is no regular file", path)
	}
	if err := lockFile(f); err != nil {
		return false, fmt.Errorf("%s is in use by another client (%w): give each its own", path, err)
	}
	same, err := leadsTo(path, f)
	if err != nil || !same {
		return false, err
	}
	return true, syncFolder(filepath.Dir(path)) // its name must be on the disk as well
}

// leadsTo: what the path names now is the open file.
func leadsTo(path string, f *os.File) (bool, error) {
	named, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(named, open), err
}

// add appends a line and returns once it is on the disk, in the file that the path leads
// to. With an error it is not there, and the error says why.
func (s *spoolFile) add(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range fileTries {
		if err := s.hold(); err != nil {
			return err
		}
		end, err := appendLine(s.file, line)
		if err != nil {
			return err
		}
		s.size = end
		// A file that was replaced meanwhile is carried over, this line with it.
		if err := s.hold(); err != nil {
			return err
		}
		if s.size >= end {
			return nil
		}
	}
	return fmt.Errorf("%s is cut again and again", s.path)
}

// hold makes sure that the path leads to the open file. What stands in a file that was
// removed or replaced is carried over to the one that is there now. s.mu is held.
func (s *spoolFile) hold() error {
	same, err := leadsTo(s.path, s.file)
	if err != nil {
		return err
	}
	if !same {
		if err := s.carry(); err != nil {
			return err
		}
	}
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < s.size {
		s.log.Error("spool was cut by somebody else: hand-overs that stood in it may be lost", "spool", s.path, "size", info.Size(), "before", s.size)
	}
	s.size = info.Size()
	return nil
}

// carry goes on in the file that the path leads to now.
func (s *spoolFile) carry() error {
	next, err := openLocked(s.path)
	if err != nil {
		return err
	}
	text, err := s.left()
	if err == nil && len(text) > 0 {
		s.size, err = appendLine(next, bytes.TrimSuffix(text, []byte(lineEnd)))
	}
	if err != nil {
		return errors.Join(err, next.Close())
	}
	s.log.Warn("spool was removed or replaced by somebody else: what stood in it is carried over", "spool", s.path, "bytes", len(text))
	old := s.file
	s.file, s.done = next, nil
	if len(text) == 0 {
		s.size = 0
	}
	return old.Close()
}

// endLine closes a line that a crash cut, which could be delivered never else.
func (s *spoolFile) endLine() error {
	apart, err := needsEnd(s.file, s.size)
	if err != nil || !apart {
		return err
	}
	_, err = s.file.WriteString(lineEnd)
	s.size++
	return err
}

// read returns what stands there. With an error it can be some text all the same: that of a
// file whose name is another client's now. Nobody else can read it.
func (s *spoolFile) read() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.hold()
	text, unread := s.left()
	return text, errors.Join(err, unread)
}

// left is what stands in the open file but for what is to be removed. s.mu is held.
func (s *spoolFile) left() ([]byte, error) {
	text, err := readAll(s.file)
	return without(text, s.done), err
}

// remove takes out one line for each that is given, and no other, by a copy that takes the
// file's place whole. With an error they are not read again, and go with the next ones.
func (s *spoolFile) remove(lines [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range lines {
		s.done = append(s.done, bytes.Clone(line)) // they are parts of all that was read
	}
	if len(s.done) == 0 {
		return nil
	}
	if err := s.hold(); err != nil {
		return err
	}
	keep, err := s.left()
	if err != nil {
		return err
	}
	next := s.path + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) { // of a process that died
		return err
	}
	f, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	err = lockFile(f) // before it has the name: nobody may get in between
	if err == nil {
		_, err = f.Write(keep)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(next, s.path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(next))
	}
	// From here on this is the file, whatever else fails.
	old := s.file
	s.file, s.size, s.done = f, int64(len(keep)), nil
	return errors.Join(old.Close(), syncFolder(filepath.Dir(s.path)))
}

// without is the text less one line for each that is given.
func without(text []byte, lines [][]byte) []byte {
	if len(lines) == 0 {
		return text
	}
	out := make(map[string]int, len(lines))
	for _, line := range lines {
		out[string(line)]++
	}
	var keep []byte
	for line := range bytes.Lines(text) {
		name, whole := bytes.CutSuffix(line, []byte(lineEnd))
		if n := out[string(name)]; whole && n > 0 {
			out[string(name)] = n - 1
			continue
		}
		keep = append(keep, line...)
	}
	return keep
}

// close gives the file back. Lines whose file others took the name from get one first.
func (s *spoolFile) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := s.left()
	if len(text) > 0 {
		err = errors.Join(err, s.hold())
	}
	return errors.Join(err, s.file.Close())
}

// appendLine writes a line behind what is in f, and returns the new end once it is on the
// disk. It is written in one piece, on a line of its own whatever was cut before it; what a
// full disk cuts of it is taken out again.
func appendLine(f *os.File, line []byte) (end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	before := info.Size()
	apart, err := needsEnd(f, before)
	if err != nil {
		return 0, err
	}
	text := make([]byte, 0, len(line)+2)
	if apart {
		text = append(text, lineEnd...)
	}
	text = append(append(text, line...), lineEnd...)
	n, err := f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		return before + int64(n), nil
	}
	// Only where it ends with what was written just now: never make it longer.
	if info, statErr := f.Stat(); statErr == nil && n > 0 && info.Size() == before+int64(n) {
		err = errors.Join(err, f.Truncate(before))
	}
	return 0, err
}

// needsEnd: the last line is not whole.
func needsEnd(f *os.File, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, size-1); err != nil {
		return false, err
	}
	return string(last) != lineEnd, nil
}

func readAll(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
}

func syncFolder(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
