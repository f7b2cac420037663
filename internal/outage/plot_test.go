package outage

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot/plotter"
)

func TestFiguresOfAReportAreTheSameBytesTwice(t *testing.T) {
	t.Parallel()
	first, second := figures(t, fixture(3)), figures(t, fixture(3))
	other := figures(t, fixture(4))
	for i, f := range first {
		if !bytes.Equal(f.SVG, second[i].SVG) {
			t.Errorf("two drawings of %s differ", f.Name)
		}
		if same := bytes.Equal(f.SVG, other[i].SVG); same && f.Name == "calls" {
			t.Errorf("%s of another report is the same", f.Name)
		}
		if len(f.SVG) > 40_000 {
			t.Errorf("%s has %d bytes: too large for a manual", f.Name, len(f.SVG))
		}
	}
}

func figures(t *testing.T, r *Report) []Figure {
	t.Helper()
	all, err := r.Figures()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEveryFigureIsWellFormedAndSaysWhatItIs(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range figures(t, fixture(3)) {
		names = append(names, f.Name)
		elements, words := svgParts(t, f.SVG)
		if elements["svg"] != 1 || elements["title"] != 1 || elements["desc"] != 1 || elements["path"] == 0 || elements["script"] != 0 || elements["image"] != 0 {
			t.Errorf("%s is made of %v", f.Name, elements)
		}
		if !strings.Contains(words, f.Title) || !strings.Contains(words, f.Caption) {
			t.Errorf("%s does not say what it shows: %.200q", f.Name, words)
		}
	}
	want := "calls failing alerts connections customers tokens breaker held refused backlog delays"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("figures %s, want %s", got, want)
	}
}

// svgParts counts the elements of a drawing and gathers its words.
func svgParts(t *testing.T, svg []byte) (map[string]int, string) {
	t.Helper()
	elements := map[string]int{}
	var words strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements, words.String()
		}
		if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
		case xml.CharData:
			words.Write(token)
		}
	}
}

func TestFiguresCarryTheNumbersOfTheReport(t *testing.T) {
	t.Parallel()
	r := fixture(3)
	r.Alerts[1].Name = nasty
	words := map[string]string{}
	for _, f := range figures(t, r) {
		_, words[f.Name] = svgParts(t, f.SVG)
	}
	for _, a := range r.Clients {
		if want := secondsText(a.CustomerSeconds); !strings.Contains(words["customers"], want) {
			t.Errorf("the figure of customers' seconds lacks %q of %s", want, a.Client)
		}
		if !strings.Contains(words["calls"], string(a.Client)) {
			t.Errorf("the figure of calls does not name %s", a.Client)
		}
	}
	for _, want := range []string{"RedriveRetriesRefusedForBudget 3:15", nasty + " 7:00"} {
		if !strings.Contains(words["failing"], want) || !strings.Contains(words["alerts"], want) {
			t.Errorf("no figure marks %q", want)
		}
	}
	if !strings.Contains(words["alerts"], "RedriveBreakerOpen: did not fire") || strings.Contains(words["failing"], "RedriveBreakerOpen") {
		t.Error("an alert that did not fire is named as such among alerts, and marked nowhere")
	}
	for _, b := range r.Bands {
		if !strings.Contains(words["delays"], b.verdict()) {
			t.Errorf("the histograms lack %q", b.verdict())
		}
	}
}

// Against a gateway of one's own there may be one client only, and an outage can be so
// short that nothing was held.
func TestWhatHasNoDataHasNoFigure(t *testing.T) {
	t.Parallel()
	r := fixture(3)
	r.Clients, r.Bands, r.Alerts = r.Clients[2:], nil, nil
	for i := range r.Gate {
		r.Gate[i].Held, r.Gate[i].Refused = nil, map[string]int64{"budget": 0}
	}
	var names []string
	for _, f := range figures(t, r) {
		names = append(names, f.Name)
	}
	if got, want := strings.Join(names, " "), "calls failing connections customers tokens breaker backlog"; got != want {
		t.Errorf("figures %s, want %s", got, want)
	}
	if all := figures(t, &Report{Took: time.Second}); len(all) != 0 {
		t.Errorf("an empty report has %d figures", len(all))
	}
	var page bytes.Buffer
	if err := (&Report{Took: time.Second}).WriteHTML(&page); err != nil {
		t.Errorf("an empty report has no page: %v", err)
	}
}

