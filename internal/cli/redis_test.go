package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// oneLine fails unless stderr is one line that names the address and says words.
func oneLine(t *testing.T, p printed, code int, address string, words ...string) {
	t.Helper()
	if p.code != code {
		t.Errorf("exit %d, want %d: %s", p.code, code, p.stderr)
	}
	if n := strings.Count(p.stderr, "\n"); n != 1 {
		t.Errorf("%d lines on stderr, want one: %s", n, p.stderr)
	}
	says(t, p.stderr, append(words, "redis at "+address)...)
}

func TestARedisThatIsDownIsOneLineAndTryAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, srv.Client(t))
	b.env["REDRIVE_REDIS_URL"] = srv.URL()
	srv.Kill9()
	for _, args := range [][]string{line("list"), line("stats"), line("show charge/a"), {"add", "charge/a", "--body", "{}"}, line("import -"), line("cancel charge/a -y --note x"),
		line("gate payrail"), line("gate override payrail --cap 5 --for 1h --note x"), line("gate clear payrail --note x"), line("first-attempts payrail --ok 1")} {
		oneLine(t, b.run(args...), exitAgain, srv.Addr(), "connection refused")
	}
	b.env["REDRIVE_REDIS_URL"] = "unix://" + filepath.Join(t.TempDir(), "none.sock")
	got := b.run("list")
	oneLine(t, got, exitAgain, strings.TrimPrefix(b.env["REDRIVE_REDIS_URL"], "unix://"), "no such socket")
}

func TestAPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	const password = "s3cret-pass"
	srv := redistest.Server(t, redistest.WithPassword(password))
	b := setup(t, srv.Client(t))
	b.env["REDRIVE_REDIS_URL"] = srv.URL()
	b.must(exitOK, "add", "charge/a", "--body", "{}")
	b.env["REDRIVE_REDIS_URL"] = "redis://:wr0ng-" + password + "@" + srv.Addr()
	wrong := b.run("list")
	oneLine(t, wrong, exitError, srv.Addr(), "refuses the user or password")
	b.env["REDRIVE_REDIS_URL"] = "redis://" + srv.Addr()
	none := b.run("list")
	oneLine(t, none, exitError, srv.Addr(), "asks for a password")
	b.env["REDRIVE_REDIS_URL"] = "redis://:" + password + "@" + srv.Addr() + "/abc"
	invalid := b.must(exitUsage, "list")
	b.env["REDRIVE_REDIS_URL"] = "redis://:" + password + "@127.0.0.1:1"
	down := b.must(exitAgain, "list")
	for _, p := range []printed{wrong, none, invalid, down} {
		hides(t, p.stderr+p.stdout, password)
	}
}

