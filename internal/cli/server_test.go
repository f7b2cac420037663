package cli

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"redrive/internal/config"
	"redrive/internal/httpapi"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/redistest"
	"redrive/internal/remote"
)

// served is a namespace behind a server that takes what the tests' token may do.
func served(t *testing.T, change func(*httpapi.API)) *testBundle {
	t.Helper()
	_, client := redistest.Mini(t)
	b := setup(t, client)
	b.serve(change)
	return b
}

func TestAServerAndARedisAtOnceAreAMistake(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	server, tokenFile := b.env["REDRIVE_SERVER"], b.env["REDRIVE_TOKEN_FILE"]
	b.must(exitOK, "stats")
	for _, other := range []string{"--redis=redis://127.0.0.1:1", "--namespace=x", "--config=x.yaml", "--by=ann"} {
		got := b.must(exitUsage, "stats", "--server", server, other)
		says(t, got.stderr, "--server", strings.SplitN(other, "=", 2)[0])
	}
	says(t, b.must(exitUsage, "stats", "--by", "ann").stderr, "REDRIVE_SERVER", "token")
	says(t, b.must(exitUsage, "stats", "--server", "").stderr, "--server is empty")
	says(t, b.must(exitUsage, "stats", "--token-file", "").stderr, "--token-file is empty")
	says(t, b.must(exitUsage, "stats", "--token-file", "-").stderr, "--token-file", "read from a file")
	says(t, b.must(exitUsage, "stats", "--token-file", filepath.Join(t.TempDir(), "none")).stderr, "--token-file", "no such file")
	says(t, b.must(exitUsage, "stats", "--server", "redrive.example").stderr, "--server", "https://")
	says(t, b.must(exitUsage, "stats", "--server", "http://redrive.example").stderr, "over https:// only")
	// What is said on the command line counts before the environment.
	says(t, b.must(exitAgain, "stats", "--redis", "redis://127.0.0.1:1").stderr, "redis at 127.0.0.1:1")
	b.env["REDRIVE_REDIS_URL"] = "redis://127.0.0.1:1"
	says(t, b.must(exitUsage, "stats").stderr, "REDRIVE_SERVER and REDRIVE_REDIS_URL are both set")
	b.must(exitOK, "stats", "--server", server)
	delete(b.env, "REDRIVE_SERVER")
	says(t, b.must(exitUsage, "stats", "--token-file", tokenFile).stderr, "--token-file goes with --server")
	says(t, b.must(exitAgain, "stats").stderr, "redis at 127.0.0.1:1")
}

func TestATokenFileThatOthersMayReadIsAWarning(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	hides(t, b.must(exitOK, "list").stderr, "warning")
	if err := os.Chmod(b.env["REDRIVE_TOKEN_FILE"], 0o644); err != nil {
		t.Fatal(err)
	}
	got := b.must(exitOK, "list")
	says(t, got.stderr, "warning", b.env["REDRIVE_TOKEN_FILE"], "chmod 600")
	hides(t, got.stderr, testToken)
}

func TestATokenIsNeverShown(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	unknown := "another-token-of-the-tests"
	b.useServer(b.env["REDRIVE_SERVER"], unknown)
	wrong := b.must(exitError, "list")
	says(t, wrong.stderr, "server "+b.env["REDRIVE_SERVER"], "the token is not known here")
	delete(b.env, "REDRIVE_TOKEN_FILE")
	none := b.must(exitError, "list")
	says(t, none.stderr, "send Authorization")
	for _, p := range []printed{wrong, none} {
		hides(t, p.stdout+p.stderr, unknown)
		if strings.Count(p.stderr, "\n") != 1 {
			t.Errorf("more than a line: %s", p.stderr)
		}
	}
}

