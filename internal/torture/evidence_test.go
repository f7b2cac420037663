package torture

import (
	"context"
	"slices"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// indexesOf says in which index an operation of a state stands: the promise P2 is
// this function.
var indexesOf = map[jobs.State][]string{
	jobs.Waiting: {"waiting", "due:first", "due:retry", "aside"}, jobs.Released: {"released:first", "released:retry"}, jobs.Attempting: {"claims"},
	jobs.Unresolved: {"unresolved"}, jobs.Dead: {"dead"}, jobs.Succeeded: {"done"}, jobs.Cancelled: {"done"},
}

var indexes = []string{"waiting", "due:first", "due:retry", "aside", "released:first", "released:retry", "claims", "unresolved", "dead", "done"}

// gather reads both accounts, past the links, after everything came to rest.
func (r *rig) gather() evidence {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	e := evidence{entries: r.door.gateway.Ledger(), kills: r.kills, outages: r.outages}
	cases := map[jobs.ID]*caseFile{}
	var places []ledger.Place
	for _, o := range r.shop.book.list() {
		c := &caseFile{order: o, arrivals: r.door.arrivals[o.ref()], readings: r.door.readings[o.ref()]}
		cases[o.id] = c
		e.cases = append(e.cases, c)
		places = append(places, ledger.Place{Dependency: dependency, ID: o.id})
	}
	effects := map[[2]string]int{}
	for _, entry := range e.entries {
		effects[[2]string{entry.Route, entry.Reference}] = entry.SideEffects
	}
	// The indexes themselves: a list would show an operation once, whatever they say.
	for _, index := range indexes {
		names, err := r.direct.Client().ZRange(ctx, namespace+":{"+string(dependency)+"}:"+index, 0, -1).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, name := range names {
			id, err := jobs.ParseID(name)
			if c := cases[id]; err == nil && c != nil {
				c.indexes = append(c.indexes, index)
			} else {
				e.strays = append(e.strays, name+" in "+index)
			}
		}
	}
	details, err := r.direct.Details(ctx, places, r.specs)
	if err != nil {
		r.t.Fatal(err)
	}
	for i, d := range details {
		c := e.cases[i]
		c.detail, c.effects = d, effects[[2]string{routeOf[c.id.Kind], c.ref()}]
		slices.SortFunc(c.arrivals, func(a, b *arrival) int { return a.at.Compare(b.at) })
		slices.SortFunc(c.readings, func(a, b reading) int { return a.at.Compare(b.at) })
	}
	if e.counts, err = r.direct.Counts(ctx, dependency); err != nil {
		r.t.Fatal(err)
	}
	return e
}
