package budget

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Fields is the gate as the hash in the store holds it: see the header of lua/gate.lua.
// What people write there (a pause, an override) is not among them.
func (g Gate) Fields() map[string]string {
	probes := make([]string, len(g.Probes))
	var newest Bin
	var bins []string
	if n := len(g.Bins); n > 0 {
		newest = g.Bins[n-1]
		for _, b := range g.Bins[:n-1] {
			bins = append(bins, fmt.Sprintf("%d:%d:%d:%d:%d:%d", b.AtMS, b.Calls, b.Failed, b.Throttled, b.Firsts, b.Spent))
		}
	}
	sum := g.Window()
	for i, l := range g.Probes {
		probes[i] = fmt.Sprintf("%d=%s", l.UntilMS, l.ID)
	}
	why := g.Why
	if why == "" {
		why = "-"
	}
	return map[string]string{
		"tokens": strconv.FormatInt(g.TokensMilli, 10), "rest": strconv.FormatInt(g.RestMicro, 10), "filled_at": strconv.FormatInt(g.FilledAtMS, 10),
		"breaker": fmt.Sprintf("%s %d %d %d %d %d %d %d %s", g.State, g.Generation, g.SinceMS, g.UntilMS, g.Opened, g.Run, g.ProbesOK, g.Neutral, why),
		"probes":  strings.Join(probes, " "), "bins": strings.Join(bins, " "),
		"window": fmt.Sprintf("%d %d %d %d %d %d %d %d %d %d %d", sum.Calls, sum.Failed, sum.Throttled, sum.Firsts, sum.Spent,
			newest.AtMS, newest.Calls, newest.Failed, newest.Throttled, newest.Firsts, newest.Spent),
		"park": fmt.Sprintf("%d %d", g.ParkedUntilMS, g.Hints),
		"lane": fmt.Sprintf("%d %d %d %d %d %d", g.LaneMilli, g.LaneTokensMilli, g.LaneRestMicro, g.LaneFilledMS, g.LaneGrownMS, g.LaneCutMS),
		"rate": fmt.Sprintf("%d %d %d", g.RateTokensMilli, g.RateRestMicro, g.RateFilledMS), "fresh": fmt.Sprintf("%d %d", g.FreshMS, g.ReleasedAtMS),
		"peak": fmt.Sprintf("%d %d %d", g.Hour, g.Peak, g.PeakBefore),
	}
}

var (
	breakerText = regexp.MustCompile(`^(closed|open|half_open) ((?:-?\d{1,15} ){7})(.*)$`)
	binText     = regexp.MustCompile(`(\d{1,15}):(\d{1,15}):(\d{1,15}):(\d{1,15}):(\d{1,15}):(\d{1,15})`)
	probeText   = regexp.MustCompile(`(\d{1,15})=(\S+)`)
	overText    = regexp.MustCompile(`([a-z_]+)=(\d{1,15})`)
)

// Read returns the gate that a hash of the store holds. What is missing or garbled
// counts as never written. begun says whether anything was ever sent to the dependency.
func Read(fields map[string]string, begun bool) Gate {
	g := Gate{State: Closed, Begun: begun}
	tokens, ok := natural(fields["tokens"])
	filled, ok2 := natural(fields["filled_at"])
	if g.Known = ok && ok2; g.Known {
		g.TokensMilli, g.FilledAtMS = tokens, filled
	}
	rest, _ := natural(fields["rest"])
	g.RestMicro = min(rest, 999)
	if m := breakerText.FindStringSubmatch(fields["breaker"]); m != nil {
		n, _ := numbers(m[2], 7)
		g.State, g.Generation, g.SinceMS, g.UntilMS, g.Opened, g.Run, g.ProbesOK, g.Neutral = State(m[1]), n[0], n[1], n[2], n[3], n[4], n[5], n[6]
		if m[3] != "-" {
			g.Why = m[3]
		}
	}
	for _, m := range binText.FindAllStringSubmatch(fields["bins"], -1) {
		n, _ := numbers(strings.Join(m[1:], " "), 6)
		g.Bins = append(g.Bins, Bin{n[0], n[1], n[2], n[3], n[4], n[5]})
	}
	if n, ok := numbers(fields["window"], 11); ok && n[5] > 0 {
		g.Bins = append(g.Bins, Bin{n[5], n[6], n[7], n[8], n[9], n[10]})
	} else {
		g.Bins = nil // as the script has it: without the newest none counts
	}
	for _, m := range probeText.FindAllStringSubmatch(fields["probes"], -1) {
		until, _ := natural(m[1])
		g.Probes = append(g.Probes, Lease{ID: m[2], UntilMS: until})
	}
	set := func(name string, into ...*int64) {
		if n, ok := numbers(fields[name], len(into)); ok {
			for i, v := range n {
				*into[i] = v
			}
		}
	}
	set("park", &g.ParkedUntilMS, &g.Hints)
	set("lane", &g.LaneMilli, &g.LaneTokensMilli, &g.LaneRestMicro, &g.LaneFilledMS, &g.LaneGrownMS, &g.LaneCutMS)
	set("rate", &g.RateTokensMilli, &g.RateRestMicro, &g.RateFilledMS)
	set("fresh", &g.FreshMS, &g.ReleasedAtMS)
	set("peak", &g.Hour, &g.Peak, &g.PeakBefore)
	g.Held = fields["hold"] == "paused"
	g.HeldUntilMS, _ = natural(fields["hold_until"])
	g.RolledAtMS, _ = natural(fields["rolled"])
	g.Override = ReadOverride(fields["override"])
	g.Begun = begun && g.ReleasedAtMS == 0
	return g
}

// ReadOverride reads what [Override.Text] wrote; an empty one where it is garbage.
func ReadOverride(text string) Override {
	until, rest, _ := strings.Cut(text, " ")
	at, ok := natural(until)
	if !ok {
		return Override{}
	}
	o := Override{UntilMS: at, Values: map[string]int64{}}
	for _, m := range overText.FindAllStringSubmatch(rest, -1) {
		o.Values[m[1]], _ = natural(m[2])
	}
	return o
}

// Text is the form in which an override is stored.
func (o Override) Text() string {
	text := []string{strconv.FormatInt(o.UntilMS, 10)}
	for _, name := range Overridable {
		if v, ok := o.Values[name]; ok {
			text = append(text, fmt.Sprintf("%s=%d", name, v))
		}
	}
	return strings.Join(text, " ")
}

var naturalText = regexp.MustCompile(`^\d{1,15}$`)

func natural(text string) (int64, bool) {
	if !naturalText.MatchString(text) {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func numbers(text string, n int) ([]int64, bool) {
	words := strings.Fields(text)
	if len(words) < n {
		return nil, false
	}
	out := make([]int64, n)
	for i := range out {
		v, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil || len(words[i]) > 15 {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}
