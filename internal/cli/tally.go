package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"redrive/internal/jobs"
)

// maxShown lines are complained about one by one; of more there is a count.
const maxShown = 20

// tally counts what became of the lines of an import, and tells of those that were
// not taken.
type tally struct {
	p       *program
	rejects *rejects
	bar     *bar
	each    func(int, jobs.Receipt) error // called for each line that was answered; nil: nobody wants to know

	mu       sync.Mutex // guards what follows, and the order of what is written
	lines    int        // that said something
	answers  map[jobs.Answer]int
	later    int // refused only for now
	barred   int // refused for what they are a new attempt of
	merged   int
	shown    int
	warned   int
	unshown  int
	unwarned int
	started  time.Time
}

func newTally(p *program, r *rejects, b *bar) *tally {
	return &tally{p: p, rejects: r, bar: b, answers: map[jobs.Answer]int{}, started: time.Now()}
}

func (t *tally) skip(line inputLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bar.add(len(line.raw))
}

// reject counts a line that never reached the ledger.
func (t *tally) reject(line inputLine, sub *jobs.Submission, why *placedError) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rejectLocked(line, sub, why)
}

func (t *tally) rejectLocked(line inputLine, sub *jobs.Submission, why *placedError) error {
	t.count(line, refusal(sub, why))
	t.complain(line.number, fmt.Sprintf("column %d: %s", why.column, why))
	return t.rejects.write(line.number, why.Error(), line.raw)
}

// tooLong passes over a line that no submission fills; one that says something is
// rejected.
func (t *tally) tooLong(line inputLine, r *lineReader) error {
	if line.skipped() {
		return r.rest(io.Discard)
	}
	return t.rejectLong(line, fmt.Errorf("more than %d bytes, which no submission has", maxLineBytes), r)
}

// rejectLong does the same for a line that does not fit into memory: it goes to the
// rejects as it is read.
func (t *tally) rejectLong(line inputLine, why error, r *lineReader) error {
	t.mu.Lock() // also while the rest is copied: nothing may come between
	defer t.mu.Unlock()
	if err := t.rejectLocked(line, nil, &placedError{1, why}); err != nil {
		return err
	}
	return r.rest(t.rejects.rest())
}

// refusal is the receipt of a submission that is wrong in itself.
func refusal(sub *jobs.Submission, why error) jobs.Receipt {
	text := why.Error()
	r := jobs.Receipt{Answer: jobs.Refused, Applied: jobs.AppliedNo, Differs: []string{}, Warnings: []string{}, Error: &text}
	if sub != nil {
		r.Operation = sub.ID()
	}
	if sub == nil || sub.Attempted != nil && sub.Attempted.Outcome == jobs.OutcomeUnknown { // nil: a line that nobody could read may tell of a send
		r.Applied = jobs.AppliedUnknown
	}
	return r
}

// receipt counts what the ledger answered.
func (t *tally) receipt(line inputLine, r jobs.Receipt) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(line, r)
	for _, w := range r.Warnings {
		if t.warned < maxShown {
			t.warned++
			t.bar.clear()
			t.p.say("line %d: warning: %s", line.number, w)
		} else {
			t.unwarned++
		}
	}
	if r.Answer != jobs.Refused && r.Answer != jobs.Conflict {
		return nil
	}
	why := receiptText(r)
	t.complain(line.number, why)
	return t.rejects.write(line.number, why, line.raw)
}

// count is called with mu held.
func (t *tally) count(line inputLine, r jobs.Receipt) {
	t.lines++
	t.answers[r.Answer]++
	if r.Later {
		t.later++
	}
	if r.Barred {
		t.barred++
	}
	if r.Merged {
		t.merged++
	}
	t.bar.add(len(line.raw))
	if t.each != nil {
		_ = t.each(line.number, r) // stdout keeps its first error until the end
	}
}

// complain is called with mu held.
func (t *tally) complain(number int, why string) {
	if t.shown == maxShown {
		t.unshown++
		return
	}
	t.shown++
	t.bar.clear()
	t.p.say("line %d, %s", number, why)
}

// finish takes the bar away and tells how much was not told.
func (t *tally) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bar.finish()
	if t.unwarned > 0 {
		t.p.say("and %s more", count(t.unwarned, "warning"))
	}
	if t.unshown > 0 {
		t.p.say("and %s more that were not taken", count(t.unshown, "line"))
	}
	if t.rejects != nil && t.rejects.n > 0 {
		t.p.say("%s went to %s: mend and import it", count(t.rejects.n, "line"), t.rejects.path)
	}
}

// receiptText says why an answer is not what was hoped for.
func receiptText(r jobs.Receipt) string {
	switch {
	case r.Answer == jobs.Conflict && len(r.Differs) > 0:
		return fmt.Sprintf("conflict: %s is known with another %s", r.Operation, join(r.Differs))
	case r.Answer == jobs.Conflict:
		return fmt.Sprintf("conflict: %s is known with another request", r.Operation)
	case r.Error != nil:
		return string(r.Answer) + ": " + *r.Error
	}
	return string(r.Answer)
}

// summary is the end of an import, as JSON.
type summary struct {
	Lines     int     `json:"lines"`
	Accepted  int     `json:"accepted"`
	Unsure    int     `json:"unsure"`
	Duplicate int     `json:"duplicate"`
	Conflict  int     `json:"conflict"`
	Refused   int     `json:"refused"`
	Merged    int     `json:"merged"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	Rejects   *string `json:"rejects"` // the file, if there is something in it
	Error     *string `json:"error"`   // why it ended early
}

func (t *tally) summary() summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := time.Since(t.started).Seconds()
	s := summary{Lines: t.lines, Accepted: t.answers[jobs.Accepted], Unsure: t.answers[jobs.Unsure], Duplicate: t.answers[jobs.Duplicate],
		Conflict: t.answers[jobs.Conflict], Refused: t.answers[jobs.Refused], Merged: t.merged,
		Seconds: round(seconds, 3), PerSecond: round(float64(t.lines)/max(seconds, 1e-3), 0)}
	if t.rejects != nil && t.rejects.n > 0 {
		s.Rejects = &t.rejects.path
	}
	return s
}

// code is how the import ends when it came to its end.
func (t *tally) code() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	bad := t.answers[jobs.Conflict] + t.answers[jobs.Refused]
	switch {
	case bad == 0 && t.answers[jobs.Unsure] > 0:
		return exitAgain
	case bad == 0:
		return exitOK
	case bad < t.lines:
		return exitPartly
	case t.answers[jobs.Conflict]+t.barred == t.lines:
		return exitConflict
	case t.later == t.lines:
		return exitAgain
	case t.answers[jobs.Refused] == t.lines:
		return exitUsage
	}
	return exitPartly
}

func (t *tally) sortedAnswers() []jobs.Answer {
	return slices.SortedFunc(maps.Keys(t.answers), func(a, b jobs.Answer) int {
		return slices.Index(jobs.Answers, a) - slices.Index(jobs.Answers, b)
	})
}

func round(v float64, digits int) float64 {
	scale := 1.0
	for range digits {
		scale *= 10
	}
	return float64(int64(v*scale+0.5)) / scale
}
