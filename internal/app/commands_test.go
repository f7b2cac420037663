package app

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/redistest"
)

// noInquiry is what check says of the unsafe kind of working.
const noInquiry = "warning  operations.payout: it is of class none and has no inquiry: unknown outcomes end as dead(unsafe) and need a person\n" +
	"         right: an inquiry, or a class that the gateway keeps (no-inquiry)\n"

func TestCheckListsEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithConfig("maxmemory-policy allkeys-lru"))
	path := rewrite(t, file(t, working, srv.URL(), "http://127.0.0.1:1"), "timeout: 1s", `headers: {Authorization: "Bearer ${PAYRAIL_KEY}"}, timeout: 1s`)
	b := setup(t)
	code := b.run(t, "check", "--config", path)
	want := "ok       configuration FILE: 1 dependency, 2 kinds\n" +
		"error    FILE:5:55: dependencies.payrail.headers.Authorization: environment variable PAYRAIL_KEY is not set\n" +
		noInquiry +
		"ok       redis ADDR/0: version 7.0.15, role primary, maxmemory 0 (no limit), maxmemory-policy allkeys-lru, replicas 0, persistence aof, appendfsync everysec\n" +
		"error    redis ADDR/0: maxmemory-policy is allkeys-lru: redis deletes operations when memory runs short; set it to noeviction\n" +
		"warning  redis ADDR/0: appendfsync is everysec: a machine that crashes loses up to a second of acknowledged operations\n" +
		"2 errors, 2 warnings\n"
	if got := steadyVersion(steady(b.stdout.String())); code != exitError || got != want {
		t.Errorf("exit %d\n%s\nwant exit 1\n%s", code, got, want)
	}
	if b.stderr.String() != "" {
		t.Errorf("standard error: %s", b.stderr)
	}
}

// steadyVersion lets the tests run on any Redis.
func steadyVersion(text string) string {
	before, rest, ok := strings.Cut(text, "version ")
	if !ok {
		return text
	}
	_, after, _ := strings.Cut(rest, ",")
	return before + "version 7.0.15," + after
}

func TestCheckOfflineNeedsNeitherRedisNorSecrets(t *testing.T) {
	t.Parallel()
	path := rewrite(t, file(t, working, "redis://127.0.0.1:1/0", "http://127.0.0.1:1"), "timeout: 1s", `headers: {Authorization: "Bearer ${PAYRAIL_KEY}"}, timeout: 1s`)
	b := setup(t)
	if code := b.run(t, "check", "--offline", "--config", path); code != exitDone {
		t.Errorf("exit %d\n%s", code, b.stdout)
	}
	if want := "ok       configuration FILE: 1 dependency, 2 kinds\n" + noInquiry + "0 errors, 1 warning\n"; steady(b.stdout.String()) != want {
		t.Errorf("%s\nwant\n%s", b.stdout, want)
	}
}

func TestCheckShowsWarningsAndPasses(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithConfig("appendfsync always"))
	path := rewrite(t, file(t, working, srv.URL(), "http://127.0.0.1:1"), "shutdown_grace: 2s", "shutdown_grace: 100ms")
	b := setup(t)
	code := b.run(t, "check", "--config", path)
	for _, want := range []string{"ok       secrets: all there\n", "warning  shutdown_grace: 100ms is less than the timeout of payrail (1s)",
		"ok       namespace redrive: every open operation has a configuration\n", noInquiry, "0 errors, 2 warnings\n"} {
		if code != exitDone || !strings.Contains(b.stdout.String(), want) {
			t.Errorf("exit %d, and not %q in\n%s", code, want, b.stdout)
		}
	}
	if n, err := srv.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("check wrote %d keys (%v): it must change nothing", n, err)
	}
}

