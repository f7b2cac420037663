package outage

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours of every figure. Each stands for one thing, so that the page can put
// another in its place where the background is dark. The three clients differ in
// lightness and in their dashes too: the figures can be read without colours.
var (
	paper = color.RGBA{R: 0xff, G: 0xff, B: 0xfe, A: 255}
	ink   = color.RGBA{R: 0x1d, G: 0x21, B: 0x26, A: 255}
	faint = color.RGBA{R: 0x5d, G: 0x66, B: 0x70, A: 255}
	mesh  = color.RGBA{R: 0xdd, G: 0xe1, B: 0xe5, A: 255}
	shade = color.RGBA{R: 0xfb, G: 0xec, B: 0xe3, A: 255}

	hues = []color.RGBA{
		{R: 0x00, G: 0x5f, B: 0xb0, A: 255}, // blue
		{R: 0xc9, G: 0x4f, B: 0x00, A: 255}, // vermilion
		{R: 0x8e, G: 0x4a, B: 0x9e, A: 255}, // purple
		{R: 0x00, G: 0x80, B: 0x5c, A: 255}, // green
		{R: 0x8a, G: 0x6a, B: 0x00, A: 255}, // ochre
		{R: 0x56, G: 0x5b, B: 0x63, A: 255}, // grey
	}
	dashes = [][]vg.Length{nil, {5, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}, {3, 1}, {8, 3}}
)

// looks says how each client is drawn: which of hues and dashes.
var looks = map[Client]int{Redrive: 0, Naive: 1, Stacked: 2}

// A figure is small, so that its words can still be read on a telephone; a larger
// page enlarges it.
const (
	figureWidth  = vg.Length(420)
	figureHeight = vg.Length(220)
	lowHeight    = vg.Length(130)
	wordSize     = vg.Length(9)
	smallSize    = vg.Length(8)

	mostPoints = 160 // of a line: more would be hidden by its own width
)

func style(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Handler: plot.DefaultTextHandler}
}

// series is a line of a figure.
type series struct {
	name   string
	look   int           // which of hues and dashes
	pieces []plotter.XYs // it is interrupted between them
}

// point is one of a line; none: there is nothing to show, and the line is interrupted.
type point struct {
	x, y float64
	none bool
}

// newSeries makes a line of points. wide is how far one that stands alone reaches to
// the right, so that it can be seen.
func newSeries(name string, look int, points []point, wide float64) series {
	s := series{name: name, look: look}
	var piece plotter.XYs
	end := func() {
		if len(piece) == 1 {
			piece = append(piece, plotter.XY{X: piece[0].X + wide, Y: piece[0].Y})
		}
		if len(piece) > 0 {
			s.pieces = append(s.pieces, piece)
		}
		piece = nil
	}
	for _, p := range points {
		if p.none {
			end()
			continue
		}
		piece = append(piece, plotter.XY{X: p.x, Y: p.y})
	}
	end()
	return s
}

func (s series) style() draw.LineStyle {
	width := vg.Length(1.2)
	if s.look == 0 {
		width = 2
	}
	return draw.LineStyle{Color: hues[s.look%len(hues)], Width: width, Dashes: dashes[s.look%len(dashes)]}
}

// chart is a figure over the time of a scenario.
type chart struct {
	report *Report
	y      string // what stands at the y axis, with its unit
	series []series
	log    bool         // the y axis is logarithmic
	levels []string     // names at 0, 1, 2 of the y axis, instead of numbers
	bare   bool         // the y axis says nothing
	marks  []mark       // vertical lines
	extra  plot.Plotter // drawn last; may be nil
	height vg.Length    // 0: figureHeight
}

// mark is a vertical line with words.
type mark struct {
	at   time.Duration
	text string
}

// svg draws the figure. title and alt are for those who cannot see it.
func (c chart) svg(title, alt string) ([]byte, error) {
	height := c.height
	if height == 0 {
		height = figureHeight
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(figureWidth, height))
	all := draw.New(canvas)
	background(all)
	p := plain()
	p.Y.Label.Text = c.y
	p.X.Min, p.X.Max = 0, c.report.Took.Seconds()
	p.X.Label.Text, p.X.Tick.Marker = timeAxis(c.report.Took)
	c.scale(p)
	if c.bare {
		p.Y.Tick.Length = 0
	}
	p.Add(shading{c.report}, grid())
	for _, s := range c.series {
		for _, piece := range s.pieces {
			line, err := plotter.NewLine(piece)
			if err != nil {
				return nil, fmt.Errorf("line %s: %w", s.name, err)
			}
			line.LineStyle = s.style()
			p.Add(line)
		}
	}
	p.Add(marks(c.marks))
	if c.extra != nil {
		p.Add(c.extra)
	}
	p.Draw(draw.Crop(all, 4, -8, 4, -legend(all, c.series)))
	return finish(canvas, title, alt)
}