func TestARedisThatCannotBeWrittenSaysWhy(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	client := srv.Client(t)
	b := setup(t, client)
	b.env["REDRIVE_REDIS_URL"] = srv.URL()
	b.must(exitOK, "add", "charge/a", "--body", "{}")

	ctx := t.Context()
	if err := client.ConfigSet(ctx, "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	full := b.run("add", "charge/b", "--body", "{}")
	oneLine(t, full, exitAgain, srv.Addr(), "full")
	b.must(exitOK, "list") // looking is still possible
	b.must(exitOK, "stats")
	if err := client.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	b.must(exitOK, "add", "charge/b", "--body", "{}")

	if err := client.SlaveOf(ctx, "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	b.must(exitOK, "list")
	replica := b.run("add", "charge/c", "--body", "{}")
	oneLine(t, replica, exitAgain, srv.Addr(), "replica")
	replica = b.run("cancel", "charge/a", "-y", "--note", "x")
	oneLine(t, replica, exitAgain, srv.Addr(), "read-only replica")
	if err := client.SlaveOf(ctx, "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	b.wantState("charge/a", jobs.Waiting)
}

// fakeRedis answers every command with the same error.
func fakeRedis(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{}) // closed when nobody is served any more
	go func() {                   // ends when the listener is closed; the cleanup waits
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(c)
			for {
				if _, err := r.ReadString('\n'); err != nil {
					break
				}
				for r.Buffered() > 0 {
					_, _ = r.ReadByte()
				}
				if answer == "" { // says nothing, as one that hangs
					_, _ = io.Copy(io.Discard, c)
					break
				}
				fmt.Fprintf(c, "-%s\r\n", answer)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-served })
	return l.Addr().String()
}

func TestARedisThatCannotAnswerYetSaysWhy(t *testing.T) {
	t.Parallel()
	for answer, c := range map[string]struct {
		code int
		says string
	}{
		"LOADING Redis is loading the dataset in memory":                  {exitAgain, "loading its data"},
		"MASTERDOWN Link with MASTER is down":                             {exitAgain, "lost its primary"},
		"BUSY Redis is busy running a script":                             {exitAgain, "BUSY"},
		"NOPERM this user has no permissions to run the 'get' command":    {exitError, "may not do what is needed"},
		"ERR unknown command 'GET'":                                       {exitError, "unknown command"},
		"MOVED 3999 127.0.0.1:6381":                                       {exitError, "Cluster"},
		"MISCONF Redis is configured to save RDB snapshots, but it can't": {exitAgain, "cannot save to disk"},
	} {
		address := fakeRedis(t, answer)
		env := map[string]string{"REDRIVE_REDIS_URL": "redis://" + address}
		got := runProgram(t.Context(), func(name string) string { return env[name] }, "", "list")
		oneLine(t, got, c.code, address, c.says)
	}
}

func TestACommandEndsWithItsTime(t *testing.T) {
	t.Parallel()
	address := fakeRedis(t, "")
	env := map[string]string{"REDRIVE_REDIS_URL": "redis://" + address}
	started := time.Now()
	got := runProgram(t.Context(), func(name string) string { return env[name] }, "", "list", "--command-timeout", "200ms")
	if got.code != exitAgain || time.Since(started) > 5*time.Second {
		t.Errorf("exit %d after %s", got.code, time.Since(started))
	}
	says(t, got.stderr, "not done within 200ms (--command-timeout)")
}

func TestFlagBeatsEnvironmentBeatsFile(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		url := b.env["REDRIVE_REDIS_URL"]
		file := configFile(t, url, "from-file", "payrail")
		add := func(env map[string]string, args ...string) {
			t.Helper()
			got := runProgram(t.Context(), func(name string) string { return env[name] }, "", append([]string{"add", "capture/a", "--body", "{}"}, args...)...)
			if got.code != exitOK {
				t.Fatalf("%v: %+v", args, got)
			}
		}
		there := func(namespace string) bool {
			return b.client.Exists(t.Context(), namespace+":{payrail}:op:capture/a").Val() == 1
		}
		add(map[string]string{"REDRIVE_CONFIG": file})
		add(map[string]string{"REDRIVE_CONFIG": file, "REDRIVE_NAMESPACE": "from-env"})
		add(map[string]string{"REDRIVE_NAMESPACE": "from-env"}, "--config", file, "--namespace", "from-flag")
		for _, namespace := range []string{"from-file", "from-env", "from-flag"} {
			if !there(namespace) {
				t.Errorf("nothing in namespace %s", namespace)
			}
		}
		got := runProgram(t.Context(), func(name string) string { return map[string]string{"REDRIVE_REDIS_URL": "redis://127.0.0.1:1"}[name] }, "", "list", "--redis", url, "--namespace", "rd")
		if got.code != exitOK {
			t.Errorf("--redis does not beat the environment: %+v", got)
		}
		for _, c := range []struct {
			says string
			env  map[string]string
			args []string
		}{
			{"config file of --config", nil, []string{"--config", filepath.Join(t.TempDir(), "none.yaml")}},
			{"config file of REDRIVE_CONFIG", map[string]string{"REDRIVE_CONFIG": "none.yaml"}, nil},
			{"redis.url", nil, nil},
			{"--redis: a Redis URL begins with", nil, []string{"--redis", "localhost:6379"}},
			{"belongs to demo", nil, []string{"--redis", "embedded"}},
			{"namespace", map[string]string{"REDRIVE_REDIS_URL": url, "REDRIVE_NAMESPACE": "Prod"}, nil},
		} {
			got := runProgram(t.Context(), func(name string) string { return c.env[name] }, "", append([]string{"list"}, c.args...)...)
			if got.code != exitUsage {
				t.Errorf("%q: exit %d", c.args, got.code)
			}
			says(t, got.stderr, c.says)
		}
	})
}

func TestAFileWithATypoIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "redrive.yaml")
	if err := os.WriteFile(file, []byte("redis: {url: redis://127.0.0.1:1}\ndependancies: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := runProgram(t.Context(), func(string) string { return "" }, "", "list", "--config", file)
	if got.code != exitUsage {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	says(t, got.stderr, file+":2:1", "dependancies")
}

// The file's secrets belong to the workers: without them enqueue works, but for the
// Redis URL.
func TestOnlyTheRedisURLOfAFileIsResolved(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		file := configFile(t, "${MY_REDIS}", "rd", "payrail")
		env := map[string]string{"MY_REDIS": b.env["REDRIVE_REDIS_URL"]}
		got := runProgram(t.Context(), func(name string) string { return env[name] }, "", "add", "capture/a", "--body", "{}", "--config", file)
		if got.code != exitOK {
			t.Errorf("%+v", got)
		}
		got = runProgram(t.Context(), func(string) string { return "" }, "", "list", "--config", file)
		if got.code != exitUsage {
			t.Errorf("exit %d", got.code)
		}
		says(t, got.stderr, "redis.url", "MY_REDIS")
	})
}

func TestAnUnfitRedisTakesNothingIn(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithConfig("maxmemory-policy allkeys-lru"), redistest.WithConfig("maxmemory 100mb"))
	b := setup(t, srv.Client(t))
	b.env["REDRIVE_REDIS_URL"] = srv.URL()
	path := configFile(t, srv.URL(), "rd", "payrail")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "durability: volatile", "durability: standard", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"add", "capture/a", "--body", "{}"}, {"import", "-"}} {
		got := b.run(append(args, "--config", path)...)
		oneLine(t, got, exitError, srv.Addr(), "not fit", "allkeys-lru")
	}
	b.must(exitOK, "list", "--config", path)
}

func TestANamespaceOfANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		b.client.Set(t.Context(), "rd:schema", 99, 0)
		for _, args := range [][]string{line("list"), {"add", "charge/a", "--body", "{}"}} {
			says(t, b.must(exitError, args...).stderr, "newer schema", "99")
		}
		b.client.Del(t.Context(), "rd:schema")
		b.must(exitOK, "list")
		if n := b.client.Exists(t.Context(), "rd:schema").Val(); n != 0 {
			t.Error("looking wrote the schema")
		}
	})
}
