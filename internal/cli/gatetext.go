package cli

import (
	"fmt"
	"strconv"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/wire"
)

func (p *program) writeGates(views []wire.Gate, single bool) error {
	switch p.flags.output {
	case asJSON:
		if single {
			return p.writeJSON(views[0])
		}
		return p.writeJSON(struct {
			Items []wire.Gate `json:"items"`
		}{views})
	case asJSONL:
		for _, v := range views {
			if err := p.writeLine(v); err != nil {
				return err
			}
		}
		return nil
	case asCSV:
		return tableCSV(p.stdout, gateGrid(views))
	}
	if single {
		p.gatePage(views[0])
		return nil
	}
	p.table(gateGrid(views))
	for _, v := range views {
		if !v.Known {
			p.say("%s: %s", v.Dependency, notKnown)
		}
	}
	return nil
}

const notKnown = "no worker has said yet with which parameters it runs: limits, and what follows from them, are not known"

func gateGrid(views []wire.Gate) grid {
	g := grid{header: []string{"dependency", "tokens", "cap", "fill/s", "spent/s", "breaker", "ramp", "lane/s", "in flight", "backlog", "first attempts", "aside",
		"held by", "eta", "will miss", "override", "paused"}}
	for _, v := range views {
		eta, misses := "-", "-"
		if v.Forecast != nil {
			eta, misses = etaText(v.Forecast.ETA), strconv.FormatInt(v.Forecast.Misses, 10)
		}
		override := "-"
		if v.Override != nil {
			override = "until " + instant(v.Override.Until)
		}
		g.add(string(v.Dependency), figure(v.Tokens), figure(v.Cap), figure(v.Window.FillPerSecond), decimal(v.Window.SpentPerSecond), breakerText(v.Breaker),
			rampText(v.Ramp), decimal(v.Drain.PerSecond), inFlightText(v.InFlight), strconv.FormatInt(v.Backlog.Due, 10), strconv.FormatInt(v.Firsts.Due, 10),
			strconv.FormatInt(v.Aside, 10), heldBy(v), eta, misses, override, pausedText(v.Paused))
	}
	return g
}

// heldBy is what holds of what is due; first attempts are held by nothing that does
// not hold the backlog too.
func heldBy(v wire.Gate) string {
	for _, d := range []wire.Due{v.Backlog, v.Firsts} {
		if d.Due > 0 && d.HeldBy != nil {
			return string(*d.HeldBy)
		}
	}
	return "-"
}

// gatePage is what a person sees of one gate: first whether something is held.
func (p *program) gatePage(v wire.Gate) {
	held := "nothing that is due is held"
	if why := heldBy(v); why != "-" {
		held = fmt.Sprintf("what is due is held: %s (%s)", why, holdTexts[jobs.Hold(why)])
	} else if v.Aside > 0 {
		held = "what is due under a paused credential is held"
	}
	p.print("%s: breaker %s, %s", v.Dependency, breakerText(v.Breaker), held)
	if !v.Known {
		p.print("%s", notKnown)
	}
	p.print("")
	var g grid
	row := func(name, format string, args ...any) { g.add(name, fmt.Sprintf(format, args...)) }
	row("read at", "%s", instant(v.ReadAt))
	if v.Tokens != nil {
		row("tokens", "%s of at most %s", figure(v.Tokens), figure(v.Cap))
	}
	if v.Ratio != nil && v.FloorPerSecond != nil {
		row("fill", "%s for each first attempt, and %s/s", figure(v.Ratio), figure(v.FloorPerSecond))
	}
	w := v.Window
	putIn := ""
	if w.FillPerSecond != nil {
		putIn = ", " + figure(w.FillPerSecond) + "/s put in"
	}
	row("last "+span(w.SpanSeconds), "%d first attempts (%s/s), %d tokens spent (%s/s)%s", w.FirstAttempts, decimal(w.FirstsPerSecond), w.Spent,
		decimal(w.SpentPerSecond), putIn)
	row("results", "%d, of them %d failed (%d throttled)", w.Results, w.Failed, w.Throttled)
	row("breaker", "%s", breakerPageText(v.Breaker))
	if b := v.Breaker.Probes; b != nil {
		row("probes", "%d under way, %d of %d ok, %d neutral, %s left", b.Out, b.OK, b.Most, b.Neutral, count(int(b.Permits), "permit"))
	}
	if v.Ramp != nil && v.Ramp.Until != nil {
		row("ramp", "%s of fill, cap and calls in flight, whole at %s", rampText(v.Ramp), instant(v.Ramp.Until))
	}
	if v.Drain.Most != nil {
		row("drain lane", "%s/s, grows to %s/s", decimal(v.Drain.PerSecond), figure(v.Drain.Most))
	}
	if v.Rate != nil {
		row("rate", "%s/s, %s at once, %d may leave now", decimal(v.Rate.PerSecond), decimal(v.Rate.Burst), v.Rate.Free)
	} else if v.Known {
		row("rate", "no limit")
	}
	row("in flight", "%s", inFlightPageText(v))
	if v.ParkedUntil != nil {
		row("parked", "until %s: the dependency asked to wait (Retry-After)", instant(v.ParkedUntil))
	}
	if v.Paused != nil {
		row("paused", "since %s, until %s, by %s: %s", instant(v.Paused.Since), untilText(v.Paused.Until), v.Paused.By, orDash(v.Paused.Note))
	}
	if v.RolledBackAt != nil {
		row("rolled back", "Redis lost attempts that it had acknowledged (%s): look at what is unknown, then resume", instant(v.RolledBackAt))
	}
	for _, c := range v.Credentials {
		row("credential", "%s is paused since %s: it was refused; mend it, then resume it", c.Name, instant(c.Since))
	}
	row("backlog", "%s", dueText(v.Backlog))
	row("first attempts", "%s", dueText(v.Firsts))
	if v.Aside > 0 {
		row("aside", "%d due, held: their credential is paused", v.Aside)
	}
	if f := v.Forecast; f != nil && v.Backlog.Due > 0 {
		row("forecast", "%s at %s/s; %d will miss the deadline", etaPageText(f.ETA), decimal(f.PerSecond), f.Misses)
	}
	if o := v.Override; o != nil {
		row("override", "%s", inForceText(o))
	}
	p.table(g)
}