// Each role is enough for its commands, and what is missing is told.
func TestARoleIsEnoughForItsCommands(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := setup(t, client)
	tokens := map[config.Role]string{config.RoleSubmit: "token-submit", config.RoleRead: "token-read", config.RoleOperate: "token-operate"}
	b.serve(func(a *httpapi.API) {
		a.Tokens = nil
		for role, token := range tokens {
			a.Tokens = append(a.Tokens, config.Token{Name: string(role), Roles: []config.Role{role}, SHA256: sha256.Sum256([]byte(token))})
		}
	})
	server := b.env["REDRIVE_SERVER"]
	b.submit(submission("charge", "a", 1))
	for role, commands := range map[config.Role][][]string{
		config.RoleSubmit: {{"add", "charge/b", "--body", "{}"}, line("import -"), line("first-attempts payrail --ok 1")},
		config.RoleRead: {line("list"), line("show charge/a"), line("show a"), line("dlq list"), line("dlq stats"), line("dlq show charge/a"), line("batch list"), line("gate"),
			line("gate payrail"), line("audit"), line("stats"), line("list --kind none"), line("dlq export -o csv")},
		config.RoleOperate: {line("pause payrail --note x"), line("resume payrail --note x"), line("gate override payrail --cap 5 --for 1h --note x"), line("gate clear payrail --note x"),
			line("cancel charge/a -y --note x"), line("dlq requeue --all-matching -y --note x"), line("dlq discard --all-matching -y --note x")},
	} {
		for _, args := range commands {
			for other, token := range tokens {
				b.useServer(server, token)
				got := b.runWith(`{"kind":"charge","key":"a","body":{"amount":1,"currency":"GBP"}}`, args...)
				may := got.code == exitOK
				if may != (other == role) {
					t.Errorf("%s with role %s alone: exit %d %s", strings.Join(args, " "), other, got.code, got.stderr)
				}
				if !may {
					says(t, got.stderr, "has not the role "+string(role))
				}
			}
		}
	}
	b.useServer(server, tokens[config.RoleRead])
	says(t, b.must(exitError, "show", "charge/a", "--reveal").stderr, "has not the role operate")
}

func TestAServerThatIsAwayIsOneLineAndTryAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, client := redistest.Mini(t)
	b := setup(t, client)
	b.useServer("http://"+l.Addr().String(), testToken)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range everyCommand {
		got := b.runWith(`{"kind":"charge","key":"a","body":{}}`, args...)
		if got.code != exitAgain || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", strings.Join(args, " "), got.code, got.stderr)
		}
		says(t, got.stderr, "server "+b.env["REDRIVE_SERVER"], "connection refused")
		hides(t, got.stderr, "redis", "may have been", testToken)
	}
}

// everyCommand asks whatever is acted on.
var everyCommand = [][]string{line("list"), line("stats"), line("show charge/a"), line("show a --reveal"), {"add", "charge/a", "--body", "{}"}, line("import -"),
	line("cancel charge/a -y --note x"), line("cancel --all-matching -y --note x"), line("reconcile charge/a --note x"), line("resolve charge/a --not-applied --note x"),
	line("dlq list"), line("dlq stats"), line("dlq show a"), line("dlq export"), line("dlq export -o csv"), line("dlq requeue --all-matching -y --note x"), line("dlq requeue charge/a --dry-run"),
	line("dlq discard charge/a -y --note x"), line("batch list"), line("batch show b-1"), line("batch stop b-1 --note x"), line("gate"), line("gate payrail"),
	line("gate override payrail --cap 5 --for 1h --note x"), line("gate clear payrail --note x"), line("first-attempts payrail --ok 1"), line("pause payrail --note x"),
	line("resume payrail --note x"), line("audit"), line("watch payrail"), line("watch")}

func TestAServerThatIsNotRedrivesIsOneLineAndAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		code   int
		word   string
	}{
		"HTML": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>\x1b[31m") }, exitError, "text/html"},
		"JSON of another": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", r.Header.Get("Accept")[:strings.Index(r.Header.Get("Accept"), ",")])
			_, _ = io.WriteString(w, `{"status":"ok"}`+"\n")
		}, exitError, ""},
		"a proxy": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }, exitAgain, "502 Bad Gateway"},
		"cut":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, exitAgain, "the connection was cut"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.example/", http.StatusFound)
		}, exitError,
			"no redirect is followed"},
	} {
		s := httptest.NewServer(c.answer)
		t.Cleanup(s.Close)
		_, client := redistest.Mini(t)
		b := setup(t, client)
		b.useServer(s.URL, testToken)
		for _, args := range everyCommand {
			if name == "JSON of another" && args[0] == "watch" {
				continue // it gets no event, and waits for one
			}
			got := b.runWith(`{"kind":"charge","key":"a","body":{}}`, args...)
			if got.code != c.code || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("%s: %s: exit %d, want %d: %q", name, strings.Join(args, " "), got.code, c.code, got.stderr)
			}
			says(t, got.stderr, "server "+s.URL, c.word)
			hides(t, got.stderr, "\x1b", testToken)
		}
	}
}

