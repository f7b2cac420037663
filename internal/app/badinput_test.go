package app

import (
	"net"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2/server"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// fakeRedis answers INFO with what it is told and nothing else.
func fakeRedis(t *testing.T, info string) string {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.Register("INFO", func(c *server.Peer, _ string, _ []string) { c.WriteBulk(info) }); err != nil {
		t.Fatal(err)
	}
	return "redis://" + s.Addr().String() + "/0"
}

// words returns what is no log line.
func words(stderr string) string {
	var out []string
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "{") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// Each thing that can be wrong at the start is one clear line that says what and
// where, and nothing is left running or half written.
func TestRunSaysInOneLineWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		prep func(t *testing.T, b *testBundle) (args []string)
		want string
	}{
		{"no configuration file", func(*testing.T, *testBundle) []string { return nil },
			"worker run: no configuration file: give --config or REDRIVE_CONFIG, or write ./redrive.yaml or /etc/redrive/redrive.yaml (examples/redrive.yaml is one that works)\n"},
		{"a configuration file that is not there", func(*testing.T, *testBundle) []string { return []string{"--config", "/no/redrive.yaml"} },
			"worker run: config file of --config: stat /no/redrive.yaml: no such file or directory\n"},
		{"a typo", func(t *testing.T, _ *testBundle) []string {
			return []string{"--config", file(t, strings.Replace(working, "slots: 2", "slot: 2", 1), "redis://127.0.0.1:1/0", "http://127.0.0.1:1")}
		}, "worker run: FILE:5:58: dependencies.payrail: unknown key \"slot\"; did you mean \"slots\"?\n" +
			"    5 |   payrail: {base_url: \"http://ADDR\", timeout: 1s, slot: 2}\n" +
			"      |                                                          ^\n"},
		{"a variable that is not set", func(t *testing.T, _ *testBundle) []string {
			return []string{"--config", file(t, strings.Replace(working, "timeout: 1s", `headers: {Authorization: "Bearer ${PAYRAIL_KEY}"}, timeout: 1s`, 1), "redis://127.0.0.1:1/0", "http://127.0.0.1:1")}
		}, "worker run: FILE:5:55: dependencies.payrail.headers.Authorization: environment variable PAYRAIL_KEY is not set\n"},
		{"Redis is down", func(t *testing.T, _ *testBundle) []string {
			return []string{"--config", file(t, working, "redis://127.0.0.1:1/0", "http://127.0.0.1:1")}
		}, "worker run: redis ADDR/0: connection refused: nothing listens there (tried for SECONDS)\n"},
		{"no password", func(t *testing.T, _ *testBundle) []string {
			srv := redistest.Server(t, redistest.WithPassword("right"))
			return []string{"--config", file(t, working, "redis://"+srv.Addr()+"/0", "http://127.0.0.1:1")}
		}, "worker run: redis ADDR/0: it asks for a password: write it into redis.url (redis://:PASSWORD@HOST), or REDRIVE_REDIS_URL\n"},
		{"a wrong password", func(t *testing.T, b *testBundle) []string {
			srv := redistest.Server(t, redistest.WithPassword("right"))
			b.env["REDIS_PASSWORD"] = "wrong"
			return []string{"--config", file(t, working, "redis://:${REDIS_PASSWORD}@"+srv.Addr()+"/0", "http://127.0.0.1:1")}
		}, "worker run: redis ADDR/0: it refuses the user or password of redis.url\n"},
		{"Redis is too old", func(t *testing.T, _ *testBundle) []string {
			return []string{"--config", file(t, working, fakeRedis(t, "redis_version:6.0.16\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"), "http://127.0.0.1:1")}
		}, "worker run: redis ADDR/0: redis 6.0.16 is too old: 6.2 or later is needed\n"},
		{"Redis evicts", func(t *testing.T, _ *testBundle) []string {
			return []string{"--config", file(t, working, redistest.Server(t, redistest.WithConfig("maxmemory-policy allkeys-lru")).URL(), "http://127.0.0.1:1")}
		}, "worker run: redis ADDR/0: maxmemory-policy is allkeys-lru: redis deletes operations when memory runs short; set it to noeviction\n"},
		{"Redis keeps nothing", func(t *testing.T, _ *testBundle) []string {
			return []string{"--config", file(t, working, redistest.Server(t, redistest.WithConfig("appendonly no")).URL(), "http://127.0.0.1:1")}
		}, "worker run: redis ADDR/0: redis keeps nothing: no append-only file, no snapshots, no replica; set appendonly yes\n"},
		{"Redis is a replica", func(t *testing.T, _ *testBundle) []string {
			primary := redistest.Server(t)
			host, port, _ := strings.Cut(primary.Addr(), ":")
			return []string{"--config", file(t, working, redistest.Server(t, redistest.WithConfig("replicaof "+host+" "+port)).URL(), "http://127.0.0.1:1")}
		}, "worker run: redis ADDR/0: redis is a read-only replica of ADDR: point redis.url at the primary\n"},
		{"Redis is full", func(t *testing.T, _ *testBundle) []string {
			srv := redistest.Server(t)
			rdb := srv.Client(t)
			if err := rdb.Set(t.Context(), "fill", strings.Repeat("x", 4<<20), 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := rdb.ConfigSet(t.Context(), "maxmemory", "3mb").Err(); err != nil {
				t.Fatal(err)
			}
			return []string{"--config", file(t, working, srv.URL(), "http://127.0.0.1:1")}
		}, "worker run: redis ADDR/0: redis is full: SIZE used of maxmemory 3 MiB, writes are refused (tried for SECONDS)\n"},
		{"CONFIG is forbidden and strict is asked for", func(t *testing.T, _ *testBundle) []string {
			return []string{"--config", file(t, keyedOnly, "strict", "", redistest.Server(t, redistest.WithConfig(`rename-command CONFIG ""`)).URL())}
		}, "worker run: redis ADDR/0: could not read appendfsync: CONFIG is not allowed here; set redis.assume.persistence\n"},
		{"a kind is bound elsewhere", func(t *testing.T, _ *testBundle) []string {
			srv := redistest.Server(t)
			bindElsewhere(t, srv)
			return []string{"--config", file(t, working, srv.URL(), "http://127.0.0.1:1")}
		}, "worker run: kind charge is bound to dependency oldrail, which has 1 of its operations: it cannot be bound to payrail (use a new kind)\n"},
		{"a newer schema", func(t *testing.T, _ *testBundle) []string {
			srv := redistest.Server(t)
			if err := srv.Client(t).Set(t.Context(), "redrive:schema", ledger.Schema+1, 0).Err(); err != nil {
				t.Fatal(err)
			}
			return []string{"--config", file(t, working, srv.URL(), "http://127.0.0.1:1")}
		}, "worker run: the namespace has a newer schema than this binary knows: 2, this binary knows 1\n"},
		{"the port is in use", func(t *testing.T, _ *testBundle) []string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return []string{"--listen", l.Addr().String(), "--config", file(t, working, redistest.Server(t).URL(), "http://127.0.0.1:1")}
		}, "worker run: listen on ADDR: the port is in use: end what listens there, or choose another with listen, --listen or REDRIVE_LISTEN\n"},
		{"an address that is not ours", func(t *testing.T, _ *testBundle) []string {
			return []string{"--listen", "192.0.2.1:80", "--config", file(t, working, redistest.Server(t).URL(), "http://127.0.0.1:1")}
		}, "worker run: listen on 192.0.2.1:80: bind: cannot assign requested address\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			args := tc.prep(t, b)
			code := b.run(t, append([]string{"run"}, args...)...)
			if got := steady(words(b.stderr.String())); code != exitError || got != tc.want {
				t.Errorf("exit %d, stderr:\n%s\nwant exit 1:\n%s", code, got, tc.want)
			}
			if b.stdout.String() != "" {
				t.Errorf("standard output is for data, not for %q", b.stdout)
			}
		})
	}
}

