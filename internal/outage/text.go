package outage

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Reached reports whether every target was reached.
func (r *Report) Reached() bool {
	for _, t := range r.Targets {
		if !t.Reached {
			return false
		}
	}
	return true
}

// WriteJSON writes the report as one JSON object, samples included.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// measure is one row of the table that sets the clients side by side. Terminal, page
// and manual show the same ones, each by the same text.
type measure struct {
	key   string // its name in the JSON of an [Account]
	name  string
	note  string // what it counts, for the page, which has room to say so
	value func(Account) float64
	text  func(float64) string
}

var measures = []measure{
	{"first_attempts", "first attempts", "the same orders for each", func(a Account) float64 { return float64(a.FirstAttempts) }, countText},
	{"calls", "calls at the gateway", "inquiries included", func(a Account) float64 { return float64(a.Calls) }, countText},
	{"inquiries", "of them inquiries", "reads that ask what became of an order", func(a Account) float64 { return float64(a.Inquiries) }, countText},
	{"amplification", "calls per first attempt", "over all", func(a Account) float64 { return a.Amplification }, ratioText},
	{"load_first_minute", "the same in the outage's first minute", "when the gateway needs rest most", func(a Account) float64 { return a.LoadFirstMinute }, ratioText},
	{"peak_per_second", "most calls in a second", "", func(a Account) float64 { return a.PeakPerSecond }, countText},
	{"peak_connections", "most calls under way at once", "connections held", func(a Account) float64 { return float64(a.PeakConnections) }, countText},
	{"hold_time_ns", "a customer waits, on average", "of those who came during the outage", func(a Account) float64 { return float64(a.HoldTime) }, holdText},
	{"longest_hold_ns", "a customer waits, at worst", "", func(a Account) float64 { return float64(a.LongestHold) }, holdText},
	{"customer_seconds", "all customers waited", "together", func(a Account) float64 { return a.CustomerSeconds }, secondsText},
	{"succeeded", "orders that succeeded", "applied once, and the client knows", func(a Account) float64 { return float64(a.Succeeded) }, countText},
	{"failed", "orders given up on", "", func(a Account) float64 { return float64(a.Failed) }, countText},
	{"declined", "orders declined", "the gateway said no for good", func(a Account) float64 { return float64(a.Declined) }, countText},
	{"charged_twice", "charged twice", "applied more than once", func(a Account) float64 { return float64(a.ChargedTwice) }, countText},
	{"unknowingly", "charged unknowingly", "applied, and the client does not know", func(a Account) float64 { return float64(a.Unknowingly) }, countText},
	{"retries_on_4xx", "retries on 4xx", "beside 408, 425, 429 and 409 for a call under way", func(a Account) float64 { return float64(a.RetriesOn4xx) }, countText},
}

func countText(v float64) string   { return number(math.Round(v*10) / 10) }
func ratioText(v float64) string   { return strconv.FormatFloat(v, 'f', 2, 64) }
func holdText(v float64) string    { return spanText(time.Duration(v)) }
func secondsText(v float64) string { return grouped(strconv.FormatFloat(v, 'f', 0, 64)) + " s" }

// spanText writes a span as a person says it.
func spanText(d time.Duration) string {
	if d = d.Round(time.Millisecond); d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	if d = d.Round(10 * time.Millisecond); d < time.Minute {
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 2, 64), ".00") + " s"
	}
	if d = d.Round(time.Second); d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
}

// instant writes minutes and seconds since the start.
func instant(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
}

// when says when an alert fired.
func (r *Report) when(a Alert) string {
	switch {
	case !a.Fired:
		return "did not fire"
	case a.At < r.Outage:
		return fmt.Sprintf("fired at %s, %s before the outage", instant(a.At), spanText((r.Outage - a.At).Round(time.Second)))
	}
	return fmt.Sprintf("fired at %s, %s into the outage", instant(a.At), spanText((a.At - r.Outage).Round(time.Second)))
}

// played says how the scenario was played, in one line.
func (r *Report) played() string {
	return fmt.Sprintf("%s first attempts a minute. Played %s times as fast, %s in %s. Seed %d.", grouped(strconv.Itoa(r.PerMin)), number(r.Speed),
		spanText(r.Took.Round(time.Second)), spanText(time.Duration(float64(r.Took)/max(r.Speed, 1e-9)).Round(time.Second)), r.Seed)
}

// course says what the gateway did when.
func (r *Report) course() string {
	var parts []string
	for _, p := range r.Parts {
		parts = append(parts, fmt.Sprintf("%s %s to %s", p.Name, instant(p.From), instant(p.To)))
	}
	return strings.Join(parts, ", ")
}

// verdict of a target.
func (t Target) verdict() string {
	if t.Reached {
		return "reached"
	}
	return "MISSED"
}

// WriteText writes the report for a person at a terminal: the clients side by side,
// then the targets and the alerts. Colour: whether it may use any.
func (r *Report) WriteText(w io.Writer, colour bool) error {
	paint := func(c text.Color, s string) string {
		if !colour {
			return s
		}
		return c.EscapeSeq() + s + "\x1b[0m"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n%s\nGateway: %s. Store: %s.\nCourse: %s.\n\n", r.Scenario, r.Text, r.played(), r.Gateway, r.Store, r.course())

	clients := listing()
	head := table.Row{""}
	columns := []table.ColumnConfig{{Number: 1, Align: text.AlignLeft}}
	for i, a := range r.Clients {
		head = append(head, string(a.Client))
		columns = append(columns, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	clients.AppendHeader(head)
	clients.SetColumnConfigs(columns)
	for _, m := range measures {
		row := table.Row{m.name}
		for _, a := range r.Clients {
			cell := m.text(m.value(a))
			if a.Client == Redrive {
				cell = paint(text.Bold, cell)
			}
			row = append(row, cell)
		}
		clients.AppendRow(row)
	}
	b.WriteString(clients.Render() + "\n")

	// What a target wants and got may be long: below each other they fit a terminal.
	if len(r.Targets) > 0 {
		b.WriteString("\nTargets\n")
	}
	for _, t := range r.Targets {
		c := text.FgGreen
		if !t.Reached {
			c = text.FgRed
		}
		fmt.Fprintf(&b, " %s  %s\n          want %s\n          got  %s\n", paint(c, fmt.Sprintf("%-7s", t.verdict())), t.Name, t.Want, t.Got)
	}
	if len(r.Alerts) > 0 {
		b.WriteString("\nAlerts\n")
	}
	for _, a := range r.Alerts {
		fmt.Fprintf(&b, " %s: %s\n          %s\n", a.Name, r.when(a), a.Rule)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// listing is a table without lines.
func listing() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatDefault
	return t
}
