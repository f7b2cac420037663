package cli

import (
	"context"
	"slices"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
)

// maxDoings entries of a dependency's audit are read for a timeline, newest first:
// it must not take minutes where millions were written since.
const maxDoings = 50_000

// tellDoings puts what people did to an operation into its timeline, and reports
// whether some of it may be missing.
func (s *session) tellDoings(ctx context.Context, d *ledger.Detail) (cut bool, err error) {
	var since time.Time
	if d.CreatedAt != nil {
		since = d.CreatedAt.Time
	}
	done, cut, err := s.ledger.Doings(ctx, d.Dependency, d.ID(), since, maxDoings)
	if err != nil {
		return false, err
	}
	for _, e := range done {
		if e.Action != actionReveal { // a look changed nothing, and would be told by every look after it
			d.Timeline = insertEvent(d.Timeline, doing(e))
		}
	}
	return cut, nil
}

const actionReveal = "reveal"

// doing is an entry of the audit as an event.
func doing(e ledger.AuditEntry) jobs.Event {
	event := jobs.Event{At: e.At, Event: e.Action, By: e.By}
	note := e.Note
	if e.To == string(operator.ResultRefused) {
		note = "refused; " + note
	}
	if note != "" {
		event.Note = &note
	}
	return event
}

// insertEvent keeps the order of time. Of one instant what a person did comes after
// what was there, and before the end that it led to.
func insertEvent(events []jobs.Event, e jobs.Event) []jobs.Event {
	at := millis(e.At)
	i := slices.IndexFunc(events, func(o jobs.Event) bool {
		return millis(o.At) > at || millis(o.At) == at && jobs.State(o.Event).Ended()
	})
	if i < 0 {
		i = len(events)
	}
	return slices.Insert(events, i, e)
}
