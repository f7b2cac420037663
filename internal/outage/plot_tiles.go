package outage

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// rowHeight is that of one alert or one client in a figure that lists them.
const rowHeight = vg.Length(30)

// timeline draws when each alert was pending and when it stood, one row each.
type timeline struct{ report *Report }

// Plot implements [plot.Plotter].
func (t timeline) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, a := range t.report.Alerts {
		at := y(float64(len(t.report.Alerts) - i - 1))
		line := draw.LineStyle{Color: hues[0], Width: 1.2, Dashes: dashes[2]}
		if !a.Fired {
			c.FillText(style(smallSize, faint), vg.Point{X: c.Min.X + 3, Y: at + 4}, a.Name+": did not fire")
			continue
		}
		fired := x(a.At.Seconds())
		c.StrokeLine2(line, x(a.Began.Seconds()), at, fired, at)
		line.Width, line.Dashes = 4, nil
		c.StrokeLine2(line, fired, at, max(fired+3, min(fired+14, c.Max.X)), at)
		beside(c, fired, at+5, a.Name+" "+instant(a.At))
	}
}

func (r *Report) drawAlerts(title, alt string) ([]byte, error) {
	if len(r.Alerts) == 0 {
		return nil, nil
	}
	c := chart{report: r, extra: timeline{r}, bare: true, levels: make([]string, len(r.Alerts)), height: 50 + rowHeight*vg.Length(len(r.Alerts))}
	return c.svg(title, alt)
}

// drawCustomers is a bar per client with its number.
func (r *Report) drawCustomers(title, alt string) ([]byte, error) {
	most := 0.0
	for _, a := range r.Clients {
		most = max(most, a.CustomerSeconds)
	}
	if most == 0 {
		return nil, nil
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(figureWidth, 20+rowHeight*vg.Length(len(r.Clients))))
	c := draw.New(canvas)
	background(c)
	words := style(wordSize, ink)
	const left = vg.Length(64)
	widest := figureWidth - left - 90 // room for the number behind the longest bar
	for i, a := range r.Clients {
		bottom := c.Max.Y - 8 - rowHeight*vg.Length(i+1)
		end := left + widest*vg.Length(a.CustomerSeconds/most)
		c.FillPolygon(hues[looks[a.Client]], []vg.Point{{X: left, Y: bottom + 6}, {X: end, Y: bottom + 6}, {X: end, Y: bottom + rowHeight - 4}, {X: left, Y: bottom + rowHeight - 4}})
		name := words
		name.XAlign = text.XRight
		c.FillText(name, vg.Point{X: left - 6, Y: bottom + 12}, string(a.Client))
		c.FillText(words, vg.Point{X: end + 5, Y: bottom + 12}, secondsText(a.CustomerSeconds))
	}
	return finish(canvas, title, alt)
}

// The histograms of the delays stand side by side.
const (
	tilesAcross = 3
	mostTiles   = 9
	tileHeight  = vg.Length(112)
)

// drawn are the bands that have a histogram: the first that have delays.
func (r *Report) drawn() []Band {
	var bands []Band
	for _, b := range r.Bands {
		if b.Delays > 0 && len(bands) < mostTiles {
			bands = append(bands, b)
		}
	}
	return bands
}

func (r *Report) delaysCaption() string {
	const flat = "How many delays fell into each tenth of a band. Each is drawn evenly between 0 and the band's upper end, so that retries never come in step: every histogram should be flat, near the dashed line."
	delays, unjudged := 0, 0
	for _, b := range r.Bands {
		delays += b.Delays
		if b.Delays > 0 && !b.Judged {
			unjudged++
		}
	}
	caption := fmt.Sprintf("%s %s delays in all.", flat, grouped(fmt.Sprint(delays)))
	if unjudged > 0 {
		caption += fmt.Sprintf(" Bands with too few to judge: %d.", unjudged)
	}
	return caption
}

// drawDelays is a histogram per band.
func (r *Report) drawDelays(title, alt string) ([]byte, error) {
	bands := r.drawn()
	if len(bands) == 0 {
		return nil, nil
	}
	down := (len(bands) + tilesAcross - 1) / tilesAcross
	canvas := vgsvg.NewWith(vgsvg.UseWH(figureWidth, tileHeight*vg.Length(down)))
	all := draw.New(canvas)
	background(all)
	width := figureWidth / tilesAcross
	for i, b := range bands {
		left, top := width*vg.Length(i%tilesAcross), all.Max.Y-tileHeight*vg.Length(i/tilesAcross)
		tile := draw.Canvas{Canvas: all.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: left + 4, Y: top - tileHeight + 2}, Max: vg.Point{X: left + width - 6, Y: top - 30}}}
		c := style(smallSize, ink)
		all.FillText(c, vg.Point{X: left + 6, Y: top - 13}, fmt.Sprintf("after attempt %d, up to %s", b.Attempt, spanText(b.Upper)))
		c.Color = faint
		all.FillText(c, vg.Point{X: left + 6, Y: top - 24}, b.verdict())
		b.histogram().Draw(tile)
	}
	return finish(canvas, title, alt)
}

// verdict says whether the band is flat.
func (b Band) verdict() string {
	switch {
	case !b.Judged:
		return fmt.Sprintf("n = %d: too few to judge", b.Delays)
	case b.Flat:
		return fmt.Sprintf("n = %s, p = %.2f: flat", grouped(fmt.Sprint(b.Delays)), b.P)
	}
	return fmt.Sprintf("n = %s, p = %.2g: NOT flat", grouped(fmt.Sprint(b.Delays)), b.P)
}

func (b Band) histogram() *plot.Plot {
	p := plain()
	bars := bars{width: b.Upper.Seconds() / float64(max(len(b.Counts), 1)), even: float64(b.Delays) / float64(max(len(b.Counts), 1))}
	most := bars.even
	for _, n := range b.Counts {
		bars.counts = append(bars.counts, float64(n))
		most = max(most, float64(n))
	}
	step := niceStep(most / 2)
	top := math.Ceil(most*1.05/step) * step
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, b.Upper.Seconds(), 0, top
	p.X.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: b.Upper.Seconds() / 2}, {Value: b.Upper.Seconds(), Label: spanText(b.Upper.Round(time.Millisecond))}}
	var ticks plot.ConstantTicks
	for v := 0.0; v <= top*1.001; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
	}
	p.Y.Tick.Marker = ticks
	p.Add(bars)
	return p
}

// bars is a histogram beside what an even one would be.
type bars struct {
	counts      []float64
	width, even float64
}

// Plot implements [plot.Plotter].
func (h bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, n := range h.counts {
		left, right := x(float64(i)*h.width)+0.6, x(float64(i+1)*h.width)-0.6
		c.FillPolygon(hues[0], []vg.Point{{X: left, Y: c.Min.Y}, {X: right, Y: c.Min.Y}, {X: right, Y: y(n)}, {X: left, Y: y(n)}})
	}
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: 1, Dashes: dashes[1]}, c.Min.X, y(h.even), c.Max.X, y(h.even))
}

var (
	_ plot.Plotter = timeline{}
	_ plot.Plotter = bars{}
	_ plot.Plotter = shading{}
	_ plot.Plotter = marks{}
	_ plot.Plotter = (*plotter.Grid)(nil)
)
