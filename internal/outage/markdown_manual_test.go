package outage

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"redrive/internal/rehearsal"
)

var (
	manual     = flag.String("manual", "", "play this `scenario`, or all, and write docs/rehearsals.md: a minute or two each")
	manualSeed = flag.Uint64("seed", 1, "what the rehearsals for the manual are drawn from")
)

const (
	manualPage   = "../../docs/rehearsals.md"
	manualImages = "../../docs/img"
)

// pictured are the figures that the manual shows of each scenario; the page that a
// rehearsal writes has all.
var pictured = []string{"calls", "alerts", "backlog"}

// place finds the section of a scenario between its two comments.
func place(t *testing.T, text, name string) (before, section, after string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(text, begin)
	section, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no place for %s: %q and %q", manualPage, name, begin, end)
	}
	return before + begin, section, end + after
}

// With -manual rehearsals are played and written, one after the other so that none
// disturbs another.
func TestTheManualShowsEveryRehearsal(t *testing.T) {
	if *manual != "" && *manual != "all" {
		_, err := Find(*manual)
		must(t, err)
	}
	for _, s := range Scenarios() {
		if *manual == "all" || *manual == s.Name {
			rehearseForManual(t, s)
		}
	}
	text, err := os.ReadFile(manualPage)
	must(t, err)
	var shown []string
	for _, s := range Scenarios() {
		_, section, _ := place(t, string(text), s.Name)
		asked := *manual == "" || *manual == "all" || *manual == s.Name
		if asked && !strings.HasPrefix(section, "### "+plainText(s.Name)+"\n") {
			t.Errorf("%s does not show %s (make rehearsals writes it)", manualPage, s.Name)
		}
		if asked && strings.Contains(section, "MISSED") {
			t.Errorf("%s shows a rehearsal of %s that missed a target (play it again where nothing else runs)", manualPage, s.Name)
		}
		for _, image := range regexp.MustCompile(`\]\((img/[^)]+)\)`).FindAllStringSubmatch(section, -1) {
			shown = append(shown, filepath.Base(image[1]))
			svg, err := os.ReadFile(filepath.Join("../../docs", image[1]))
			if err != nil {
				t.Errorf("%s shows what is not there: %v", manualPage, err)
				continue
			}
			svgParts(t, svg)
		}
	}
	stored, err := filepath.Glob(manualImages + "/rehearsal-*.svg")
	must(t, err)
	for _, path := range stored {
		if !slices.Contains(shown, filepath.Base(path)) {
			t.Errorf("%s is shown nowhere", path)
		}
	}
}

func rehearseForManual(t *testing.T, s Scenario) {
	t.Helper()
	r, err := Run(t.Context(), Options{Scenario: s, Seed: *manualSeed, Store: rehearsal.StoreAuto, ShowFunc: Lines(os.Stderr)})
	must(t, err)
	must(t, r.WriteText(os.Stderr, false))
	for _, f := range figures(t, r) {
		if slices.Contains(pictured, f.Name) {
			must(t, os.WriteFile(filepath.Join(manualImages, imageName(s, f.Name)), f.SVG, 0o644))
		}
	}
	var b bytes.Buffer
	must(t, r.WriteMarkdown(&b, func(name string) string {
		if !slices.Contains(pictured, name) {
			return ""
		}
		return "img/" + imageName(s, name)
	}))
	text, err := os.ReadFile(manualPage)
	must(t, err)
	before, _, after := place(t, string(text), s.Name)
	must(t, os.WriteFile(manualPage, []byte(before+b.String()+after), 0o644))
}

func imageName(s Scenario, figure string) string {
	return "rehearsal-" + strings.ReplaceAll(s.Name, "_", "-") + "-" + figure + ".svg"
}
