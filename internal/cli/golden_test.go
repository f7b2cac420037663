package cli

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/terms"
)

// noon is when the golden world begins. Its clock moves only by tick.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// goldenWorld is a namespace in which each thing that can be shown happened once,
// at instants that never change.
type goldenWorld struct {
	*testBundle
	store *miniredis.Miniredis
	now   time.Time
}

func (w *goldenWorld) tick(d time.Duration) {
	w.now = w.now.Add(d)
	w.store.SetTime(w.now)
}

func newGoldenWorld(t *testing.T) *goldenWorld {
	t.Helper()
	store, client := redistest.Mini(t)
	w := &goldenWorld{store: store, now: noon}
	store.SetTime(noon)
	w.testBundle = setup(t, client)
	ctx := t.Context()

	w.submit(submission("charge", "done", 100))
	w.tick(time.Second)
	w.attempt("charge/done", timedOut(ledger.StepRetry))
	w.tick(time.Second)
	w.attempt("charge/done", succeeded())

	w.tick(time.Minute)
	declined := submission("charge", "declined", 4200)
	declined.CorrelationID = "checkout-7"
	w.submit(declined)
	w.attempt("charge/declined", decline(402, "card declined: do not honour"))

	w.tick(time.Minute)
	w.submit(submission("payout", "lost", 900))
	w.attempt("payout/lost", timedOut(ledger.StepAsk))

	w.tick(time.Minute)
	w.submit(submission("charge", "spent", 310))
	w.attempt("charge/spent", ended(jobs.ReasonAttempts, jobs.Class503, "status 503"))

	w.tick(time.Minute)
	late := submission("charge", "late", 55)
	late.Deadline = "1s"
	w.submit(late)
	w.tick(2 * time.Second)
	for range 2 {
		if _, _, err := w.ledger.Sweep(ctx, terms.Of(w.specs["charge"]), []jobs.Kind{"charge"}); err != nil {
			t.Fatal(err)
		}
	}

	w.tick(time.Minute)
	void := submission("void", "v1", 1)
	void.NotBefore = "2026-12-24T09:00:00Z"
	void.Headers = map[string]string{"X-Account": "a1"}
	w.submit(void)
	w.submit(submission("refund", "gone", 12))
	if _, err := w.ledger.Cancel(ctx, "bank", jobs.ID{Kind: "refund", Key: "gone"}, w.specs["refund"].Retention, ledger.Actor{By: "bob@desk", Note: "by mistake"}); err != nil {
		t.Fatal(err)
	}
	// An hour and a half later every default deadline still lies ahead.
	w.tick(90 * time.Minute)
	return w
}

// transcript runs command lines and returns what they printed.
func (w *goldenWorld) transcript(lines ...[]string) string {
	var out strings.Builder
	for _, args := range lines {
		got := w.inOrder(args...)
		var quoted []string
		for _, a := range args {
			if strings.ContainsAny(a, " {}'\"*") {
				a = "'" + a + "'"
			}
			quoted = append(quoted, a)
		}
		fmt.Fprintf(&out, "$ enqueue %s\n%s", strings.Join(quoted, " "), got.stdout)
		if got.stderr != "" {
			fmt.Fprintf(&out, "-- stderr\n%s", got.stderr)
		}
		fmt.Fprintf(&out, "-- exit %d\n\n", got.code)
	}
	return out.String()
}

// inOrder runs a command line that works on one operation after the other.
func (w *goldenWorld) inOrder(args ...string) printed {
	var stdout, stderr bytes.Buffer
	p := newProgram(strings.NewReader(""), &stdout, &stderr, w.getenv)
	p.hands = 1
	code := p.run(w.t.Context(), args)
	return printed{code, stdout.String(), stderr.String()}
}

// golden compares what was printed; where things are known is said in one way.
func (w *goldenWorld) golden(t *testing.T, name, got string) {
	t.Helper()
	got = serverSays.ReplaceAllString(got, "enqueue: $1 in namespace rd: $2")
	golden(t, name, strings.ReplaceAll(got, w.where, "in namespace rd"))
}

// serverSays is how it is told that a server knows no dependency of a name.
var serverSays = regexp.MustCompile(`enqueue: (no dependency "[a-z]+"): (.*) \(http://[0-9.:]+\)`)

// inSomeOrder sorts the lines of what several hands did at one instant.
func inSomeOrder(transcript string) string {
	lines := strings.SplitAfter(batchIDs.ReplaceAllString(transcript, "b-BATCH"), "\n")
	at := func(line string) bool { return strings.HasPrefix(line, "20") }
	first := slices.IndexFunc(lines, at)
	last := len(lines)
	for !at(lines[last-1]) {
		last--
	}
	slices.Sort(lines[first:last])
	return strings.Join(lines, "")
}

