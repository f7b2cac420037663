package ledger

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// barredBecause begins the refusals of submit.lua that lie with the operation of which
// the refused one is a new attempt.
const barredBecause = "new_attempt_of: "

// chainInstants are the ms since the epoch in what submit.lua says of a chain. No key of an
// operation can look like one: keys have no spaces.
var chainInstants = regexp.MustCompile(`\binstant \d+ ms\b`)

// legible puts instants and spans in a script's answer as people read them.
func legible(why string) string {
	why = chainInstants.ReplaceAllStringFunc(why, func(text string) string {
		n, _ := strconv.ParseInt(strings.Fields(text)[1], 10, 64)
		return jobs.AtMS(n).String()
	})
	return spans.ReplaceAllStringFunc(why, func(text string) string {
		n, _ := strconv.ParseInt(strings.TrimSuffix(text, " ms"), 10, 64)
		return ms(n).String()
	})
}

// link is what submit.lua reads of a new attempt; zero for any other operation.
type link struct {
	Of         string `json:"of,omitempty"` // the operation that it is a new attempt of
	Limit      int    `json:"limit,omitempty"`
	WithinMS   int64  `json:"within,omitempty"`
	AfterNever string `json:"after_never,omitempty"`
}

// newAttempt fixes what links the operation to the one that it tries again.
func (e *Entry) newAttempt(s *jobs.Submission, spec jobs.KindSpec) error {
	if s.NewAttemptOf == "" {
		return nil
	}
	of, err := jobs.ParseID(s.NewAttemptOf)
	if err != nil {
		return &FieldError{"new_attempt_of", err}
	}
	if of == e.ID {
		return fieldErrorf("new_attempt_of", "%s cannot be a new attempt of itself: give it a key of its own, or requeue it", e.ID)
	}
	terms := spec.NewAttemptTerms()
	e.meta.link = link{Of: of.String(), Limit: terms.Limit, WithinMS: terms.WithinMS, AfterNever: string(terms.AfterNever)}
	return nil
}

// Chain is where an operation stands among the attempts at one payment under several
// names.
type Chain struct {
	TriedAgainAs *jobs.ID // the operation that came after it; nil: none did
	// Number is which of the chain's operations it is, counted over the window that
	// ended when it was submitted; 0: it is no new attempt, or nobody can tell any more.
	Number int
	Terms  jobs.NewAttempts // of its kind, as it is configured now; zero if nobody knows it
}

// ChainOf returns where d stands among the attempts at its payment. spec is its kind as
// configured now; nil if nobody knows it. An operation without others costs no call.
func (l *Ledger) ChainOf(ctx context.Context, d *Detail, spec *jobs.KindSpec) (Chain, error) {
	c := Chain{TriedAgainAs: d.triedAgainAs}
	if spec == nil || d.NewAttemptOf == nil {
		return c, nil
	}
	c.Terms = spec.NewAttemptTerms()
	root := d.root
	if root == "" {
		root = d.NewAttemptOf.String()
	}
	key := l.key(d.Dependency, "chain:"+root)
	at, err := l.rdb.ZScore(ctx, key, d.ID().String()).Result()
	switch {
	case err == redis.Nil: // long ago: all of them have left the window
		return c, nil
	case err != nil:
		return c, fmt.Errorf("read the chain of %s: %w", d.ID(), err)
	}
	from, to := strconv.FormatInt(int64(at)-c.Terms.WithinMS, 10), strconv.FormatInt(int64(at), 10)
	n, err := l.rdb.ZCount(ctx, key, "("+from, to).Result()
	if err != nil {
		return c, fmt.Errorf("count the chain of %s: %w", d.ID(), err)
	}
	c.Number = int(n)
	return c, nil
}