// bindElsewhere lets dependency oldrail own kind charge, with one operation.
func bindElsewhere(t *testing.T, srv *redistest.Redis) {
	t.Helper()
	l := ledger.New(srv.Client(t), "redrive")
	spec := jobs.KindSpec{Kind: "charge", Dependency: "oldrail", Method: "POST", Path: "/v1/charges", BaseURL: "http://127.0.0.1:1",
		Idempotency: jobs.IdempotencyNone, DeadlineMS: 3_600_000, MaxAttempts: 5, TimeoutMS: 1000, MaxBacklog: 10}
	if err := l.PublishKinds(t.Context(), []jobs.KindSpec{spec}); err != nil {
		t.Fatal(err)
	}
	e, err := ledger.Prepare(&jobs.Submission{Kind: "charge", Key: "order-1", Body: []byte(`{}`)}, spec)
	if err != nil {
		t.Fatal(err)
	}
	terms := ledger.SubmitTerms{Terms: ledger.Terms{Dependency: "oldrail"}, MaxBacklog: 10}
	if r, err := l.Submit(t.Context(), terms, []ledger.Entry{e}); err != nil || r[0].Answer != jobs.Accepted {
		t.Fatalf("submit: %+v, %v", r, err)
	}
}

func TestNothingIsWrittenToARedisThatIsNotFit(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithConfig("maxmemory-policy allkeys-lru"))
	b := setup(t)
	b.run(t, "run", "--config", file(t, working, srv.URL(), "http://127.0.0.1:1"))
	if n, err := srv.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("%d keys were written (%v)", n, err)
	}
}

