package world

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"redrive/internal/jobs"
)

// indexes are those of docs/redis-keys.md in exactly one of which an operation stands,
// each with the state that it belongs to.
var indexes = []struct {
	name  string
	state []jobs.State
}{
	{"waiting", []jobs.State{jobs.Waiting}}, {"due:first", []jobs.State{jobs.Waiting}}, {"due:retry", []jobs.State{jobs.Waiting}},
	{"aside", []jobs.State{jobs.Waiting}},
	{"released:first", []jobs.State{jobs.Released}}, {"released:retry", []jobs.State{jobs.Released}},
	{"claims", []jobs.State{jobs.Attempting}}, {"unresolved", []jobs.State{jobs.Unresolved}}, {"dead", []jobs.State{jobs.Dead}},
	{"done", []jobs.State{jobs.Succeeded, jobs.Cancelled}},
}

// judgeSend holds a first byte against P1 and P3, before it is written.
func (w *world) judgeSend(s *send, t *task) {
	o := s.op
	deadline := t.grantedAt.Add(t.grant.DeadlineLeft)
	if at := t.grantedAt.Add(w.now.Sub(t.startedAt)); at.After(deadline.Add(-minResponse)) {
		w.broken("P3: %s is sent %s after its last chance", o.id, at.Sub(deadline.Add(-minResponse)))
	}
	if s.body != o.body || s.key != o.key {
		w.broken("P1: %s is sent as %q under the key %q", o.id, s.body, s.key)
	}
	for _, e := range o.sends {
		if e.known == 0 || e.known >= s.known || o.class == jobs.IdempotencyNatural {
			continue // nobody had told the ledger of it when this attempt was granted
		}
		keyed := o.class == jobs.IdempotencyKeyed && e.key == s.key && e.base == s.base
		switch {
		case keyed && w.now.Sub(e.at) < keyWindow:
		case e.state.mayAct():
			w.broken("P1: %s is sent again, and send %d %s", o.id, e.number, e.state)
		case e.settled == "":
			w.broken("P1: %s is sent again, and nobody said that send %d did not act", o.id, e.number)
		}
	}
}

// judgeEffect holds an effect against P1: no second one by sends that the ledger made.
func (w *world) judgeEffect(s *send) {
	if s.op.class == jobs.IdempotencyNatural || !s.ours {
		return
	}
	for _, e := range s.op.sends {
		if e != s && e.ours && e.state == acted {
			w.broken("P1: %s took effect twice, by the sends %d and %d", s.op.id, e.number, s.number)
		}
	}
}

// judge holds what stands in Redis against P2 and the truth.
func (w *world) judge() {
	where, scores := map[string][]string{}, map[string]int64{}
	for _, x := range indexes {
		entries, err := w.store.index(w.key(x.name))
		if err != nil {
			w.broken("index %s: %v", x.name, err)
			return
		}
		for id, score := range entries {
			where[id] = append(where[id], x.name)
			scores[id] = score
		}
	}
	recount := map[string]string{}
	for _, o := range w.ops {
		id := o.id.String()
		f, err := w.store.hash(w.key("op:" + id))
		if err != nil {
			w.broken("record of %s: %v", id, err)
			return
		}
		in := where[id]
		delete(where, id)
		if len(f) == 0 {
			if o.accepted || len(in) > 0 {
				w.broken("P2: %s has no record, and stands in %v", id, in)
			}
			continue
		}
		w.judgeRecord(o, f, in, scores[id])
		count := string(o.id.Kind) + " " + f["state"]
		if f["state"] == string(jobs.Dead) {
			count += " " + f["reason"]
		}
		n, _ := strconv.Atoi(recount[count])
		recount[count] = strconv.Itoa(n + 1)
	}
	if len(where) > 0 {
		w.broken("P2: in indexes without a record: %v", where)
	}
	counts, err := w.store.hash(w.key("counts"))
	if err != nil || !maps.Equal(counts, recount) {
		w.broken("P2: counts are %v, a recount gives %v (%v)", counts, recount, err)
	}
}

// judgeRecord holds one record against its index and the gateway's account.
func (w *world) judgeRecord(o *operation, f map[string]string, in []string, score int64) {
	state := jobs.State(f["state"])
	belongs := func(name string) bool {
		return slices.ContainsFunc(indexes, func(x struct {
			name  string
			state []jobs.State
		}) bool {
			return x.name == name && slices.Contains(x.state, state)
		})
	}
	if len(in) != 1 || !belongs(in[0]) {
		w.broken("P2: %s is %s and stands in %v", o.id, state, in)
		return
	}
	if in[0] == "aside" {
		w.history["seen aside"]++
	}
	if (f["aside"] != "") != (in[0] == "aside") {
		w.broken("P2: %s stands in %s, its record says aside %q", o.id, in[0], f["aside"])
	}
	if state == jobs.Attempting && f["lease"] != fmt.Sprint(score) || (state == jobs.Attempting) != (f["run"] != "") {
		w.broken("P2: %s is %s by run %q, its lease %q, its place %d", o.id, state, f["run"], f["lease"], score)
	}
	if (state == jobs.Dead) != (f["reason"] != "") || state.Ended() != (f["ended"] != "") || (state == jobs.Waiting) != (f["next"] != "") {
		w.broken("P2: %s is %s with reason %q, ended %q, next %q", o.id, state, f["reason"], f["ended"], f["next"])
	}
	if (state == jobs.Succeeded || state == jobs.Cancelled) && f["unk"] != "" && score != never {
		w.broken("P2: %s is %s, its outcome is unknown, and it will expire", o.id, state)
	}
	if state == jobs.Unresolved && (f["unk"] == "" || f["intent"] == "" || f["giveup"] == "") {
		w.broken("P2: %s is unresolved with marks %q, intent %q, give up %q", o.id, f["unk"], f["intent"], f["giveup"])
	}
	reason := jobs.Reason(f["reason"])
	if state == jobs.Dead && f["unk"] != "" && reason != jobs.ReasonUnsafe && reason != jobs.ReasonUnresolved && reason != jobs.ReasonConflict {
		w.broken("P2: %s is dead (%s), and the attempts %s are unknown", o.id, reason, f["unk"])
	}
	if o.succeeded && state != jobs.Succeeded {
		w.broken("P2: %s had succeeded, and is %s", o.id, state)
	}
	o.succeeded = state == jobs.Succeeded
	w.judgeApplied(o, f, state)
}

// judgeApplied: "applied yes" only where there is an effect, "applied no" only where
// there is none and none can come.
func (w *world) judgeApplied(o *operation, f map[string]string, state jobs.State) {
	var may []string
	effect := false
	for _, s := range o.sends {
		effect = effect || s.state == acted
		if s.known > 0 && s.state.mayAct() {
			may = append(may, fmt.Sprintf("%s %s", s, s.state))
		}
	}
	if state == jobs.Succeeded && !effect && !o.resolved {
		w.broken("%s succeeded, and nothing took effect", o.id)
	}
	if state != jobs.Succeeded && state != jobs.Attempting && f["unk"] == "" && len(may) > 0 {
		w.broken("%s is %s %s as not applied: %s", o.id, state, f["reason"], strings.Join(may, ", "))
	}
}
