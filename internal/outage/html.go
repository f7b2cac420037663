package outage

import (
	_ "embed"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed html.tmpl
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// paints are the colours of figures by the names that the style of the page gives
// them, one value for a light ground and one for a dark one.
var paints = paintNames()

func paintNames() map[color.RGBA]string {
	names := map[color.RGBA]string{paper: "paper", ink: "ink", faint: "faint", mesh: "mesh", shade: "shade"}
	for i, c := range hues {
		names[c] = "hue" + strconv.Itoa(i)
	}
	return names
}

// cell is a number of the table of clients.
type cell struct {
	Client Client
	Figure string // its name in the JSON of an [Account]
	Value  string // as exact as the report has it
	Text   string // as a person reads it
	Ours   bool
}

type pageRow struct {
	Name, Note string
	Cells      []cell
}

type pageFigure struct {
	Figure
	Drawing template.HTML // the SVG, made by us with every text escaped
}

type pageAlert struct {
	Alert
	Words []string // of its name, where a line may break
	When  string
}

type pageTarget struct {
	Target
	Verdict string
}

// nameWords finds the words of a name in camel case, and whatever is none.
var nameWords = regexp.MustCompile(`[A-Z][^A-Z]*|^[^A-Z]+`)

// glance is what one reads first: ours, and beside it what the others came to.
type glance struct{ Title, Ours, Others string }

// glances are the few numbers that say whether it went well.
func (r *Report) glances() []glance {
	var all []glance
	for _, g := range []struct{ key, title string }{
		{"load_first_minute", "Calls per order, first minute"}, {"hold_time_ns", "A customer waits"}, {"failed", "Orders given up on"}, {"charged_twice", "Charged twice"},
	} {
		m := measures[slices.IndexFunc(measures, func(m measure) bool { return m.key == g.key })]
		one := glance{Title: g.title}
		var others []string
		for _, a := range r.Clients {
			if text := m.text(m.value(a)); a.Client == Redrive {
				one.Ours = text
			} else {
				others = append(others, fmt.Sprintf("%s %s", a.Client, text))
			}
		}
		one.Others = strings.Join(others, " · ")
		all = append(all, one)
	}
	return all
}

// WriteHTML writes the report as one page that needs nothing beside itself: no
// network, no script. It follows the reader's choice of light or dark, and prints in
// light.
func (r *Report) WriteHTML(w io.Writer) error {
	figures, err := r.Figures()
	if err != nil {
		return err
	}
	data := struct {
		*Report
		Played, Course, Day string
		Missed              int
		Glance              []glance
		Rows                []pageRow
		Figures             []pageFigure
		Alerts              []pageAlert
		Targets             []pageTarget
	}{Report: r, Glance: r.glances(), Played: r.played(), Course: r.course(), Day: r.Date.UTC().Format("2006-01-02 15:04 MST")}
	for _, m := range measures {
		row := pageRow{Name: m.name, Note: m.note}
		for _, a := range r.Clients {
			v := m.value(a)
			row.Cells = append(row.Cells, cell{a.Client, m.key, strconv.FormatFloat(v, 'f', -1, 64), m.text(v), a.Client == Redrive})
		}
		data.Rows = append(data.Rows, row)
	}
	for _, f := range figures {
		data.Figures = append(data.Figures, pageFigure{f, inline(f)})
	}
	for _, a := range r.Alerts {
		data.Alerts = append(data.Alerts, pageAlert{a, nameWords.FindAllString(a.Name, -1), r.when(a)})
	}
	for _, t := range r.Targets {
		if !t.Reached {
			data.Missed++
		}
		data.Targets = append(data.Targets, pageTarget{t, t.verdict()})
	}
	if err := page.Execute(w, data); err != nil {
		return fmt.Errorf("write report of %s: %w", r.Scenario, err)
	}
	return nil
}

var inkInStyle = regexp.MustCompile(`(fill|stroke):#[0-9A-F]{6}`)

// inline makes a figure part of the page: as wide as its column, in the colours that
// the page names, and known by its title and description.
func inline(f Figure) template.HTML {
	svg := string(f.SVG)
	attributes, rest, _ := strings.Cut(svg, ">")
	box := ""
	for field := range strings.SplitSeq(attributes, ` view`) {
		if b, ok := strings.CutPrefix(field, `Box="`); ok {
			box, _, _ = strings.Cut(b, `"`)
		}
	}
	rest = strings.Replace(rest, "<title>", `<title id="title-`+f.Name+`">`, 1)
	rest = strings.Replace(rest, "<desc>", `<desc id="desc-`+f.Name+`">`, 1)
	rest = inkInStyle.ReplaceAllStringFunc(rest, func(found string) string {
		what, hex, _ := strings.Cut(found, ":")
		for c, name := range paints {
			if hex == fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) {
				return what + ":var(--" + name + ")"
			}
		}
		return found
	})
	return template.HTML(fmt.Sprintf(`<svg viewBox="%s" role="img" aria-labelledby="title-%s desc-%s">%s`, box, f.Name, f.Name, rest))
}
