package outage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Figure is a picture of a [Report].
type Figure struct {
	Name    string // "calls"; also the name of its file, without what it ends in
	Title   string
	Caption string // what it shows, for a person who sees it
	SVG     []byte // a whole file; the same for the same report
}

// Figures draws what there is to see, in the order of the page. What has no data
// has no figure. It fails only where the report holds what is no number.
func (r *Report) Figures() ([]Figure, error) {
	var figures []Figure
	for _, f := range []struct {
		name, title, caption string
		draw                 func(title, caption string) ([]byte, error)
	}{
		{"calls", "Calls at the gateway", "Calls per second that reach the gateway, the same orders from each client. What a client adds to the thick line is load that the gateway must bear while it is in trouble.", r.drawCalls},
		{"failing", "Share of calls that fail", "Calls without a usable answer among all calls. The dashed lines are the instants at which alerts fired.", r.drawFailing},
		{"alerts", "Alerts", "A dotted line: the rule holds, and has to for a while. Its end: the alert fires.", r.drawAlerts},
		{"connections", "Connections held", "Most calls under way at once, per client. A request path with fewer slots than that turns customers away.", r.drawConnections},
		{"customers", "Customers' seconds", "How long all customers together waited for the answer of the shop.", r.drawCustomers},
		{"tokens", "Tokens of the budget", "What the shared budget still allows. First attempts fill it, calls beyond the first spend it.", r.drawTokens},
		{"breaker", "Breaker", "Closed: calls may leave. Open: none does but first attempts of the request path. Half open: a few probes.", r.drawBreaker},
		{"held", "Operations held, by reason", "Operations that are due and have not left, by what holds them.", r.drawHeld},
		{"refused", "Retries refused so far, by reason", "Each is a retry that came due and was not let through: the earliest sign of trouble.", r.drawRefused},
		{"backlog", "Backlog", "Operations that have not ended. It has to be empty at the end.", r.drawBacklog},
		{"delays", "Delays before a retry", r.delaysCaption(), r.drawDelays},
	} {
		svg, err := f.draw(f.title, f.caption)
		switch {
		case err != nil:
			return nil, fmt.Errorf("draw figure %s: %w", f.name, err)
		case svg != nil:
			figures = append(figures, Figure{Name: f.name, Title: f.title, Caption: f.caption, SVG: svg})
		}
	}
	return figures, nil
}

// stride is how many of n samples make one point of a line.
func stride(n int) int { return max(1, (n+mostPoints-1)/mostPoints) }