func TestARedisThatIsAwayBehindAServerIsTryAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, srv.Client(t))
	b.serve(nil)
	b.must(exitOK, "add", "charge/a", "--body", "{}")
	srv.Kill9()
	for _, args := range [][]string{line("list"), {"add", "charge/b", "--body", "{}"}, line("stats"), line("cancel charge/a -y --note x")} {
		got := b.must(exitAgain, args...)
		says(t, got.stderr, "server "+b.env["REDRIVE_SERVER"], "try again in 2s")
		if args[0] == "add" {
			says(t, got.stderr, "repeating the same add is safe")
		}
	}
}

func TestWhatAWorkerTakesNothingInForIsTold(t *testing.T) {
	t.Parallel()
	b := served(t, func(a *httpapi.API) { a.FitFunc = func() []string { return []string{"no persistence"} } })
	says(t, b.must(exitAgain, "add", "charge/b", "--body", "{}").stderr, "no persistence", "nothing was written")
	got := b.mustWith(exitAgain, `{"kind":"charge","key":"a","body":{}}`, "import", "-")
	says(t, got.stderr, "no persistence", "0 lines surely taken")
}

// A body goes through the server byte for byte, as it does without.
func TestABodyGoesThroughTheServerByteForByte(t *testing.T) {
	t.Parallel()
	for key, body := range map[string]string{"spaces": `{ "amount" : 1.50,"note":"é<&>" }`, "null": "null", "text": `"\u00e9"`, "deep": `[[{"a":[1e5,-0.0]}]]`} {
		onEach(t, func(t *testing.T, b *testBundle) {
			b.must(exitOK, "add", "charge/"+key, "--body", body)
			d, err := b.ledger.Get(t.Context(), "payrail", jobs.ID{Kind: "charge", Key: jobs.Key(key)}, nil)
			if err != nil || string(d.Request.Body) != body {
				t.Errorf("%s is sent as %q, %v", body, d.Request.Body, err)
			}
		})
	}
}

func TestAServerWithoutKindsSaysSo(t *testing.T) {
	t.Parallel()
	b := served(t, func(a *httpapi.API) { a.Ledger = ledger.New(a.Ledger.Client(), "empty") })
	for _, args := range [][]string{{"add", "charge/a", "--body", "{}"}, line("import -"), line("show a"), line("reconcile charge/a --note x")} {
		says(t, b.must(exitError, args...).stderr, "no kinds are known "+b.where)
	}
}

// Each problem that the API's manual lists ends a command with its code: a new one is a
// decision.
func TestEveryProblemEndsWithItsCode(t *testing.T) {
	t.Parallel()
	want := map[string]int{"malformed": exitUsage, "unauthorized": exitError, "forbidden": exitError, "not-served": exitError, "cross-site": exitError, "not-found": exitNotFound,
		"method-not-allowed": exitError, "not-acceptable": exitError, "too-slow": exitAgain, "conflict": exitConflict, "not-in-this-state": exitConflict, "too-large": exitUsage,
		"unsupported-media-type": exitError, "wrong-host": exitError, "invalid": exitUsage, "backlog-full": exitAgain, "internal": exitError, "busy": exitAgain, "closing": exitAgain,
		"redis-away": exitAgain, "redis-refuses": exitAgain, "timeout": exitAgain, "not-fit": exitAgain, "unsure": exitAgain}
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([0-9]{3}) \\|").FindAllStringSubmatch(string(manual), -1)
	if len(rows) != len(want) {
		t.Errorf("the manual lists %d problems, %d have a code here", len(rows), len(want))
	}
	for _, row := range rows {
		status, _ := strconv.Atoi(row[2]) // matched
		err := error(&remote.Problem{Type: "urn:redrive:problem:" + row[1], Status: status})
		if got := codeOf(fmt.Errorf("x: %w", err)); got != want[row[1]] {
			t.Errorf("%s: exit %d, want %d", row[1], got, want[row[1]])
		}
	}
}

