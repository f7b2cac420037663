package deploy

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"redrive/internal/config"
	"redrive/internal/redistest"
)

// composeFile is docker-compose.yml as far as it is checked here.
type composeFile struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type service struct {
	Image string `yaml:"image"`
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
	} `yaml:"build"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Command     []string          `yaml:"command"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	Environment map[string]string `yaml:"environment"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck *struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
	Restart         string   `yaml:"restart"`
	StopGracePeriod string   `yaml:"stop_grace_period"`
	Profiles        []string `yaml:"profiles"`
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var c composeFile
	if err := yaml.Unmarshal(content, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeHasItsServices(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for _, name := range []string{"redis", "sandbox", "worker-1", "worker-2", "enqueue"} {
		if _, ok := c.Services[name]; !ok {
			t.Errorf("service %s is missing", name)
		}
	}
	if a, b := c.Services["worker-1"], c.Services["worker-2"]; !slices.Equal(a.Command, b.Command) || !slices.Equal(a.Volumes, b.Volumes) {
		t.Error("the two workers differ")
	}
}

func TestComposeServicesAreSound(t *testing.T) {
	t.Parallel()
	tagged := regexp.MustCompile(`^[a-z0-9/-]+:[\w.-]+$`)
	c := readCompose(t)
	for name, s := range c.Services {
		if !tagged.MatchString(s.Image) || strings.HasSuffix(s.Image, ":latest") {
			t.Errorf("%s: image %q is not pinned by a tag", name, s.Image)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is published beyond loopback", name, p)
			}
		}
		tool := slices.Contains(s.Profiles, "tools") // runs once, when a person asks for it
		if s.Restart != "unless-stopped" && !tool {
			t.Errorf("%s: restart policy %q", name, s.Restart)
		}
		for dep, d := range s.DependsOn {
			other, ok := c.Services[dep]
			if !ok {
				t.Errorf("%s depends on %s, which is no service", name, dep)
			}
			if d.Condition == "service_healthy" && other.Healthcheck == nil {
				t.Errorf("%s waits until %s is healthy, which has no health check", name, dep)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, named := c.Volumes[source]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", source)); err != nil {
				t.Errorf("%s mounts %s: %v", name, source, err)
			}
		}
		if s.Build.Dockerfile != "" {
			if _, err := os.Stat(filepath.Join("..", s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s is built from %s: %v", name, s.Build.Dockerfile, err)
			}
		}
	}
	if r := c.Services["redis"]; len(r.Volumes) != 1 || !strings.HasSuffix(r.Volumes[0], ":/data") || r.Healthcheck == nil {
		t.Error("redis needs a volume for its data and a health check")
	}
}

func TestConfigurationFitsTheServices(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	conf, err := config.Load(filepath.Join("..", "examples", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	redisURL, err := conf.Redis.URL.Resolve(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	for what, address := range map[string]string{
		"redis.url":                    redisURL,
		"REDRIVE_REDIS_URL of enqueue": c.Services["enqueue"].Environment["REDRIVE_REDIS_URL"],
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if u.Hostname() != "redis" {
			t.Errorf("%s names %q, want the service redis", what, u.Hostname())
		}
	}
	if got, want := conf.Dependencies["payrail"].BaseURL, "http://sandbox:"+portOf(t, c.Services["sandbox"].Command[2]); got != want {
		t.Errorf("workers call %s, the sandbox listens on %s", got, want)
	}
	for _, name := range []string{"worker-1", "worker-2"} {
		s := c.Services[name]
		if published := s.Ports[0]; !strings.HasSuffix(published, ":"+portOf(t, conf.Listen)) {
			t.Errorf("%s publishes %s but listens on %s", name, published, conf.Listen)
		}
		grace, err := time.ParseDuration(s.StopGracePeriod)
		if err != nil || grace <= conf.ShutdownGrace {
			t.Errorf("%s is killed after %s (%v), before its shutdown_grace of %v is over", name, s.StopGracePeriod, err, conf.ShutdownGrace)
		}
	}
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// The arguments of the compose file are given to a real redis-server.
func TestRedisOfTheComposeFileIsDurable(t *testing.T) {
	t.Parallel()
	command := readCompose(t).Services["redis"].Command
	if command[0] != "redis-server" {
		t.Fatalf("redis runs %q", command[0])
	}
	// The defaults of the test server are undone, so that only the arguments count.
	client := redistest.Server(t, redistest.WithConfig("appendonly no"), redistest.WithConfig("appendfsync no"),
		redistest.WithConfig("save 1 1"), redistest.WithConfig("maxmemory-policy allkeys-lru"),
		redistest.WithArgs(command[1:]...)).Client(t)
	for name, want := range map[string]string{"appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory-policy": "noeviction"} {
		got, err := client.ConfigGet(t.Context(), name).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// Each command line is given to the program it is for, with --help behind it: the
// flags before are parsed, and nothing is run.
func TestCommandLinesAreAccepted(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "./cmd/worker", "./cmd/enqueue")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	accepts := func(program string, args ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if runtime.GOOS == "windows" {
			program += ".exe"
		}
		out, err := exec.CommandContext(ctx, filepath.Join(bin, program), append(args, "--help")...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if name := strings.TrimSuffix(program, ".exe"); !strings.Contains(string(out), "\n  "+name+" "+args[0]) {
			return fmt.Errorf("the help is not that of %s %s", name, args[0])
		}
		return nil
	}
	for name, s := range readCompose(t).Services {
		if s.Image != "redrive:local" {
			continue
		}
		program := "worker" // the image's entry point
		if len(s.Entrypoint) > 0 {
			program = filepath.Base(s.Entrypoint[0])
		}
		if err := accepts(program, s.Command...); err != nil {
			t.Errorf("%s: %s %v: %v", name, program, s.Command, err)
		}
	}
	// A command that does not exist gets the general help, and status 0: what compose
	// runs must therefore be named by the help it gets.
	for _, wrong := range [][]string{{"worker", "run", "--no-such-flag"}, {"worker", "no-such-command"}, {"enqueue", "no-such-command"}} {
		if err := accepts(wrong[0], wrong[1:]...); err == nil {
			t.Errorf("%v was accepted: this test cannot tell right from wrong", wrong)
		}
	}
}