func TestWrongUsageIsExitTwoAndSaysWhere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"rum"}, "worker: unknown command \"rum\" for \"worker\"\nSee worker --help.\n"},
		{[]string{"run", "now"}, "worker run: unknown command \"now\" for \"worker run\"\nSee worker run --help.\n"},
		{[]string{"run", "--confg", "x"}, "worker run: unknown flag: --confg\nSee worker run --help.\n"},
		{[]string{"check", "--life"}, "worker check: unknown flag: --life\nSee worker check --help.\n"},
		{[]string{"check", "--known", "charge/x"}, "worker check: --known charge/x: only --live asks the gateway: add it\nSee worker check --help.\n"},
		{[]string{"check", "--live", "--known", "charge"}, "worker check: --known: operation \"charge\" has no slash: write KIND/KEY\nSee worker check --help.\n"},
		{[]string{"demo", "--fault", "slwo"}, "worker demo: --fault: unknown mode \"slwo\": want one of none, slow, down, refuse, lost_replies, flaky, rate_limit, decline, garbage, storm\nSee worker demo --help.\n"},
		{[]string{"demo", "--operations", "0"}, "worker demo: --operations 0: want 1 to 10000\nSee worker demo --help.\n"},
		{[]string{"demo", "--workers", "9"}, "worker demo: --workers 9: want 1 to 8\nSee worker demo --help.\n"},
		{[]string{"demo", "--store", "disk"}, "worker demo: --store \"disk\": want one of auto, redis, memory\nSee worker demo --help.\n"},
		{[]string{"demo", "-o", "yaml"}, "worker demo: --output \"yaml\": want one of text, json\nSee worker demo --help.\n"},
		{[]string{"demo", "--log-level", "loud"}, "worker demo: --log-level: unknown log level \"loud\": want one of debug, info, warn, error\nSee worker demo --help.\n"},
		{[]string{"demo", "--listen", "0.0.0.0:9100"}, "worker demo: --listen 0.0.0.0:9100: a demo is shown on this machine alone: want a loopback address such as 127.0.0.1:9100\nSee worker demo --help.\n"},
		{[]string{"demo", "--listen", ":9100"}, "worker demo: --listen :9100: a demo is shown on this machine alone: want a loopback address such as 127.0.0.1:9100\nSee worker demo --help.\n"},
		{[]string{"sandbox", "--fault", "x"}, "worker sandbox: --fault: unknown mode \"x\": want one of none, slow, down, refuse, lost_replies, flaky, rate_limit, decline, garbage, storm\nSee worker sandbox --help.\n"},
		{[]string{"sandbox", "--idempotency-window", "-1s"}, "worker sandbox: --idempotency-window -1s: want 0 or more\nSee worker sandbox --help.\n"},
		{[]string{"classify", "payrail"}, "worker classify: at least one of the flags in the group [status network] is required\nSee worker classify --help.\n"},
		{[]string{"classify", "payrail", "--network", "moon"}, "worker classify: --network: unknown network phase \"moon\": want one of " + joinWords(networkPhases()) + "\nSee worker classify --help.\n"},
		{[]string{"classify", "payrail", "--status", "500", "--idempotency", "some"}, "worker classify: --idempotency: unknown idempotency \"some\": want one of none, conditional, keyed, natural\nSee worker classify --help.\n"},
		{[]string{"classify", "payrail", "--status", "500", "--header", "Retry-After"}, "worker classify: --header \"Retry-After\": want 'Name: value'\nSee worker classify --help.\n"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			code := b.run(t, tc.args...)
			if got := b.stderr.String(); code != exitUsage || got != tc.want {
				t.Errorf("exit %d, stderr:\n%s\nwant exit 2:\n%s", code, got, tc.want)
			}
		})
	}
}

// A flag whose value can never be right is a matter of usage, whatever else is in
// the way.
func TestAFlagValueThatCannotBeRightIsUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"run", "--listen", "foo:bar:baz"}, {"run", "--redis", "ftp://x"}, {"run", "--namespace", "UPPER"}, {"run", "--log-level", "loud"}, {"run", "--log-format", "xml"},
		{"check", "--offline", "--redis", "http://x"}, {"check", "--namespace", "UPPER"}, {"sandbox", "--listen", "nonsense"},
	} {
		var out strings.Builder
		code := Run(t.Context(), args, strings.NewReader(""), &out, &out, func(string) string { return "" })
		if code != exitUsage || !strings.Contains(out.String(), args[len(args)-2]+": ") {
			t.Errorf("%v: exit %d, %s", args, code, out.String())
		}
	}
}
