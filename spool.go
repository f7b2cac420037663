package redrive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
)

const (
	spoolEvery = time.Second
	spoolTry   = 10 * time.Second
)

// spool is a file of submissions that Redis did not take, one a line as enqueue import
// reads them. Whoever has it open delivers it; two processes need a file each.
type spool struct {
	path string
	log  *slog.Logger
	lock *os.File

	mu     sync.Mutex // guards file and size, and who writes it
	file   *os.File
	size   int64 // of its whole lines
	cancel context.CancelFunc
	run    sync.WaitGroup
}

func openSpool(path string, log *slog.Logger) (*spool, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("options: Spool: %w", err)
	}
	if err := lockFile(lock); err != nil {
		lock.Close()
		return nil, fmt.Errorf("options: Spool %s is in use by another process (%w): give each its own", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("options: Spool: %w", err)
	}
	s := &spool{path: path, log: log, lock: lock, file: file}
	if err := s.endLine(); err != nil {
		s.close()
		return nil, fmt.Errorf("options: Spool %s: %w", path, err)
	}
	return s, nil
}

// endLine closes a line that a crash cut: what follows it must not be lost with it.
func (s *spool) endLine() error {
	size, err := s.file.Seek(0, io.SeekEnd)
	if s.size = size; err != nil || size == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := s.file.ReadAt(last, size-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = s.file.Write([]byte("\n"))
	s.size++
	return err
}

// add appends a line and returns once it is on the disk. What a full disk cut is taken
// out again, at the latest before the next line.
func (s *spool) add(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	if _, err := s.file.Write(append(bytes.Clone(line), '\n')); err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	if err := s.file.Sync(); err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	s.size += int64(len(line)) + 1
	return nil
}

func (s *spool) start(c *Client) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.run.Go(func() { // ends with ctx; stop waits
		for ctx.Err() == nil {
			try, cancel := context.WithTimeout(ctx, spoolTry)
			err := s.deliver(try, c)
			cancel()
			if err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "spool not delivered yet", "spool", s.path, "err", err)
			}
			pause(ctx, spoolEvery)
		}
	})
}

// deliver submits what is in the file, and takes out what was answered. What the ledger
// refuses goes to <spool>.rejected with the reason: nobody would see it otherwise. What it
// refuses for now stays, and holds nothing else up.
func (s *spool) deliver(ctx context.Context, c *Client) error {
	s.mu.Lock()
	text, err := os.ReadFile(s.path)
	s.mu.Unlock()
	if err != nil || len(text) == 0 {
		return err
	}
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	var keep []byte
	var notYet []error
	rest := text
	for len(rest) > 0 {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			break // somebody writes it now
		}
		why, later, err := submitLine(ctx, c, store, line)
		if err == nil && why != "" && !later {
			if err = s.reject(line, why); err == nil {
				s.log.ErrorContext(ctx, "spooled operation refused", "rejected", s.path+".rejected", "why", why)
			}
		}
		if err != nil { // of Redis, or of the disk: the others would not fare better
			notYet = append(notYet, err)
			break
		}
		if later {
			notYet = append(notYet, errors.New(why))
			keep = append(append(keep, line...), '\n')
		}
		rest = after
	}
	keep = append(keep, rest...)
	if len(keep) < len(text) {
		notYet = append(notYet, s.replace(len(text), keep))
	}
	return errors.Join(notYet...)
}

// submitLine returns why a line was not taken ("": it was), and whether it may be later.
// An error means that nobody knows.
func submitLine(ctx context.Context, c *Client, store *ledger.Ledger, line []byte) (why string, later bool, err error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return "", false, nil
	}
	var sub jobs.Submission
	if err := json.Unmarshal(line, &sub); err != nil {
		return err.Error(), false, nil
	}
	spec, err := c.spec(string(sub.Kind))
	if err != nil {
		return err.Error(), false, nil
	}
	entry, err := c.entry(&sub, spec)
	if err != nil {
		return err.Error(), false, nil
	}
	got, err := store.Submit(ctx, terms.Submit(spec), []ledger.Entry{entry})
	if err != nil {
		return "", false, err
	}
	switch r := receiptOf(got[0]); {
	case r.Answer == Unsure || r.Later:
		return fmt.Sprintf("%s/%s: %s %s", r.Kind, r.Key, r.Answer, r.Error), true, nil
	case r.Answer == Rejected, r.Answer == Conflict && !r.Merged:
		return rejected(r).Error(), false, nil
	}
	return "", false, nil
}

// reject keeps a line beside the spool, as enqueue import --rejects would.
func (s *spool) reject(line []byte, why string) error {
	f, err := os.OpenFile(s.path+".rejected", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "# %s\n%s\n", bytes.ReplaceAll([]byte(why), []byte("\n"), []byte(" ")), line)
	return errors.Join(err, f.Sync(), f.Close())
}

// replace puts keep in the place of the first n bytes of the file, by a copy that takes
// its place whole.
func (s *spool) replace(n int, keep []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	next := s.path + ".next"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_RDWR|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	keep = append(keep, text[min(n, len(text)):]...)
	if _, err := f.Write(keep); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := os.Rename(next, s.path); err != nil {
		return errors.Join(err, f.Close())
	}
	// From here on this is the file, whatever else fails.
	old := s.file
	s.file, s.size = f, int64(len(keep))
	return errors.Join(old.Close(), syncFolder(filepath.Dir(s.path)))
}

func syncFolder(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (s *spool) stop() {
	s.cancel()
	s.run.Wait()
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.file.Close() // every line was synced
	_ = s.lock.Close()
}

// spooled keeps a submission that the ledger did not take, and says so.
func (d *doing) spooled(outcome Outcome, cause error) error {
	d.fixDeadline()
	line, err := json.Marshal(d.s)
	if err != nil {
		return errors.Join(cause, err)
	}
	e := &HandoverError{Submission: line, Outcome: outcome, Err: cause}
	if d.c.spool != nil {
		if err := d.c.spool.add(line); err != nil {
			e.Err = errors.Join(cause, fmt.Errorf("spool: %w", err))
			return e
		}
		e.Spooled = true
	}
	return e
}
