package gate

import (
	"bytes"
	"image/color"
	"strconv"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// line is one of a plot.
type line struct {
	name string
	ours bool
	at   plotter.XYs
}

// chart is a plot of lines.
type chart struct {
	title, x, y    string
	logX, logY     bool
	ticksX, ticksY []float64 // marks with a number; the first and the last of ticksY are the ends of the axis
	lines          []line
}

// others colours what is not ours; ours is black and thick, so that the picture can be
// read without colours.
var others = []color.RGBA{{R: 213, G: 94, A: 255}, {B: 178, G: 114, A: 255}, {G: 158, B: 115, A: 255}, {R: 204, G: 121, B: 167, A: 255}}

func (c chart) svg(t *testing.T) []byte {
	t.Helper()
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.BackgroundColor = color.White // readable on a dark page, too
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(2)
	p.Legend.XOffs = vg.Points(8)
	p.Add(plotter.NewGrid())
	if c.logX {
		p.X.Scale = plot.LogScale{}
	}
	if c.logY {
		p.Y.Scale = plot.LogScale{}
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks(c.ticksX), ticks(c.ticksY)
	n := 0
	for _, l := range c.lines {
		drawn, err := plotter.NewLine(l.at)
		if err != nil {
			t.Fatalf("line %s of %s: %v", l.name, c.title, err)
		}
		drawn.Width, drawn.Color = vg.Points(2.5), color.Black
		if !l.ours {
			drawn.Width, drawn.Color = vg.Points(1.2), others[n%len(others)]
			n++
		}
		p.Add(drawn)
		p.Legend.Add(l.name, drawn)
	}
	p.Y.Min, p.Y.Max = c.ticksY[0], c.ticksY[len(c.ticksY)-1]
	writer, err := p.WriterTo(18*vg.Centimeter, 10*vg.Centimeter, "svg")
	if err != nil {
		t.Fatalf("plot %s: %v", c.title, err)
	}
	var b bytes.Buffer
	if _, err := writer.WriteTo(&b); err != nil {
		t.Fatalf("plot %s: %v", c.title, err)
	}
	return b.Bytes()
}

func ticks(at []float64) plot.Ticker {
	var marks plot.ConstantTicks
	for _, v := range at {
		text := strconv.FormatFloat(v, 'f', -1, 64)
		if v >= 10_000 {
			text = thousands(int(v))
		}
		marks = append(marks, plot.Tick{Value: v, Label: text})
	}
	return marks
}

// series makes a line of a run's seconds, one point for each step of them.
func series(r Result, from, step int, x, y func(second int, s Second) float64) plotter.XYs {
	var at plotter.XYs
	for sec := from; sec+step <= len(r.Seconds); sec += step {
		s := r.Span(sec, sec+step)
		at = append(at, plotter.XY{X: x(sec, s), Y: y(sec, s)})
	}
	return at
}

// plots are the pictures of the page, by file name.
func plots() map[string]func(*testing.T) []byte {
	return map[string]func(*testing.T) []byte{
		"gate-rates":      plotRates,
		"gate-instances":  plotInstances,
		"gate-metastable": plotMetastable,
		"gate-night":      plotNight,
		"gate-recovery":   plotRecovery,
	}
}

func plotRates(t *testing.T) []byte {
	c := chart{title: "Calls per operation, 100 instances", x: "share of calls that fail", y: "calls per operation",
		ticksX: failureRates, ticksY: []float64{0, 1, 2, 3, 4, 5}}
	for _, s := range []struct{ name, strategy string }{{"3 retries", "3 retries"}, {"bucket per instance", "own buckets"}, {"no retries", "none"}, {"ours", "budget"}} {
		l := line{name: s.name, ours: s.strategy == "budget"}
		for _, rate := range failureRates {
			l.at = append(l.at, plotter.XY{X: rate, Y: rates(s.strategy, 100, rate).Amplification()})
		}
		c.lines = append(c.lines, l)
	}
	return c.svg(t)
}

func plotInstances(t *testing.T) []byte {
	c := chart{title: "Everything fails for 60 s: calls per operation", x: "instances", y: "calls per operation", logX: true,
		ticksX: []float64{1, 10, 100, 1000}, ticksY: []float64{1, 1.1, 1.2, 1.4, 1.6, 1.8, 2}}
	own, ours, most := line{name: "bucket per instance"}, line{name: "ours", ours: true}, line{name: "bound of ours"}
	for _, n := range counts {
		r := instances("budget", n)
		own.at = append(own.at, plotter.XY{X: float64(n), Y: instances("own buckets", n).Amplification()})
		ours.at = append(ours.at, plotter.XY{X: float64(n), Y: r.Amplification()})
		most.at = append(most.at, plotter.XY{X: float64(n), Y: bound(r)})
	}
	c.lines = []line{own, most, ours}
	return c.svg(t)
}

func plotMetastable(t *testing.T) []byte {
	c := chart{title: "One of two servers is out from 5 to 10 s, load 85/s, seed 42", x: "s", y: "operations that succeed, per s",
		ticksX: []float64{0, 5, 10, 20, 30, 40, 50, 60}, ticksY: []float64{0, 40, 85, 120, 160}}
	for _, s := range []struct{ name, strategy string }{{"3 retries at once", "3 retries"}, {"no retries", "none"}, {"ours without breaker and lane", "budget"},
		{"ours", "gate"}} {
		at := series(metastable(s.strategy, 85, 42), 0, 2, func(sec int, _ Second) float64 { return float64(sec) },
			func(_ int, s Second) float64 { return float64(s.Good) / 2 })
		c.lines = append(c.lines, line{name: s.name, ours: s.strategy == "gate", at: at})
	}
	return c.svg(t)
}

func plotNight(t *testing.T) []byte {
	c := chart{title: "A night after an outage of an hour", x: "hours since the outage ended", y: "operations that wait",
		ticksX: []float64{0, 1, 2, 3, 4, 5, 6, 7, 8}, ticksY: []float64{0, 100_000, 200_000, 300_000, 400_000, 550_000}}
	for _, s := range []struct{ name, strategy string }{{"ratio", "night: ratio"}, {"ratio and floor 1/s", "night: floor 1"},
		{"ratio and floor 10/s", "night: floor 10"}, {"ours: and a lane of 85/s", "night: gate"}} {
		at := series(night(s.strategy, fullOutage), NightOutFrom+fullOutage, 60, func(sec int, _ Second) float64 {
			return float64(sec-NightOutFrom-fullOutage) / 3600
		}, func(_ int, s Second) float64 { return float64(s.Backlog) })
		c.lines = append(c.lines, line{name: s.name, ours: s.strategy == "night: gate", at: at})
	}
	return c.svg(t)
}

func plotRecovery(t *testing.T) []byte {
	c := chart{title: "Recovery of a dependency that bears 100 calls/s, load 70/s", x: "s since the outage ended", y: "calls per s, most of 5 s", logY: true,
		ticksX: []float64{0, 100, 200, 300, 400, 500, 600}, ticksY: []float64{1, 10, 100, 1000, 100_000}}
	for _, s := range []struct {
		name, strategy string
		limit          int
	}{{"full jitter, cap 60 s", "full jitter 60 s", naiveLimit}, {"breaker, cap 700, no ramp", "recovery: breaker 700", recoveryLimit},
		{"ours", "recovery: gate", recoveryLimit}} {
		r := recovery(s.strategy, s.limit)
		var at plotter.XYs
		for sec := RecoveryOutTo; sec+5 <= min(len(r.Seconds), RecoveryOutTo+600); sec += 5 {
			most := 1 // a logarithm's least
			for _, s := range r.Seconds[sec : sec+5] {
				most = max(most, s.Calls)
			}
			at = append(at, plotter.XY{X: float64(sec - RecoveryOutTo), Y: float64(most)})
		}
		c.lines = append(c.lines, line{name: s.name, ours: s.strategy == "recovery: gate", at: at})
	}
	return c.svg(t)
}

func TestPlotsAreTheSameBytesTwice(t *testing.T) {
	t.Parallel()
	first, second := plotMetastable(t), plotMetastable(t)
	if !bytes.Equal(first, second) {
		t.Error("two drawings differ")
	}
	if len(first) < 1000 || !bytes.Contains(first, []byte("<svg")) {
		t.Errorf("%s bytes that begin %.60q are no picture", strconv.Itoa(len(first)), first)
	}
}
