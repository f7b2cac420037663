package outage

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser starts a headless Chromium with a profile of its own, and ends it with the
// test.
func browser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no chromium on PATH: apt-get install chromium (make test-tools does it)")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(60*time.Second))
	ctx, stopAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stopTab := chromedp.NewContext(ctx)
	ctx, stopTime := context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil { // waits for the process, so that its folder can be removed
			t.Errorf("end chromium: %v", err)
		}
		stopTime()
		stopTab()
		stopAll()
	})
	return ctx
}

// seen is what the page's own elements say of themselves.
type seen struct {
	Cells   []seenCell
	Figures []struct {
		ID, Name, Title, Caption string
		Width, Height            float64
		Words                    float64 // height of its smallest text on the screen
		Spill                    int     // texts that reach out of the picture
	}
	Targets []struct{ Name, Verdict string }
	Alerts  []string
	Scripts int
	Text    string
}

type seenCell struct {
	Client, Figure, Value, Text string
	Header                      string // of its column
}

const onPage = `(() => {
  const all = s => [...document.querySelectorAll(s)];
  return {
    Cells: all("td[data-figure]").map(e => ({Client: e.dataset.client, Figure: e.dataset.figure, Value: e.dataset.value, Text: e.innerText,
      Header: e.closest("table").querySelectorAll("thead th")[e.cellIndex].innerText})),
    Figures: all("figure").map(e => { const s = e.querySelector("svg"), b = s.getBoundingClientRect(), words = [...s.querySelectorAll("text")].map(w => w.getBoundingClientRect());
      return {ID: e.id, Title: e.querySelector("h3").innerText, Caption: e.querySelector("figcaption").innerText, Name: s.querySelector("title").textContent, Width: b.width, Height: b.height,
        Words: Math.min(...words.map(w => Math.min(w.height, w.width + 99))),
        Spill: words.filter(w => w.left < b.left - 1 || w.right > b.right + 1 || w.top < b.top - 1 || w.bottom > b.bottom + 1).length}; }),
    Targets: all("tr[data-target]").map(e => ({Name: e.dataset.target, Verdict: e.cells[3].innerText})),
    Alerts: all("tr[data-alert]").map(e => e.dataset.alert),
    Scripts: document.scripts.length, Text: document.body.innerText,
  };
})()`

