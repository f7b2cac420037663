package wire

import (
	"slices"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// ActionReveal is how the audit names a look at the payload of an operation.
const ActionReveal = "reveal"

// Timeline puts what people did to an operation among its events, in the order of
// time. Looks are left out: they changed nothing, and would be told by every look
// after them.
func Timeline(events []jobs.Event, doings []ledger.AuditEntry) []jobs.Event {
	out := slices.Clone(events)
	for _, e := range doings {
		if e.Action != ActionReveal {
			out = insertEvent(out, doing(e))
		}
	}
	return out
}

// doing is an entry of the audit as an event.
func doing(e ledger.AuditEntry) jobs.Event {
	event := jobs.Event{At: e.At, Event: e.Action, By: e.By}
	note := e.Note
	if e.To == "refused" {
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

func millis(i *jobs.Instant) int64 {
	if i == nil {
		return 0
	}
	return i.UnixMilli()
}

// Hidden is an operation as it is shown to those who may not see payload: error texts
// and notes lose what gateways and people like to repeat in them.
func Hidden(o jobs.Operation) jobs.Operation {
	if o.Last != nil && o.Last.Error != nil {
		text := Masked(*o.Last.Error)
		last := *o.Last
		last.Error = &text
		o.Last = &last
	}
	o.Timeline = slices.Clone(o.Timeline)
	for i, e := range o.Timeline {
		if e.Note != nil {
			note := Masked(*e.Note)
			o.Timeline[i].Note = &note
		}
	}
	return o
}
