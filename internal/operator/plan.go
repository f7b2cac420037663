package operator

import (
	"strconv"
	"strings"
	"time"

	"redrive/internal/ledger"
)

// attemptsLeft must be left after a requeue, unless it is said how many are granted: a
// dead letter that has none would die of its first failure.
const attemptsLeft = 3

// lastYear is the last one that a deadline may lie in, as that of a submission.
const lastYear = 2200

// maxAttempts is how many an operation may make, whoever grants them: the greatest
// max_attempts of a configuration.
const maxAttempts = 1000

// DefaultCanaryWait is how long canaries are given to end.
const DefaultCanaryWait = 5 * time.Minute

// RequeueWords say how dead letters are requeued, in the words in which a person or a
// program gives them. nil and "" mean that nothing was said.
type RequeueWords struct {
	MoreAttempts *int           // granted on top, 1 to 1000; nil: as many as leave 3
	Deadline     string         // a span from when each is due, or RFC 3339; "": each keeps its own
	Rate         string         // so many become due per span, such as 5/s, 300/m or 1000/h; "": all at once
	Canary       *int           // so many first, at least 1; nil: all at once
	CanaryWait   *time.Duration // above 0; nil: [DefaultCanaryWait]
}

// Plan is how a set of dead letters is requeued. It comes from [RequeueWords.Plan].
type Plan struct {
	base       ledger.Requeue
	Apart      time.Duration // between when one and the next become due; 0: all at once
	Canary     int           // so many first; 0: all at once
	CanaryWait time.Duration // for what becomes of them
}

// Plan checks the words. An [InvalidError] when one is wrong.
func (w RequeueWords) Plan() (Plan, error) {
	p := Plan{base: ledger.Requeue{AtLeast: attemptsLeft}, CanaryWait: DefaultCanaryWait}
	if w.Deadline != "" {
		if span, err := time.ParseDuration(w.Deadline); err == nil {
			if span <= 0 || span > ledger.MaxDeadline {
				return p, invalidf(FieldDeadline, "%s %s: a span must be above 0 and at most %s", FieldDeadline, w.Deadline, ledger.MaxDeadline)
			}
			p.base.DeadlineSpan = span
		} else if p.base.DeadlineAt, err = time.Parse(time.RFC3339, w.Deadline); err != nil {
			return p, invalidf(FieldDeadline, "%s %q is neither a span such as 2h nor an RFC 3339 instant", FieldDeadline, w.Deadline)
		} else if p.base.DeadlineAt.Year() > lastYear {
			return p, invalidf(FieldDeadline, "%s %s is too far ahead: at most the year %d", FieldDeadline, w.Deadline, lastYear)
		}
	}
	if w.Rate != "" {
		var err error
		if p.Apart, err = parseRate(w.Rate); err != nil {
			return p, err
		}
	}
	if w.MoreAttempts != nil {
		if *w.MoreAttempts < 1 {
			return p, invalidf(FieldMoreAttempts, "%s %d: must be at least 1", FieldMoreAttempts, *w.MoreAttempts)
		}
		if *w.MoreAttempts > maxAttempts {
			return p, invalidf(FieldMoreAttempts, "%s %d: at most %d", FieldMoreAttempts, *w.MoreAttempts, maxAttempts)
		}
		p.base.More, p.base.AtLeast = *w.MoreAttempts, 0
	}
	if w.Canary != nil {
		p.Canary = *w.Canary
	}
	if w.CanaryWait != nil {
		p.CanaryWait = *w.CanaryWait
	}
	switch {
	case w.Canary != nil && p.Canary < 1:
		return p, invalidf(FieldCanary, "%s %d: must be at least 1", FieldCanary, p.Canary)
	case w.CanaryWait != nil && w.Canary == nil:
		return p, invalidf(FieldCanaryWait, "%s says how long to wait for %s, which is missing", FieldCanaryWait, FieldCanary)
	case p.CanaryWait <= 0:
		return p, invalidf(FieldCanaryWait, "%s %s: must be above 0", FieldCanaryWait, p.CanaryWait)
	}
	return p, nil
}

// parseRate returns the time between two, for a rate such as 5/s.
func parseRate(s string) (time.Duration, error) {
	number, unit, _ := strings.Cut(s, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || per == 0 || !(n > 0) || n > 1e6 {
		return 0, invalidf(FieldRate, "%s %q: want such as 5/s, 300/m or 1000/h", FieldRate, s)
	}
	apart := float64(per) / n // compared before it is a span, which would not hold all of them
	if apart > float64(24*time.Hour) {
		return 0, invalidf(FieldRate, "%s %q: less than one a day", FieldRate, s)
	}
	return time.Duration(apart), nil
}