func TestABreakerThatNobodyKnowsIsNoFigure(t *testing.T) {
	t.Parallel()
	r := fixture(3)
	r.Gate[7].Breaker = "ajar"
	if _, err := r.Figures(); err == nil || !strings.Contains(err.Error(), `breaker at 0:08 is "ajar"`) {
		t.Errorf("error %v, want one that says what and where", err)
	}
}

func TestABreakerThatFlickersIsShownAtEachChange(t *testing.T) {
	t.Parallel()
	r := &Report{Took: 1000 * time.Second, Every: time.Second}
	for s := 1; s <= 1000; s++ {
		g := GateSample{At: time.Duration(s) * time.Second, Breaker: "closed"}
		if s == 501 {
			g.Breaker = "open"
		}
		r.Gate = append(r.Gate, g)
	}
	steady := *r
	steady.Gate = append([]GateSample{}, r.Gate...)
	steady.Gate[500].Breaker = "closed"
	with, err := r.drawBreaker("t", "a")
	if err != nil {
		t.Fatal(err)
	}
	without, err := steady.drawBreaker("t", "a")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(with, without) {
		t.Error("a breaker that opened for one sample of a thousand is not to be seen")
	}
}

func TestStepsOfAxesAreRoundNumbers(t *testing.T) {
	t.Parallel()
	for about, want := range map[float64]float64{0.9: 1, 1: 1, 1.01: 2, 3: 5, 6: 10, 45: 50, 0.012: 0.02} {
		if got := niceStep(about); got < want*0.999 || got > want*1.001 {
			t.Errorf("a step of about %v is %v, want %v", about, got, want)
		}
	}
	for v, want := range map[float64]float64{17: 10, 10: 5, 5: 2, 1: 0.5, 2: 1, 300: 200} {
		if got := niceBelow(v); got < want*0.999 || got > want*1.001 {
			t.Errorf("a foot below %v is %v, want %v", v, got, want)
		}
	}
}

func TestALineIsInterruptedWhereThereIsNothing(t *testing.T) {
	t.Parallel()
	s := newSeries("s", 1, []point{{none: true}, {x: 1, y: 5}, {x: 2, none: true}, {x: 3, y: 6}, {x: 4, y: 7}}, 0.5)
	want := []plotter.XYs{{{X: 1, Y: 5}, {X: 1.5, Y: 5}}, {{X: 3, Y: 6}, {X: 4, Y: 7}}}
	if !reflect.DeepEqual(s.pieces, want) {
		t.Errorf("pieces %v, want %v", s.pieces, want)
	}
	if s := newSeries("s", 1, []point{{none: true}}, 1); s.pieces != nil {
		t.Errorf("a line of nothing has pieces %v", s.pieces)
	}
}

func TestAClientThatDwarfsTheOthersHidesThemNot(t *testing.T) {
	t.Parallel()
	axis := func(clients []Account) string {
		r := fixture(3)
		r.Clients = clients
		svg, err := r.drawCalls("t", "a")
		if err != nil {
			t.Fatal(err)
		}
		_, words := svgParts(t, svg)
		return words
	}
	all := fixture(3).Clients
	if words := axis(all); !strings.Contains(words, "\n10\n") || !strings.Contains(words, "\n500\n") {
		t.Errorf("with 27 times the calls of ours the axis is logarithmic, from 10 to 500: %q", words)
	}
	if words := axis(all[2:]); !strings.Contains(words, "\n0\n5\n10\n15\n20\n") {
		t.Errorf("ours alone has an even axis from 0 to 20: %q", words)
	}
}
