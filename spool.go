package redrive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
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

// spool keeps submissions that Redis did not take, one a line as enqueue import reads
// them, and delivers them when it is back.
type spool struct {
	*spoolFile
	cancel context.CancelFunc
	run    sync.WaitGroup
}

func openSpool(path string, log *slog.Logger) (*spool, error) {
	file, err := openSpoolFile(path, log)
	if err != nil {
		return nil, fmt.Errorf("options: Spool: %w", err)
	}
	return &spool{spoolFile: file}, nil
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
	text, unheld := s.read()
	if len(text) == 0 {
		return unheld
	}
	store, err := c.store(ctx)
	if err != nil {
		return errors.Join(unheld, err)
	}
	var answered [][]byte
	notYet := []error{unheld}
	for line := range bytes.Lines(text) {
		line, whole := bytes.CutSuffix(line, []byte(lineEnd))
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
			continue
		}
		answered = append(answered, line)
	}
	if err := s.remove(answered); unheld == nil { // else it is the same again
		notYet = append(notYet, err)
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
	got, err := store.Submit(ctx, terms.Submit(spec, c.o.Name), []ledger.Entry{entry})
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
	f, err := os.OpenFile(s.path+".rejected", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = appendLine(f, fmt.Appendf(nil, "# %s\n%s", strings.ReplaceAll(why, lineEnd, " "), line))
	return errors.Join(err, f.Close())
}

func (s *spool) stop() {
	s.cancel()
	s.run.Wait()
}

// spooled keeps a submission that the ledger did not take, and says so.
func (d *doing) spooled(outcome Outcome, cause error) error {
	d.fixDeadline()
	if d.s.Attempted == nil {
		// With this it counts as taken over before its deadline, whenever it is delivered: else
		// the ledger would refuse what comes after it, and nobody would hear of that.
		d.s.Attempted = &jobs.Attempted{ID: ledger.NewRunID(), Outcome: jobs.OutcomeNotSent, Counted: true}
	}
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
