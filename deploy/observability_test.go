package deploy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"redrive/internal/config"
)

// inside returns where a service finds a file of the repository; "" if nowhere.
func (s service) inside(file string) string {
	for _, v := range s.Volumes {
		source, target, _ := strings.Cut(v, ":")
		target, _, _ = strings.Cut(target, ":")
		if rest, ok := strings.CutPrefix(file, strings.TrimPrefix(source, "./")); ok && (rest == "" || rest[0] == '/') {
			return target + rest
		}
	}
	return ""
}

func TestWhoWantsToWatchAsksForIt(t *testing.T) {
	t.Parallel()
	for name, s := range readCompose(t).Services {
		if watches := name == "prometheus" || name == "grafana"; watches != slices.Contains(s.Profiles, "observability") {
			t.Errorf("%s: profiles %v", name, s.Profiles)
		}
	}
}

func TestPrometheusScrapesTheWorkersOfTheComposeFile(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	conf, err := config.Load(filepath.Join("..", "examples", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for name := range c.Services {
		if strings.HasPrefix(name, "worker-") {
			want = append(want, name+":"+portOf(t, conf.Listen))
		}
	}
	slices.Sort(want)
	var f struct {
		ScrapeConfigs []struct {
			JobName string `yaml:"job_name"`
			Static  []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, filepath.Join("prometheus", "prometheus.yml"), &f)
	if len(f.ScrapeConfigs) != 1 || f.ScrapeConfigs[0].JobName != "redrive" || !slices.Equal(f.ScrapeConfigs[0].Static[0].Targets, want) {
		t.Errorf("scraped is %+v, want %v as job redrive", f.ScrapeConfigs, want)
	}
	p := c.Services["prometheus"]
	if at := p.inside("deploy/prometheus/prometheus.yml"); !slices.Contains(p.Command, "--config.file="+at) {
		t.Errorf("prometheus is started with %v, its configuration is at %q", p.Command, at)
	}
	if p.inside("deploy/prometheus/rules/alerts.yml") == "" {
		t.Error("prometheus does not see its rules")
	}
}

func TestGrafanaFindsPrometheusAndTheDashboard(t *testing.T) {
	t.Parallel()
	g := readCompose(t).Services["grafana"]
	var sources struct {
		Datasources []struct{ Type, URL string } `yaml:"datasources"`
	}
	readYAML(t, filepath.Join("grafana", "provisioning", "datasources", "prometheus.yml"), &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("data sources %+v", sources.Datasources)
	}
	var providers struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		} `yaml:"providers"`
	}
	readYAML(t, filepath.Join("grafana", "provisioning", "dashboards", "redrive.yml"), &providers)
	at := g.inside("deploy/grafana/redrive.json")
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" || providers.Providers[0].Options.Path != path.Dir(at) {
		t.Errorf("dashboards are looked for in %+v, ours is at %q", providers.Providers, at)
	}
	if g.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] != at {
		t.Errorf("the first page is %q, the dashboard is at %q", g.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"], at)
	}
	for _, kind := range []string{"datasources/prometheus.yml", "dashboards/redrive.yml"} {
		if got := g.inside("deploy/grafana/provisioning/" + kind); got != "/etc/grafana/provisioning/"+kind {
			t.Errorf("%s is at %q, where Grafana does not look", kind, got)
		}
	}
}
