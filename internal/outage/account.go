package outage

import (
	"cmp"
	"slices"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/sandbox"
)

// evidence is what is known of one client: the gateway's account and the client's word.
type evidence struct {
	name    Client
	orders  []order
	visits  []visit   // by order
	calls   []arrival // by arrival
	entries []sandbox.Entry
	refused map[string]time.Duration // when a client first read a refusal for good, by reference
}

// account holds the two against each other. Pure.
func account(e evidence, s *Scenario, end time.Duration) Account {
	a := Account{Client: e.name, FirstAttempts: len(e.orders), Calls: len(e.calls), Samples: samplesOf(e.calls, end)}
	from, to := s.outage()
	a.minute(e, from)
	for i := range a.Samples {
		a.PeakPerSecond = max(a.PeakPerSecond, float64(a.Samples[i].Calls)/every.Seconds())
		a.PeakConnections = max(a.PeakConnections, a.Samples[i].Connections)
	}
	for i := range e.calls {
		if e.calls[i].inquiry {
			a.Inquiries++
		}
	}
	a.Amplification = ratioOf(a.Calls, a.FirstAttempts)
	a.RetriesOn4xx = retriesOn4xx(e.calls, e.refused)
	effects := make(map[string]int, len(e.entries))
	for _, entry := range e.entries {
		effects[entry.Reference] += entry.SideEffects
	}
	held, came := time.Duration(0), 0
	for i := range e.orders {
		v := &e.visits[i]
		hold := v.left - v.came
		a.CustomerSeconds += hold.Seconds()
		a.LongestHold = max(a.LongestHold, hold)
		if at := e.orders[i].at; at >= from && at < to {
			held += hold
			came++
		}
		a.end(v.fate, effects[e.orders[i].reference])
	}
	if came > 0 {
		a.HoldTime = held / time.Duration(came)
	}
	return a
}

func (a *Account) end(f fate, effects int) {
	if effects > 1 {
		a.ChargedTwice++
	}
	if effects > 0 && f != succeeded {
		a.Unknowingly++
	}
	switch {
	case f == succeeded && effects == 1:
		a.Succeeded++
	case f == refused:
		a.Declined++
	case f == gaveUp:
		a.Failed++
	}
}

// minute is the load of the outage's first minute.
func (a *Account) minute(e evidence, from time.Duration) {
	calls, firsts := 0, 0
	for i := range e.calls {
		if at := e.calls[i].at; at >= from && at < from+time.Minute {
			calls++
		}
	}
	for i := range e.orders {
		if at := e.orders[i].at; at >= from && at < from+time.Minute {
			firsts++
		}
	}
	a.LoadFirstMinute = ratioOf(calls, firsts)
}

func ratioOf(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// samplesOf counts calls by the span of [every] in which they arrived, up to end.
func samplesOf(calls []arrival, end time.Duration) []Sample {
	samples := make([]Sample, max(int((end+every-1)/every), 1))
	for i := range samples {
		samples[i].At = time.Duration(i+1) * every
	}
	type change struct {
		at time.Duration
		by int
	}
	changes := make([]change, 0, 2*len(calls))
	for i := range calls {
		c := &calls[i]
		changes = append(changes, change{c.at, 1}, change{max(c.ended, c.at), -1})
		if at := int(c.at / every); c.at >= 0 && at < len(samples) {
			samples[at].Calls++
			if c.failed() {
				samples[at].Failed++
			}
		}
	}
	// At one instant the one that leaves makes room for the one that comes.
	slices.SortFunc(changes, func(x, y change) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.by, y.by)) })
	inside, next := 0, 0
	for i := range samples {
		samples[i].Connections = inside
		for ; next < len(changes) && changes[next].at < samples[i].At; next++ {
			inside += changes[next].by
			samples[i].Connections = max(samples[i].Connections, inside)
		}
	}
	return samples
}

// retriesOn4xx counts calls that came after their client had read a refusal for good.
func retriesOn4xx(calls []arrival, refusedAt map[string]time.Duration) int {
	n := 0
	for i := range calls {
		c := &calls[i]
		if at, ok := refusedAt[c.reference]; ok && !c.inquiry && c.at > at {
			n++
		}
	}
	return n
}

// told completes redrive's visits by what its ledger says of what was handed over.
func told(visits []visit, orders []order, operations []jobs.Operation, c clock) {
	byKey := make(map[jobs.Key]*jobs.Operation, len(operations))
	for i := range operations {
		byKey[operations[i].Key] = &operations[i]
	}
	for i := range visits {
		v := &visits[i]
		if v.fate != handedOver {
			continue
		}
		op := byKey[jobs.Key(orders[i].reference)]
		if op == nil || !op.State.Ended() {
			v.fate, v.ended = waiting, -1
			continue
		}
		switch {
		case op.State == jobs.Succeeded:
			v.fate = succeeded
		case op.Reason != nil && *op.Reason == jobs.ReasonPermanent && op.Last != nil && op.Last.Class == jobs.Class4xx:
			v.fate = refused
		default:
			v.fate = gaveUp
		}
		if op.EndedAt != nil {
			v.ended = c.at(op.EndedAt.Time)
		}
	}
}