// holdTexts say what a person may make of why something is held.
var holdTexts = map[jobs.Hold]string{
	jobs.HoldBudget:   "no token",
	jobs.HoldBreaker:  "the breaker is not closed",
	jobs.HoldRamp:     "the breaker closed a short while ago",
	jobs.HoldLane:     "no token, and the drain lane is at its rate",
	jobs.HoldInFlight: "as many calls as may be are under way",
	jobs.HoldRate:     "the rate of all calls is used up",
	jobs.HoldRateHint: "the dependency asked to wait",
	jobs.HoldPaused:   "calls are stopped for now",
}

func dueText(d wire.Due) string {
	switch {
	case d.Due == 0:
		return "none due"
	case d.HeldBy == nil:
		return fmt.Sprintf("%d due", d.Due)
	}
	return fmt.Sprintf("%d due, held: %s", d.Due, *d.HeldBy)
}

func breakerText(b wire.Breaker) string {
	if b.Until != nil {
		return string(b.State) + " until " + instant(b.Until)
	}
	return string(b.State)
}

func breakerPageText(b wire.Breaker) string {
	text := breakerText(b)
	if b.Enabled != nil && !*b.Enabled {
		return text + ", it never opens: neither min_calls nor consecutive is set"
	}
	if b.Since != nil {
		text += ", since " + instant(b.Since)
	}
	if b.State != budget.Closed && b.Why != nil {
		text += ", because of " + *b.Why
	}
	text += ", generation " + strconv.FormatInt(b.Generation, 10)
	if b.Opened > 0 {
		text += ", opened " + count(int(b.Opened), "time") + " in a row"
	}
	return text
}

func rampText(r *wire.Ramp) string {
	if r == nil {
		return "-"
	}
	return decimal(r.Percent) + " %"
}

func inFlightText(f wire.InFlight) string {
	if f.Most == nil {
		return strconv.FormatInt(f.Now, 10)
	}
	return fmt.Sprintf("%d/%d", f.Now, *f.Most)
}

func inFlightPageText(v wire.Gate) string {
	switch {
	case v.InFlight.Most != nil:
		return fmt.Sprintf("%d of at most %d", v.InFlight.Now, *v.InFlight.Most)
	case v.Known:
		return fmt.Sprintf("%d, no limit", v.InFlight.Now)
	}
	return strconv.FormatInt(v.InFlight.Now, 10)
}

func untilText(until *jobs.Instant) string {
	if until == nil {
		return "it is resumed"
	}
	return instant(until)
}

func etaText(seconds *float64) string {
	if seconds == nil {
		return "never"
	}
	return span(*seconds)
}

func etaPageText(seconds *float64) string {
	if seconds == nil {
		return "never"
	}
	return "will have left in " + span(*seconds)
}

// span writes seconds as people do: to the second, but for what is shorter.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d > time.Second {
		d = d.Round(time.Second)
	}
	return d.Round(time.Millisecond).String()
}

// decimal writes a number without an exponent and without noughts at its end.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func figure(f *float64) string {
	if f == nil {
		return "-"
	}
	return decimal(*f)
}