// first-attempts counts each time: a report whose answer is lost is not sent again.
func TestAReportWhoseAnswerIsLostIsSentOnce(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	var reports atomic.Int32
	between(t, b, func(r *http.Request, resp *http.Response) error {
		if strings.HasSuffix(r.URL.Path, "/first-attempts") {
			reports.Add(1)
			resp.Body = &cutAfter{resp.Body, 0}
		}
		return nil
	})
	got := b.must(exitAgain, "first-attempts", "payrail", "--ok", "3")
	says(t, got.stderr, "it may have been counted")
	if n := reports.Load(); n != 1 {
		t.Errorf("%d reports arrived, want 1", n)
	}
	says(t, b.must(exitAgain, "first-attempts", "payrail", "--ok", "3").stderr, "would count it again")
}

func TestAnActionOnMoreThanOneRequestTakesIsDoneInParts(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	var subs []jobs.Submission
	var names strings.Builder
	for i := range maxNamed + 5 {
		subs = append(subs, submission("charge", fmt.Sprintf("o%d", i), 1))
		fmt.Fprintf(&names, "charge/o%d\n", i)
	}
	b.submit(subs...)
	got := b.mustWith(exitOK, names.String(), "cancel", "-", "-y", "--note", "shop closed", "-o", "json")
	out := into[operator.Outcome](t, got)
	if out.Done != maxNamed+5 || out.Batch == nil {
		t.Errorf("done %d, batch %v", out.Done, out.Batch)
	}
	says(t, got.stderr, "only in parts: batches", *out.Batch)
	if list := into[struct {
		Items []operator.Batch `json:"items"`
	}](t, b.must(exitOK, "batch", "list", "-o", "json")); len(list.Items) != 2 {
		t.Errorf("%d batches, want 2", len(list.Items))
	}
	all := into[page](t, b.must(exitOK, "list", "--limit", "0", "-o", "json"))
	some := into[page](t, b.must(exitOK, "list", "--limit", fmt.Sprint(maxNamed+2), "-o", "json"))
	if len(all.Items) != maxNamed+5 || all.NextCursor != "" || len(some.Items) != maxNamed+2 || some.NextCursor == "" {
		t.Errorf("listed %d %q and %d %q", len(all.Items), all.NextCursor, len(some.Items), some.NextCursor)
	}
}

// Canaries that are waited for longer than a request lasts are followed by their batch.
func TestAnActionThatTakesLongIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	ids := b.declined(4)
	done := b.start("dlq", "requeue", "--all-matching", "--canary", "1", "--canary-wait", "2500ms", "-y", "--note", "carefully", "-o", "json")
	got := <-done
	if got.code != exitConflict {
		t.Fatalf("exit %d: %s %s", got.code, got.stdout, got.stderr)
	}
	out := into[operator.Outcome](t, got)
	if out.Done != 1 || len(out.Items) != 1 || out.Canary == nil || out.Canary.Untouched != 3 {
		t.Errorf("%+v", out)
	}
	says(t, got.stderr, "requeued 1 operation first", "canary:", "3 operations left as they were")
	b.wantState(ids[1], jobs.Dead)
}

func TestAnInterruptedFollowingSaysThatTheActionGoesOn(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	var looks atomic.Int32 // at how far the action is
	between(t, b, func(r *http.Request, _ *http.Response) error {
		if strings.HasPrefix(r.URL.Path, "/v1/batches/") {
			looks.Add(1)
		}
		return nil
	})
	b.declined(2)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	done := make(chan printed, 1)
	go func() { // ends by interrupt; waited for below
		done <- runProgram(ctx, b.getenv, "", "dlq", "requeue", "--all-matching", "--canary", "1", "--canary-wait", "10m", "-y", "--note", "carefully")
	}()
	waitFor(t, func() bool { return looks.Load() > 0 })
	interrupt()
	got := <-done
	if got.code != exitError {
		t.Errorf("exit %d", got.code)
	}
	says(t, got.stderr, "interrupted; batch b-", "goes on in the worker", "batch stop")
}