// eachGolden runs a golden test on Redis and through a server: what people see is the same.
func eachGolden(t *testing.T, test func(t *testing.T, w *goldenWorld)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, newGoldenWorld(t))
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		w := newGoldenWorld(t)
		w.serve(nil)
		test(t, w)
	})
}

func line(words string) []string { return strings.Fields(words) }

func TestGoldenLists(t *testing.T) {
	t.Parallel()
	eachGolden(t, func(t *testing.T, w *goldenWorld) {
		w.golden(t, "list", w.transcript(
			line("list"), line("list -o name"), line("list -o json --kind payout"), line("list -o jsonl --state succeeded,cancelled"), line("list -o csv"),
			line("list --limit 2"), line("list --kind charge --state dead --reason deadline"), line("list --kind none"), line("list --state cancelled --dependency payrail -o json"),
		))
		w.golden(t, "dlq-list", w.transcript(
			line("dlq list"), line("dlq list --unknown -o csv"), line("dlq list --class 4xx -o json"), line("dlq stats"), line("dlq stats -o json --reason attempts,permanent"), line("dlq stats -o csv"),
		))
	})
}

func TestGoldenShow(t *testing.T) {
	t.Parallel()
	eachGolden(t, func(t *testing.T, w *goldenWorld) {
		w.golden(t, "show", w.transcript(
			line("show charge/done"), line("show charge/done -o json"), line("show void/v1 --reveal"), line("show void/v1 --reveal -o json"),
			line("show gone"), line("show gone -o json"), line("show charge/nothing"), line("show nothing"), line("show done -o name"),
		))
		w.golden(t, "dlq-show", w.transcript(
			line("dlq show charge/declined"), line("dlq show payout/lost"), line("dlq show charge/spent"), line("dlq show charge/late"), line("dlq show charge/late -o json"), line("dlq show charge/done -o jsonl"),
		))
	})
}

func TestGoldenStatsAndAudit(t *testing.T) {
	t.Parallel()
	eachGolden(t, func(t *testing.T, w *goldenWorld) {
		w.golden(t, "stats", w.transcript(
			line("stats"), line("stats -o json"), line("stats -o csv"),
			[]string{"pause", "payrail", "--for", "8h", "--note", "their maintenance"}, []string{"pause", "bank", "--note", "ours", "-o", "json"}, line("stats"),
			[]string{"resume", "payrail", "--note", "back", "-o", "json"}, []string{"resume", "bank", "--note", "back"}, line("pause nothing --note x"), line("pause payrail"),
			line("audit"), line("audit bank -o json"), line("audit refund/gone -o jsonl"), line("audit payrail -o csv"), line("audit --since 10m --limit 1"), line("audit nothing"), line("audit charge/done"),
		))
	})
}

func TestGoldenActions(t *testing.T) {
	t.Parallel()
	eachGolden(t, func(t *testing.T, w *goldenWorld) {
		w.golden(t, "actions", w.transcript(
			[]string{"add", "charge/new", "--body", `{"amount":1}`}, []string{"add", "charge/new", "--body", `{"amount":1}`, "-o", "json"},
			[]string{"add", "charge/new", "--body", `{"amount":2}`, "-o", "jsonl"}, []string{"add", "charge/newer", "--body", `{"amount":1}`, "-o", "name"},
			[]string{"add", "charge/bad", "--body", `{"amount":`, "-o", "json"},
			line("dlq requeue --all-matching --dry-run"), line("dlq requeue --all-matching --dry-run -o json"), line("dlq requeue --all-matching --dry-run --deadline 1h -o name"),
			line("dlq requeue --all-matching --dry-run --reason attempts,permanent -o csv"),
			[]string{"dlq", "requeue", "charge/spent", "charge/late", "charge/done", "charge/none", "-y", "--note", "gateway is back"},
			[]string{"dlq", "requeue", "charge/late", "--deadline", "1h", "-y", "--note", "still wanted", "-o", "json"},
			[]string{"dlq", "discard", "--all-matching", "-y", "--note", "given up"},
			[]string{"resolve", "payout/lost", "--applied", "--ref", "po_77", "--note", "seen in the dashboard"},
			[]string{"resolve", "payout/lost", "--not-applied", "--note", "again", "-o", "jsonl"},
			[]string{"cancel", "charge/spent", "void/v1", "-y", "--note", "customer withdrew", "-o", "csv"},
			[]string{"cancel", "charge/none", "-y", "--note", "x", "-o", "json"},
			[]string{"cancel", "--all-matching", "--kind", "refund", "-y", "--note", "x"},
		)+inSomeOrder(w.transcript(line("audit --limit 40"))))
	})
}

