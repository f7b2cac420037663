package world

import (
	"maps"
	"strings"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// applied is one script as the store ran it.
type applied struct {
	script        string
	args          map[string]string
	reply         luascript.Reply
	before, after map[string]string // the gate's hash
	record        map[string]string // of the operation in the arguments, before
}

// gateJudge holds the gate against P4. It sees every script that was applied, whoever
// got its reply, and keeps its own account of what left for what.
type gateJudge struct {
	w        *world
	most     budget.Params // the largest of all that were ever in force
	anyRate  bool          // all parameters have a rate
	at       int64         // ms that Redis' clock went forward; steps back do not count
	redis    int64         // Redis' clock
	saved    int64         // at, when the gate was written last
	epoch    int           // of the hash: a new one when a hand was in it
	flushes  map[string]int64
	released map[string]string // grant and generation by id and delivery
	paid     map[string]bool   // calls by run: true until it is made
	probes   map[string]*probe // that are out, by operation
	periods  map[period]*tally // half-open ones
	marks    []mark
}

// period is one half-open period of the breaker.
type period struct {
	epoch      int
	generation int64
}

// tally counts a period's probes.
type tally struct{ given, back int64 } // back: came to nothing, were neutral or ran out

type probe struct {
	period period
	until  int64 // Redis' clock
}

// mark is what one script did to the budget.
type mark struct {
	at     int64
	firsts int64 // first attempts that filled
	calls  int64 // retries that took a token; inquiries; backlog by the drain lane
	starts int64 // the bucket started low
	lane   int64 // ms in which the drain lane filled since the last mark
	left   int64 // calls that left
	rates  int64 // the rate's bucket started anew
}

func newGateJudge(w *world) *gateJudge {
	return &gateJudge{w: w, redis: w.redisNow().UnixMilli(), anyRate: true, flushes: map[string]int64{}, released: map[string]string{},
		paid: map[string]bool{}, probes: map[string]*probe{}, periods: map[period]*tally{}}
}

// knows takes in what a process' configuration says.
func (j *gateJudge) knows(p budget.Params) {
	m := &j.most
	m.RatioMilli, m.Cap, m.FloorMilliPerSecond = max(m.RatioMilli, p.RatioMilli), max(m.Cap, p.Cap), max(m.FloorMilliPerSecond, p.FloorMilliPerSecond)
	m.DrainMilliPerSecond, m.RateMilliPerSecond = max(m.DrainMilliPerSecond, p.DrainMilliPerSecond), max(m.RateMilliPerSecond, p.RateMilliPerSecond)
	m.RateBurst, m.Breaker.Probes = max(m.RateBurst, p.RateBurst), max(m.Breaker.Probes, p.Breaker.Probes)
	m.Breaker.MaxOpenMS = max(m.Breaker.MaxOpenMS, p.Breaker.MaxOpenMS)
	j.anyRate = j.anyRate && p.RateMilliPerSecond > 0
}

// overridden takes in what a person may put in force.
func (j *gateJudge) overridden(values map[string]int64) {
	rated := j.anyRate
	j.knows(j.most.With(budget.Override{UntilMS: 1, Values: values}, 0))
	j.anyRate = rated
}

// saw judges one script.
func (j *gateJudge) saw(a applied) {
	if now := j.w.redisNow().UnixMilli(); now != j.redis {
		j.at += max(now-j.redis, 0)
		j.redis = now
	}
	now := j.redis
	if last := integer(a.before["last_now"]); last > now && last-now < 60_000 {
		now = last // as the scripts have it
	}
	before, after := budget.Read(a.before, true), budget.Read(a.after, true)
	params, known := paramsOf(a)
	params = params.With(budget.ReadOverride(a.before["override"]), now)

	m := mark{at: j.at}
	if !maps.Equal(a.before, a.after) {
		j.judgeState(a, before, after, params, known, now)
	}
	if a.before["filled_at"] != a.after["filled_at"] {
		if !before.Known {
			m.starts = 1
		}
		if before.LaneMilli > 0 && after.LaneMilli > 0 {
			m.lane = j.at - j.saved
		}
		j.saved = j.at
	}
	if before.RateFilledMS == 0 && after.RateFilledMS != 0 {
		m.rates = 1
	}
	p := period{j.epoch, after.Generation}
	if after.State == budget.HalfOpen && j.periods[p] == nil {
		j.periods[p] = &tally{}
	}
	j.runOut(now)
	switch a.script {
	case "release":
		j.release(a, after, params, now, &m)
	case "inquire":
		j.inquire(a, after, now, &m)
	case "begin":
		if grant := j.begin(a, after, now, &m); grant != "" && known {
			j.oracle(a, started(before.At(now, params), grant, now, params), after)
		}
	case "abandon":
		j.ended(a.args["id"], budget.SignNothing) // nothing was sent under its permit
	case "first_attempts":
		if m.firsts = j.countsOnce(a.args, a.reply); m.firsts > 0 && known {
			f := budget.Flush{OK: integer(a.args["ok"]), Failed: integer(a.args["failed"]), TimedOut: integer(a.args["timed_out"]), Jitter: integer(a.args["jitter"])}
			j.oracle(a, before.At(now, params).Flush(f, now, params), after)
		}
	case "submit":
		m.firsts = max(after.Window().Firsts-before.At(now, params).Window().Firsts, 0)
	}
	j.budget(m)
}

// paramsOf are the parameters that a script decided by.
func paramsOf(a applied) (p budget.Params, known bool) {
	for _, text := range []string{a.args["gate"], a.before["params"], a.args["gate_spare"]} {
		if p, err := budget.ParseParams(text); err == nil {
			return p, true
		}
	}
	return budget.Params{}, false
}

// judgeState holds what was written against what stood there.
func (j *gateJudge) judgeState(a applied, before, after budget.Gate, p budget.Params, known bool, now int64) {
	if !after.Known {
		return
	}
	if after.TokensMilli < 0 || known && after.FilledAtMS == now && a.before["filled_at"] != a.after["filled_at"] && after.TokensMilli > p.Cap*1000 {
		j.w.broken("P4: %s leaves %d of %d tokens", a.script, after.TokensMilli, p.Cap*1000)
	}
	off := p.Breaker.MinCalls == 0 && p.Breaker.Consecutive == 0
	if !before.Known || off {
		return
	}
	moved := before.Generation != after.Generation
	if moved {
		j.w.history["breaker "+string(after.State)]++
	}
	if after.ParkedUntilMS > before.ParkedUntilMS {
		j.w.history["parked"]++
	}
	switch {
	case before.State == budget.Open && after.State == budget.Closed && moved && before.Generation+1 == after.Generation:
		j.w.broken("P4: %s closes an open breaker", a.script)
	case before.State == budget.Open && moved && now < min(before.UntilMS, now+p.Breaker.MaxOpenMS):
		j.w.broken("P4: %s lets the breaker leave open %d ms early", a.script, before.UntilMS-now)
	case !moved && before.State != after.State:
		j.w.broken("P4: %s makes of %s %s in the same generation", a.script, before.State, after.State)
	}
	if before.State != budget.Closed && after.TokensMilli > before.TokensMilli {
		j.w.broken("P4: %s fills while the breaker is %s: %d to %d", a.script, before.State, before.TokensMilli, after.TokensMilli)
	}
}

// lets judges that anything may leave at all.
func (j *gateJudge) lets(a applied, g budget.Gate, now int64) {
	// A pause by a refused credential comes with a result, never with what leaves.
	if g.State == budget.Open || g.ParkedUntilMS > now || g.Paused(now) {
		j.w.broken("P4: %s lets something leave while %s, parked until %d, paused %v", a.script, g.State, g.ParkedUntilMS-now, g.Paused(now))
	}
}

func (j *gateJudge) release(a applied, g budget.Gate, p budget.Params, now int64, m *mark) {
	given := int64(0)
	for i := 7; i+5 < len(a.reply) && a.reply[i] == "give"; i += 6 {
		given++
		id, grant := a.reply[i+1], a.reply[i+3]
		j.released[id+"#"+a.reply[i+2]] = grant
		if probing := grant == "probe"; probing != (g.State == budget.HalfOpen) {
			j.w.broken("P4: release gives %s as %s while %s", id, grant, g.State)
		} else if probing {
			j.permit(id, g, now+integer(a.args["release_lease"]))
		}
		if grant == "lane" {
			m.calls++
			if !g.Plain(now, p) || p.DrainMilliPerSecond == 0 {
				j.w.broken("P4: release gives %s by the drain lane of a gate that is not well: %+v", id, g)
			}
		}
	}
	m.left = given
	if given > 0 {
		j.lets(a, g, now)
		j.underWay(a, g, p, now)
	}
}

func (j *gateJudge) inquire(a applied, g budget.Gate, now int64, m *mark) {
	for i := 4; i+6 < len(a.reply) && a.reply[i] == "ask"; i += 7 {
		id := a.reply[i+1]
		j.paid[id+" "+a.args["run"]] = true
		m.left++
		if g.State == budget.HalfOpen {
			j.permit(id, g, now+integer(a.args["lease"]))
			j.probed(id, g)
		} else {
			m.calls++
		}
	}
	if m.left > 0 {
		j.lets(a, g, now)
	}
}

// begin: only what was released, for what it was released, in the same generation. It
// returns what for, "" when nothing began.
func (j *gateJudge) begin(a applied, g budget.Gate, now int64, m *mark) string {
	if a.reply.At(0) != "granted" || a.record["state"] != string(jobs.Released) {
		if a.reply.At(0) == "held" {
			j.ended(a.args["id"], budget.SignNothing)
		}
		return "" // refused, or the same grant again
	}
	id := a.args["id"]
	j.paid[id+" "+a.args["run"]] = true
	j.lets(a, g, now)
	grant, generation, _ := strings.Cut(a.record["grant"], " ")
	if released := j.released[id+"#"+a.args["delivery"]]; released != grant {
		j.w.broken("P4: begin of %s is granted as %q and was released as %q", id, grant, released)
	}
	if integer(generation) != g.Generation {
		j.w.broken("P4: begin of %s is granted in generation %d, it left in %s", id, g.Generation, generation)
	}
	if (grant == "probe") != (g.State == budget.HalfOpen) {
		j.w.broken("P4: begin of %s is granted as %s while %s", id, grant, g.State)
	}
	j.w.history["begin, "+grant]++
	switch grant {
	case "first":
		m.firsts = 1
		if integer(a.record["sends"]) > 0 {
			j.w.broken("P4: attempt %d of %s fills", integer(a.record["sends"])+1, id)
		}
	case "retry":
		m.calls = 1
	case "probe":
		j.permit(id, g, now+integer(a.args["lease"]))
		j.probed(id, g)
	}
	return grant
}

// started is what the start of a call does to a gate.
func started(g budget.Gate, grant string, now int64, p budget.Params) budget.Gate {
	switch grant {
	case "first":
		return g.First(1, now, p)
	case "retry":
		g, _ = g.Spend(now, p)
	}
	return g
}

// oracle holds a gate against what the plain model makes of the one before.
func (j *gateJudge) oracle(a applied, want, got budget.Gate) {
	if got.TokensMilli != want.TokensMilli || got.State != want.State || got.UntilMS != want.UntilMS {
		j.w.broken("P4: %s leaves %d tokens, %s until %d; the model %d, %s until %d", a.script, got.TokensMilli, got.State, got.UntilMS,
			want.TokensMilli, want.State, want.UntilMS)
	}
}

// underWay holds what is under way against the most.
func (j *gateJudge) underWay(a applied, g budget.Gate, p budget.Params, now int64) {
	most := g.InFlight(now, p)
	if most < 0 {
		return
	}
	n := int64(0)
	for _, index := range []string{"released:first", "released:retry", "claims", "asking"} {
		entries, err := j.w.store.index(j.w.key(index))
		if err != nil {
			j.w.broken("index %s: %v", index, err)
		}
		for _, score := range entries {
			if index != "asking" || score > now {
				n++
			}
		}
	}
	if n > most {
		j.w.broken("P4: after %s %d calls are under way, at most %d may", a.script, n, most)
	}
}

// made is a call on the wire: it must have been paid for, and by itself alone. A nil
// judge judges nothing.
func (j *gateJudge) made(id jobs.ID, run string) {
	if j == nil {
		return
	}
	key := id.String() + " " + run
	if open, known := j.paid[key]; !open {
		j.w.broken("P4: a call of %s without a grant of its own (granted %v)", id, known)
	}
	j.paid[key] = false
}