func TestCheckFindsWhatNobodyWouldSend(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	bindElsewhere(t, srv)
	path := file(t, working, srv.URL(), "http://127.0.0.1:1")
	b := setup(t)
	code := b.run(t, "check", "--config", path)
	if want := "error    operations.charge: kind charge is bound to dependency oldrail, which has 1 of its operations: it cannot be bound to payrail (use a new kind)\n"; code != exitError || !strings.Contains(b.stdout.String(), want) {
		t.Errorf("exit %d, and not %q in\n%s", code, want, b.stdout)
	}
	other := rewrite(t, path, "  charge: {", "  refund: {")
	b = setup(t)
	code = b.run(t, "check", "--config", other)
	if want := "error    namespace redrive: kind charge of dependency oldrail has 1 open operation, and stands neither in this configuration nor in that of a live worker\n"; code != exitError || !strings.Contains(b.stdout.String(), want) {
		t.Errorf("exit %d, and not %q in\n%s", code, want, b.stdout)
	}
	l := ledger.New(srv.Client(t), "redrive")
	if err := l.Beat(t.Context(), ledger.Worker{ID: "other", Kinds: []jobs.Kind{"charge"}}); err != nil {
		t.Fatal(err)
	}
	b = setup(t)
	if code := b.run(t, "check", "--config", other); code != exitDone {
		t.Errorf("exit %d although a live worker knows the kind:\n%s", code, b.stdout)
	}
}

func TestSandboxServesUntilItIsAskedToStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.start(t, "sandbox", "--listen", "127.0.0.1:0", "--fault", "lost-replies", "--seed", "4", "--honour-keys=false")
	await(t, b.stdout, "sandbox gateway on http://127.0.0.1:")
	url := strings.TrimPrefix(strings.SplitN(b.stdout.String(), ",", 2)[0], "sandbox gateway on ")
	if status, body := get(t, url+"/_sandbox/fault"); status != 200 || !strings.Contains(body, `"mode":"lost_replies"`) {
		t.Errorf("fault: %d %s", status, body)
	}
	if code := r.stop(t); code != exitDone || !strings.Contains(b.stdout.String(), "0 requests, 0 side effects") {
		t.Errorf("exit %d: %s", code, b.stdout)
	}
}

func TestSandboxOnAPortInUseIsOneClearLine(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := setup(t)
	code := b.run(t, "sandbox", "--listen", l.Addr().String())
	want := "worker sandbox: listen on ADDR: the port is in use: end what listens there, or choose another with --listen\n"
	if got := steady(b.stderr.String()); code != exitError || got != want {
		t.Errorf("exit %d: %s\nwant %s", code, got, want)
	}
}

func TestDemoReportsAsJSONAndKeepsItsPromises(t *testing.T) {
	t.Parallel()
	b := setup(t)
	code := b.run(t, "demo", "--operations", "20", "--fault", "none", "--seed", "3", "--store", "memory", "-o", "json")
	var report map[string]any
	if err := json.Unmarshal([]byte(b.stdout.String()), &report); err != nil {
		t.Fatalf("%v:\n%s", err, b.stdout)
	}
	want := []string{"charged_once", "charged_twice", "dead", "first_attempts", "inquiries", "late", "lost", "operations", "promises", "retries", "seconds", "succeeded"}
	if got := slices.Sorted(maps.Keys(report)); code != exitDone || !slices.Equal(got, want) || report["operations"] != 20.0 || report["charged_twice"] != 0.0 {
		t.Errorf("exit %d: %s", code, b.stdout)
	}
	if !strings.HasPrefix(b.stderr.String(), "store: miniredis, in memory") || !strings.Contains(b.stderr.String(), "gateway healthy") {
		t.Errorf("nobody could see it move:\n%s", b.stderr)
	}
}

func TestDemoShowsItsMetricsWhileItRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.start(t, "demo", "--operations", "40", "--fault", "down", "--store", "memory", "--workers", "2", "--listen", "127.0.0.1:0")
	await(t, b.stderr, "metrics on http://127.0.0.1:")
	await(t, b.stderr, "requests") // it moves
	url, _, _ := strings.Cut(strings.TrimPrefix(b.stderr.String(), "metrics on "), "\n")
	status, body := get(t, url)
	for _, want := range []string{
		`redrive_slots{dependency="payrail"} 32`, // those of both workers
		`redrive_operations{dependency="payrail",state="waiting"} `,
		`redrive_redis_durable 1`,
	} {
		if status != 200 || !strings.Contains(body, "\n"+want) {
			t.Errorf("status %d, and not %s in\n%s", status, want, body)
		}
	}
	if status, body := get(t, strings.TrimSuffix(url, "metrics")+"readyz"); status != 200 {
		t.Errorf("not ready although it runs: %d %s", status, body)
	}
	r.stop(t)
	if _, err := http.Get(url); err == nil {
		t.Error("metrics are still served when the demo is over")
	}
}

func TestDemoCanBeInterrupted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.start(t, "demo", "--operations", "100", "--fault", "down")
	await(t, b.stderr, "requests")
	if code := r.stop(t); code != exitError || !strings.Contains(b.stderr.String(), "worker demo: interrupted: everything was stopped in order") {
		t.Errorf("exit %d:\n%s", code, b.stderr)
	}
}

func TestClassifySaysWhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--status", "503", "--header", "Retry-After: 7", "--idempotency", "keyed"},
			`{"row":"H503","class":"503","processed":"maybe","verdict":"retry_after","delay":"7s","resolves_prior_unknown":false,`},
		{[]string{"--status", "402", "--body", `{"error":{"code":"card_declined"}}`},
			`{"row":"H402","class":"4xx","processed":"yes","verdict":"permanent_failure","delay":null,"resolves_prior_unknown":true,`},
		{[]string{"--network", "connect"}, `{"row":"N05","class":"connect","processed":"no","verdict":"retry_safe","delay":null,"resolves_prior_unknown":false,`},
		{[]string{"--network", "no_answer"}, `{"row":"N11","class":"reset","processed":"maybe","verdict":"unknown_inquire","delay":null,"resolves_prior_unknown":false,`},
	} {
		b := setup(t)
		code := b.run(t, append([]string{"classify", "payrail", "-o", "json"}, tc.args...)...)
		if code != exitDone || !strings.HasPrefix(b.stdout.String(), tc.want) {
			t.Errorf("%v: exit %d: %s%s\nwant %s", tc.args, code, b.stdout, b.stderr, tc.want)
		}
	}
}

func TestClassifyKnowsEveryNetworkPhase(t *testing.T) {
	t.Parallel()
	for _, phase := range networkPhases() {
		b := setup(t)
		if code := b.run(t, "classify", "payrail", "--network", string(phase)); code != exitDone || strings.Contains(b.stdout.String(), policy.RowUnlisted) {
			t.Errorf("%s: exit %d\n%s%s", phase, code, b.stdout, b.stderr)
		}
	}
}

func TestClassifyRefusesADependencyThatTheFileDoesNotName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	path := file(t, working, "redis://127.0.0.1:1/0", "http://127.0.0.1:1")
	code := b.run(t, "classify", "--config", path, "payrial", "--status", "500")
	if want := "worker classify: FILE has no dependency \"payrial\"\nSee worker classify --help.\n"; code != exitUsage || steady(b.stderr.String()) != want {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
}

func TestClassifyReadsABodyFromStandardInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.program.stdin = strings.NewReader("<!doctype html><title>Please wait</title>")
	code := b.run(t, "classify", "payrail", "--status", "200", "--header", "Content-Type: text/html", "--body", "@-")
	if code != exitDone || !strings.Contains(b.stdout.String(), "row        H200G\n") {
		t.Errorf("exit %d: %s%s", code, b.stdout, b.stderr)
	}
}

func TestVersionSaysWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--version"}} {
		b := setup(t)
		if code := b.run(t, args...); code != exitDone || !strings.HasPrefix(b.stdout.String(), "worker ") || !strings.Contains(b.stdout.String(), "schema 1)") {
			t.Errorf("%v: exit %d: %s", args, code, b.stdout)
		}
	}
}