func TestGoldenExport(t *testing.T) {
	t.Parallel()
	eachGolden(t, func(t *testing.T, w *goldenWorld) {
		out := filepath.Join(t.TempDir(), "out.jsonl")
		text := w.transcript(line("dlq export"), line("dlq export -o csv --unknown"), line("dlq export -o table"), line("dlq export --reason deadline --out "+out), line("dlq export --out "+out), line("audit --limit 5"))
		w.golden(t, "export", strings.ReplaceAll(text, out, "OUT"))
	})
}

func TestGoldenHelp(t *testing.T) {
	t.Parallel()
	w := newGoldenWorld(t)
	w.golden(t, "help", w.transcript(line("help"), line("add --help"), line("import --help"), line("show --help"), line("list --help"), line("cancel --help"), line("reconcile --help"), line("resolve --help"),
		line("dlq"), line("dlq list --help"), line("dlq show --help"), line("dlq stats --help"), line("dlq requeue --help"), line("dlq discard --help"), line("dlq export --help"),
		line("batch"), line("batch list --help"), line("batch show --help"), line("batch stop --help"), line("gate --help"), line("gate override --help"), line("gate clear --help"),
		line("first-attempts --help"), line("pause --help"), line("resume --help"), line("audit --help"), line("stats --help"), line("watch --help")))
}

func TestGoldenUsage(t *testing.T) {
	t.Parallel()
	w := newGoldenWorld(t)
	w.golden(t, "usage", w.transcript(
		line("nothing"), line("dlq nothing"), line("list --nothing"), line("list extra"), line("list -o xml"), line("list --state asleep"), line("list --reason bored"), line("list --class 9xx"), line("list --flag red"),
		line("list --key ["), line("list --limit -1"), line("list --since yesterday"), line("list --since 1h --until 2h"), line("list --cursor x"), line("list --command-timeout 0s"),
		line("show"), line("audit --limit 0"), line("resume payrail"), line("resolve charge/o1 --note x"), line("resolve charge/o1 --applied --written-off --note x"), line("resolve --note x"),
		line("resolve charge/o1 --not-applied --ref x --note x"), line("resolve charge/o1 --from f.csv --note x"), line("resolve --from none.csv --note x"),
		line("cancel --note x -y"), line("cancel charge/o1 --all-matching --note x -y"), line("cancel --kind charge --note x -y"), line("cancel charge/o1 -y"), line("cancel charge/o1 --note x"),
		line("cancel charge/o1 - --note x -y"), line("dlq requeue charge/o1 -y --note x --rate 5"), line("dlq requeue charge/o1 -y --note x --more-attempts 0"), line("dlq requeue charge/o1 -y --note x --deadline -1h"),
		line("list --server http://x"), line("stats --token-file f"),
		line("add charge/o1 --body 1 --new-attempt-of o0"), line("add charge/o1 --body 1 --new-attempt-of charge/o1"), []string{"add", "charge/o1", "--body", "1", "--new-attempt-of", ""}, line("dlq requeue charge/o1 -y --note x --canary 0"), line("dlq requeue charge/o1 -y --note x --canary-wait 5m"),
		line("dlq requeue charge/o1 -y --note x --canary 1 --canary-wait 0s"), line("dlq requeue charge/late -y --note x --deadline 2026-11-30T11:00:00Z"),
		line("resolve --all-matching --kind charge --applied --note x"), line("resolve --all-matching --note x"),
		line("reconcile charge/o1"), line("reconcile --note x"), line("reconcile nothing/o1 --note x"), line("reconcile charge/o1 --from f --note x"), line("reconcile --from none.txt --note x"),
		line("reconcile charge/o1 --note x --first-sent-at yesterday"), line("batch show"), line("batch show b-none"), line("batch stop b-none"), line("batch stop b-none --note x"), line("batch list --limit 0"),
		line("gate payrail bank"), line("gate Payrail"), line("gate payrail -o name"), line("gate override payrail --cap 5 --note x"), line("gate override payrail --cap 5 --for 25h --note x"),
		line("gate override payrail --cap 5 --for 0s --note x"), line("gate override payrail --for 1h --note x"), line("gate override payrail --cap 5 --for 1h"), line("gate clear payrail"),
		line("gate override --cap 5 --for 1h --note x"), line("gate override nothing --cap 5 --for 1h --note x"), line("gate clear nothing --note x"), line("first-attempts payrail"),
		line("first-attempts payrail --ok -1"), line("first-attempts payrail --ok 600000 --failed 600000"), line("first-attempts payrail --failed 1000001"), line("first-attempts payrail --timed-out some"),
		line("first-attempts nothing --ok 1"), line("resume payrail --credential default --note x"), line("resume payrail --credential M1 --note x"), line("resume payrail --credential m1 --note x"),
	))
}
