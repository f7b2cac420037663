package dashboard

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the dashboard's file anew")

var file = filepath.Join("..", "..", "deploy", "grafana", "redrive.json")

func TestTheFileIsWhatBuildMakes(t *testing.T) {
	t.Parallel()
	want, err := JSON()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what Build makes: change the dashboard in this package and run make dashboard", file)
	}
}

func TestPanelsHaveAllThatAReaderNeeds(t *testing.T) {
	t.Parallel()
	ids, titles, heading := map[int]bool{}, map[string]bool{}, ""
	for _, p := range Build().Panels {
		if ids[p.ID] {
			t.Errorf("%s: the id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			heading = p.Title
			continue
		}
		if name := heading + "/" + p.Title; p.Title == "" || titles[name] {
			t.Errorf("two panels are called %q", name)
		} else {
			titles[name] = true
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%s has no description, unit or query", p.Title)
		}
		for _, target := range p.Targets {
			if target.LegendFormat == "" && p.Type != "stat" {
				t.Errorf("%s: %s has no legend", p.Title, target.Expr)
			}
			if strings.Contains(target.Expr, "{J") || strings.Contains(target.Expr, "{D") {
				t.Errorf("%s: a filter was not filled in: %s", p.Title, target.Expr)
			}
			if !strings.Contains(target.Expr, `job=~"$job"`) && !strings.Contains(target.Expr, "ALERTS") {
				t.Errorf("%s looks at every job: %s", p.Title, target.Expr)
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	taken := map[[2]int]string{}
	for _, p := range Build().Panels {
		g := p.GridPos
		if g.X+g.W > gridColumns {
			t.Errorf("%s reaches beyond the grid: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