// scale sets the y axis so that every line fits.
func (c chart) scale(p *plot.Plot) {
	least, most := math.Inf(1), 0.0
	for _, s := range c.series {
		for _, piece := range s.pieces {
			for _, at := range piece {
				least, most = min(least, at.Y), max(most, at.Y)
			}
		}
	}
	switch {
	case c.levels != nil:
		var named plot.ConstantTicks
		for i, name := range c.levels {
			named = append(named, plot.Tick{Value: float64(i), Label: name})
		}
		p.Y.Min, p.Y.Max, p.Y.Tick.Marker = -0.3, float64(len(c.levels))-0.35, named
	case c.log:
		p.Y.Scale = plot.LogScale{}
		var marked plot.ConstantTicks
		low, high := niceBelow(least), niceStep(most)
		for v := low; v <= high*1.001; v = niceStep(v * 1.5) {
			marked = append(marked, plot.Tick{Value: v, Label: number(v)})
		}
		p.Y.Min, p.Y.Max, p.Y.Tick.Marker = low, high, marked
	default:
		var even plot.ConstantTicks
		step := niceStep(max(most, 1e-9) / 4)
		top := math.Ceil(most/step) * step
		for v := 0.0; v <= max(top, step)*1.001; v += step {
			even = append(even, plot.Tick{Value: v, Label: number(v)})
		}
		p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, max(top, step), even
	}
}

// plain is an empty plot in our words and colours.
func plain() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Width = faint, 0.7
		axis.Tick.Color, axis.Tick.Width, axis.Tick.Length = faint, 0.7, 3
		words := style(smallSize, ink)
		words.XAlign, words.YAlign = axis.Tick.Label.XAlign, axis.Tick.Label.YAlign
		axis.Tick.Label = words
		words = style(wordSize, ink)
		words.XAlign, words.YAlign, words.Rotation = axis.Label.TextStyle.XAlign, axis.Label.TextStyle.YAlign, axis.Label.TextStyle.Rotation
		axis.Label.TextStyle = words
		axis.Padding = 0
	}
	return p
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical = draw.LineStyle{Color: mesh, Width: 0.5}
	g.Horizontal = g.Vertical
	return g
}

func background(c draw.Canvas) {
	c.FillPolygon(paper, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
}

// legend writes the names of lines above the plot, where it covers none of them, and
// returns the height that it took.
func legend(c draw.Canvas, all []series) vg.Length {
	const line, margin, sample = vg.Length(13), vg.Length(6), vg.Length(18)
	words := style(smallSize, ink)
	x, y := c.Min.X+margin, c.Max.Y-line
	drawn := false
	for _, s := range all {
		if s.name == "" {
			continue
		}
		drawn = true
		width := sample + 4 + words.Width(s.name) + 12
		if x+width > c.Max.X && x > c.Min.X+margin {
			x, y = c.Min.X+margin, y-line
		}
		c.StrokeLine2(s.style(), x, y+3, x+sample, y+3)
		c.FillText(words, vg.Point{X: x + sample + 4, Y: y}, s.name)
		x += width
	}
	if !drawn {
		return margin + aboveHeight
	}
	return c.Max.Y - y + 5 + aboveHeight
}

// aboveHeight is left above a plot for the names of what is shaded.
const aboveHeight = vg.Length(10)

// shading is what lies behind the lines: the spans in which the gateway misbehaves.
type shading struct{ report *Report }

// Plot implements [plot.Plotter].
func (s shading) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	words := style(smallSize, faint)
	for _, part := range s.report.Parts {
		if part.From < s.report.Outage || part.Name == recoveredPart {
			continue
		}
		from, to := x(part.From.Seconds()), x(part.To.Seconds())
		c.FillPolygon(shade, []vg.Point{{X: from, Y: c.Min.Y}, {X: to, Y: c.Min.Y}, {X: to, Y: c.Max.Y}, {X: from, Y: c.Max.Y}})
		if words.Width(part.Name) <= to-from {
			c.FillText(words, vg.Point{X: from, Y: c.Max.Y + 3}, part.Name)
		}
	}
}

// recoveredPart is the part after an outage: it is not shaded.
const recoveredPart = "recovered"

// marks are vertical lines, each with its words in a row of its own, low where the
// lines that matter are high.
type marks []mark

// Plot implements [plot.Plotter].
func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for i, mark := range m {
		at := x(mark.at.Seconds())
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.9, Dashes: []vg.Length{3, 2}}, at, c.Min.Y, at, c.Max.Y)
		beside(c, at, c.Min.Y+10+vg.Length(len(m)-1-i)*12, mark.text)
	}
}

// beside writes words right of x, or left of it where they would not fit.
func beside(c draw.Canvas, x, y vg.Length, words string) {
	sty := style(smallSize, ink)
	if x+3+sty.Width(words) > c.Max.X {
		sty.XAlign = text.XRight
		x -= 6
	}
	c.FillText(sty, vg.Point{X: x + 3, Y: y}, words)
}

// finish gives the picture its title and its description, and words a font that a
// reader has.
func finish(canvas *vgsvg.Canvas, title, alt string) ([]byte, error) {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("write svg: %w", err)
	}
	_, drawing, ok := strings.Cut(b.String(), "<svg")
	attributes, body, found := strings.Cut(drawing, ">")
	if !ok || !found {
		return nil, fmt.Errorf("write svg: no svg element in %d bytes", b.Len())
	}
	body = strings.NewReplacer(
		"font-variant:normal;font-weight:normal;font-style:normal;", "",
		"font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;",
	).Replace(body)
	return fmt.Appendf(nil, "<svg %s role=\"img\">\n<title>%s</title>\n<desc>%s</desc>%s", strings.Join(strings.Fields(attributes), " "),
		html.EscapeString(title), html.EscapeString(alt), body), nil
}