// perClient makes a line of each client that has samples. value sees the samples of
// one point, and the seconds that they span; ok is false where there is nothing to show.
func (r *Report) perClient(value func(span []Sample, seconds float64) (y float64, ok bool)) []series {
	var all []series
	for _, a := range r.Clients {
		var points []point
		step := stride(len(a.Samples))
		for from := 0; from < len(a.Samples); from += step {
			span := a.Samples[from:min(from+step, len(a.Samples))]
			seconds := r.Every.Seconds() * float64(len(span))
			y, ok := value(span, seconds)
			points = append(points, point{span[len(span)-1].At.Seconds() - seconds/2, y, !ok})
		}
		if s := newSeries(string(a.Client), looks[a.Client], points, r.Every.Seconds()*float64(step)); len(s.pieces) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// drawCalls has a logarithmic axis where a client's calls dwarf the others'. A logarithm
// has no nought: there a line is interrupted where there is no call.
func (r *Report) drawCalls(title, alt string) ([]byte, error) {
	const dwarfed = 10 // times as many as customers come
	most := 0.0
	for _, a := range r.Clients {
		most = max(most, a.PeakPerSecond)
	}
	log := most > dwarfed*float64(r.PerMin)/60
	lines := r.perClient(func(span []Sample, seconds float64) (float64, bool) {
		calls := 0
		for _, s := range span {
			calls += s.Calls
		}
		return float64(calls) / seconds, calls > 0 || !log
	})
	if lines == nil {
		return nil, nil
	}
	return chart{report: r, y: "calls per second", series: lines, log: log}.svg(title, alt)
}

func (r *Report) drawFailing(title, alt string) ([]byte, error) {
	lines := r.perClient(func(span []Sample, _ float64) (float64, bool) {
		calls, failed := 0, 0
		for _, s := range span {
			calls, failed = calls+s.Calls, failed+s.Failed
		}
		return 100 * float64(failed) / float64(max(calls, 1)), calls > 0
	})
	if lines == nil {
		return nil, nil
	}
	c := chart{report: r, y: "% of calls that fail", series: lines}
	for _, a := range r.Alerts {
		if a.Fired {
			c.marks = append(c.marks, mark{a.At, a.Name + " " + instant(a.At)})
		}
	}
	return c.svg(title, alt)
}

func (r *Report) drawConnections(title, alt string) ([]byte, error) {
	lines := r.perClient(func(span []Sample, _ float64) (float64, bool) {
		most := 0
		for _, s := range span {
			most = max(most, s.Connections)
		}
		return float64(most), true
	})
	if lines == nil {
		return nil, nil
	}
	return chart{report: r, y: "calls under way", series: lines}.svg(title, alt)
}

// ofGate makes a line of a value of the gate; each point shows the last of its samples.
func (r *Report) ofGate(name string, look int, value func(GateSample) (y float64, ok bool)) series {
	var points []point
	step := stride(len(r.Gate))
	for i := step - 1; i < len(r.Gate); i += step {
		y, ok := value(r.Gate[i])
		points = append(points, point{r.Gate[i].At.Seconds(), y, !ok})
	}
	return newSeries(name, look, points, r.Every.Seconds()*float64(step))
}

func (r *Report) drawTokens(title, alt string) ([]byte, error) {
	if len(r.Gate) == 0 {
		return nil, nil
	}
	tokens := r.ofGate("", 0, func(g GateSample) (float64, bool) { return g.Tokens, true })
	return chart{report: r, y: "tokens", series: []series{tokens}}.svg(title, alt)
}

func (r *Report) drawBacklog(title, alt string) ([]byte, error) {
	if len(r.Gate) == 0 {
		return nil, nil
	}
	backlog := r.ofGate("", 0, func(g GateSample) (float64, bool) { return float64(g.Backlog), true })
	return chart{report: r, y: "operations", series: []series{backlog}}.svg(title, alt)
}

// breakerLevels are the states of a breaker from healthy to not.
var breakerLevels = []string{"closed", "half_open", "open"}

// drawBreaker shows every change: a state may be shorter than one point of the
// other figures.
func (r *Report) drawBreaker(title, alt string) ([]byte, error) {
	var line []point
	last := -1
	for i, g := range r.Gate {
		level := slices.Index(breakerLevels, g.Breaker)
		if level < 0 {
			return nil, fmt.Errorf("breaker at %s is %q: want one of %s", instant(g.At), g.Breaker, strings.Join(breakerLevels, ", "))
		}
		if last >= 0 && level != last {
			line = append(line, point{x: g.At.Seconds(), y: float64(last)})
		}
		if level != last || i == len(r.Gate)-1 {
			line = append(line, point{x: g.At.Seconds(), y: float64(level)})
		}
		last = level
	}
	if len(line) == 0 {
		return nil, nil
	}
	return chart{report: r, series: []series{newSeries("", 0, line, r.Every.Seconds())}, levels: []string{"closed", "half open", "open"}, height: lowHeight}.svg(title, alt)
}

// drawHeld interrupts the line of a reason while it holds nothing: what holds the
// operations may change often, and all of them at once.
func (r *Report) drawHeld(title, alt string) ([]byte, error) {
	return r.drawByReason(chart{report: r, y: "operations"}, title, alt, func(g GateSample) map[string]int64 { return g.Held }, false)
}

func (r *Report) drawRefused(title, alt string) ([]byte, error) {
	return r.drawByReason(chart{report: r, y: "retries refused"}, title, alt, func(g GateSample) map[string]int64 { return g.Refused }, true)
}

// drawByReason draws a line for each reason that ever had a number, in the order of
// the alphabet. nought: whether a nought is shown.
func (r *Report) drawByReason(c chart, title, alt string, counts func(GateSample) map[string]int64, nought bool) ([]byte, error) {
	seen := map[string]bool{}
	for _, g := range r.Gate {
		for reason, n := range counts(g) {
			if n > 0 {
				seen[reason] = true
			}
		}
	}
	for i, reason := range slices.Sorted(maps.Keys(seen)) {
		c.series = append(c.series, r.ofGate(reason, i, func(g GateSample) (float64, bool) {
			n := counts(g)[reason]
			return float64(n), n > 0 || nought
		}))
	}
	if c.series == nil {
		return nil, nil
	}
	return c.svg(title, alt)
}