func TestTheReportInABrowser(t *testing.T) {
	t.Parallel()
	r := fixture(3)
	path := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(path)
	must(t, err)
	must(t, r.WriteHTML(f))
	must(t, f.Close())
	ctx := browser(t)
	var mu sync.Mutex // guards said and asked
	var said, asked []string
	must(t, chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			said = append(said, fmt.Sprintf("console %s", e.Type))
		case *runtime.EventExceptionThrown:
			said = append(said, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			said = append(said, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			asked = append(asked, e.Request.URL)
		}
	}))
	address := (&url.URL{Scheme: "file", Path: path}).String()
	devtools(ctx, t, network.Enable, network.EnableParams{})
	devtools(ctx, t, log.Enable, cdp.Empty{})
	must(t, chromedp.Do(ctx, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(address)))
	for _, width := range []int64{1200, 400} {
		must(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 900)))
		shown := inPage[seen](ctx, t, onPage)
		t.Logf("%d px: %d numbers, %d figures", width, len(shown.Cells), len(shown.Figures))
		if over := inPage[[]string](ctx, t, overflowing); len(over) > 0 {
			t.Errorf("%d px: wider than the window: %s", width, strings.Join(over, ", "))
		}
		shown.check(t, r, width)
		screenshot(ctx, t, fmt.Sprintf("light-%d", width))
	}
	must(t, chromedp.Do(ctx, chromedp.EmulateViewport(1200, 900)))
	for _, scheme := range []string{"light", "dark"} {
		devtools(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		screenshot(ctx, t, scheme+"-1200")
		if pale := inPage[[]string](ctx, t, unreadable); len(pale) > 0 {
			t.Errorf("%s: these words cannot be told from their ground: %s", scheme, strings.Join(pale, ", "))
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(said) > 0 {
		t.Errorf("the browser complains: %s", strings.Join(said, "; "))
	}
	if !slices.Contains(asked, address) {
		t.Errorf("the page itself was not seen to be asked for: %q", asked)
	}
	for _, u := range asked {
		if u != address && !strings.HasPrefix(u, "data:") {
			t.Errorf("the page asks for %s", u)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func devtools[P, R any](ctx context.Context, t *testing.T, command cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.Call(ctx, command, params)
	must(t, err)
}

func inPage[T any](ctx context.Context, t *testing.T, script string) T {
	t.Helper()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	must(t, err)
	return found
}

// overflowing names what reaches beyond the window, unless it stands in something
// that can be scrolled by itself.
const overflowing = `(() => { const wide = document.documentElement.clientWidth; const found = [];
  if (document.documentElement.scrollWidth > wide) found.push("the page: " + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll("body *")) { if (e.closest("svg") && e.tagName !== "svg") continue;
    if (e.getBoundingClientRect().right > wide + 1) found.push(e.tagName + " " + (e.innerText || "").slice(0, 30)); }
  return found; })()`

// unreadable names words of figures whose contrast to the figure's ground is below
// 4.5, the least that the accessibility guidelines (WCAG 2, AA) allow for small text.
const unreadable = `(() => { const light = c => { const [r, g, b] = c.match(/\d+/g).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const found = [];
  for (const s of document.querySelectorAll("figure svg")) { const ground = light(getComputedStyle(s.querySelector("path")).fill);
    for (const w of s.querySelectorAll("text")) { const l = light(getComputedStyle(w).fill);
      if ((Math.max(l, ground) + 0.05) / (Math.min(l, ground) + 0.05) < 4.5) found.push(w.textContent); } }
  return found; })()`

// check compares what the page shows with the report.
func (p seen) check(t *testing.T, r *Report, width int64) {
	t.Helper()
	if p.Scripts != 0 || !strings.Contains(p.Text, nasty) {
		t.Errorf("%d px: %d scripts; the words of the report must stand there as they are", width, p.Scripts)
	}
	cells := map[[2]string]seenCell{}
	for _, c := range p.Cells {
		cells[[2]string{c.Client, c.Figure}] = c
	}
	for _, a := range r.Clients {
		for key, want := range numbers(t, a) {
			c, ok := cells[[2]string{string(a.Client), key}]
			got, err := strconv.ParseFloat(c.Value, 64)
			if !ok || err != nil || got != want || c.Header != string(a.Client) {
				t.Errorf("%d px: %s of %s is %q in the column %q, in the report %v", width, key, a.Client, c.Value, c.Header, want)
			}
			if shown := parse(t, key, c.Text); math.Abs(shown-want) > 0.006*math.Max(1, want) {
				t.Errorf("%d px: %s of %s reads %q, in the report it is %v", width, key, a.Client, c.Text, want)
			}
		}
	}
	if want := len(r.Clients) * len(measures); len(p.Cells) != want {
		t.Errorf("%d px: %d numbers, want %d", width, len(p.Cells), want)
	}
	// The terminal's table reads the same.
	var text strings.Builder
	must(t, r.WriteText(&text, false))
	for _, m := range measures {
		words := strings.Fields(m.name)
		for _, a := range r.Clients {
			words = append(words, strings.Fields(cells[[2]string{string(a.Client), m.key}].Text)...)
		}
		if want := strings.Join(words, " ") + "\n"; !strings.Contains(strings.Join(lines(text.String()), ""), "\n"+want) {
			t.Errorf("%d px: the terminal's table has no row %q:\n%s", width, want, text.String())
		}
	}
	figures, err := r.Figures()
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Figures) != len(figures) {
		t.Fatalf("%d px: %d figures, want %d", width, len(p.Figures), len(figures))
	}
	for i, f := range p.Figures {
		if f.Width < 300 || f.Height < 60 || f.Title != figures[i].Title || f.Name != figures[i].Title || f.Caption != figures[i].Caption || f.ID != "figure-"+figures[i].Name {
			t.Errorf("%d px: figure %+v, want %s: %s", width, f, figures[i].Name, figures[i].Title)
		}
		if f.Words < 7 || f.Spill > 0 {
			t.Errorf("%d px: figure %s has words of %.1f px, %d reach out of it", width, f.ID, f.Words, f.Spill)
		}
	}
	for i, want := range r.Targets {
		if got := p.Targets[i]; got.Name != want.Name || (got.Verdict == "reached") != want.Reached {
			t.Errorf("%d px: target %+v, want %+v", width, got, want)
		}
	}
	if len(p.Alerts) != len(r.Alerts) {
		t.Errorf("%d px: alerts %q, want %d", width, p.Alerts, len(r.Alerts))
	}
}

// lines are those of a text with single spaces between their words.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, strings.Join(strings.Fields(line), " ")+"\n")
	}
	return all
}

// numbers are those of an account by their names in JSON: what is added to it has to
// stand on the page too.
func numbers(t *testing.T, a Account) map[string]float64 {
	t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for key, v := range all {
		if n, ok := v.(float64); ok {
			found[key] = n
		}
	}
	return found
}

// parse reads a number of the page back, in the unit that its key names.
func parse(t *testing.T, key, shown string) float64 {
	t.Helper()
	fields := strings.Fields(strings.ReplaceAll(shown, ",", ""))
	sum, unit := 0.0, map[string]float64{"ms": 1e-3, "s": 1, "min": 60}
	if strings.HasSuffix(key, "_ns") {
		unit = map[string]float64{"ms": 1e6, "s": 1e9, "min": 60e9}
	}
	for i := 0; i < len(fields); i += 2 {
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			t.Errorf("%q is no number", shown)
			return math.NaN()
		}
		if i+1 == len(fields) {
			return sum + n
		}
		sum += n * unit[fields[i+1]]
	}
	return sum
}

// screenshot keeps a picture for a person, in the folder that REDRIVE_SCREENSHOTS
// names.
func screenshot(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("REDRIVE_SCREENSHOTS")
	if folder == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600))
}
