package analysis

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/config"
)

// at is the default load, changed.
func at(change func(*Load)) Load {
	l := DefaultLoad()
	if change != nil {
		change(&l)
	}
	return l
}

const askedAbout = `inquiry: {request: {path: "/c?r={key}"}, succeeded: 'body.s == "ok"', not_found: 'body.s == "no"', settle: 30s}`

// flaws has for each sort of finding one flaw that brings it, and nothing else.
var flaws = map[string]struct {
	file file
	load func(*Load)
	also string // what cannot but come with it; "": nothing
}{
	"slots-exhausted":         {file: file{top: "shutdown_grace: 40s", dependency: "timeout: 30s"}},
	"request-path-exhausted":  {file: file{dependency: "max_in_flight: 0"}, load: func(l *Load) { l.PerSecond, l.Processes, l.ResendsInRequest = 40, 5, 3 }},
	"breaker-never-opens":     {file: file{dependency: "breaker: {consecutive: 0}"}},
	"budget-without-floor":    {file: file{dependency: "budget: {floor_per_second: 0}"}},
	"budget-floor-above-load": {file: file{dependency: "budget: {floor_per_second: 3}"}, load: func(l *Load) { l.PerSecond = 2 }},
	"budget-cap-below-slots":  {file: file{dependency: "budget: {cap: 9}"}},
	"backlog-too-small":       {file: file{dependency: "max_backlog: 1000"}, load: func(l *Load) { l.PerSecond, l.Outage = 2, 501*time.Second }},
	"rate-below-load":         {file: file{dependency: "rate: {per_second: 2}"}, load: func(l *Load) { l.PerSecond = 2.5 }},
	"rule-always-true":        {file: file{dependency: "rules: [{when: 'status > 0', verdict: retry_safe}]"}},
	"rule-never-true":         {file: file{dependency: "rules: [{when: 'status == 402 && status == 500', verdict: retry_safe}]"}},
	"rule-repeated":           {file: file{dependency: "rules: [{when: 'status == 402', verdict: retry_safe}, {when: 'status  ==  402', verdict: permanent_failure}]"}},
	"again-unknown":           {file: file{dependency: "preset: generic", kind: "idempotency: natural"}},

	"key-window-short":           {file: file{dependency: "idempotency_key: {window: 2h}"}},
	"deadline-beyond-key-window": {file: file{dependency: "idempotency_key: {window: 4h}", kind: "idempotency: keyed, deadline: 4h, backoff: {base: 1s, cap: 10m}, max_attempts: 20"}, also: "retry-span-short"},
	"retry-span-short":           {file: file{kind: "idempotency: keyed, max_attempts: 20"}},
	"deadline-one-attempt":       {file: file{kind: "idempotency: keyed, deadline: 3500ms"}, load: func(l *Load) { l.Outage = 0 }},
	"never-retried":              {file: file{kind: "idempotency: keyed, max_attempts: 1"}},
	"drain-too-slow":             {file: file{dependency: "drain: {max_per_second: 0}"}, load: func(l *Load) { l.Outage = 3 * time.Hour }},
	"inquiry-without-not-found":  {file: file{kind: `idempotency: none, inquiry: {request: {path: "/c?r={key}"}, succeeded: 'body.s == "ok"', settle: 30s}`}},
	"inquiry-gives-up-early":     {file: file{kind: strings.Replace("idempotency: none, "+askedAbout, "settle: 30s", "settle: 30s, give_up_after: 1m", 1)}},

	// Those of the file alone: config has tests of each, here they must arrive.
	"dependency-unused":          {file: file{dependencies: `  idle: {base_url: "https://idle.example"}`}},
	"shutdown-cuts-attempts":     {file: file{top: "shutdown_grace: 1s"}},
	"min-response-above-timeout": {file: file{dependency: "min_response: 4s"}},
	"in-flight-below-slots":      {file: file{dependency: "max_in_flight: 9"}},
	"slow-call-unreachable":      {file: file{dependency: "breaker: {slow_call: 3s}"}},
	"tokens-in-the-open":         {file: file{top: "listen: 0.0.0.0:8080\ntokens: [{name: shop, roles: [submit], sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}]"}},
	"plain-http":                 {file: file{dependency: `base_url: "http://api.payrail.example"`}},
	"secret-in-file":             {file: file{dependency: "headers: {Authorization: Bearer hunter2}"}},
	"deadline-below-timeout":     {file: file{kind: "idempotency: keyed, deadline: 2s"}, load: func(l *Load) { l.Outage = 0 }},
	"backoff-beyond-deadline":    {file: file{kind: "idempotency: keyed, backoff: {base: 3h, cap: 3h}"}},
	"no-inquiry":                 {file: file{kind: "idempotency: none"}},
	"inquiry-asks-unsent-key":    {file: file{kind: strings.Replace(`idempotency: none, idempotency_key: {header: ""}, `+askedAbout, "{key}", "{idempotency_key}", 1)}},
	"inquiry-asks-late-result":   {file: file{kind: strings.Replace("idempotency: none, result: {id: body.id}, "+askedAbout, "{key}", "{result.id}", 1)}},
	"void-result-unknown": {file: file{kind: "idempotency: none, result: {id: body.id}, on_late_success: void, void: {kind: undo, params: {id: result.id}}, " + askedAbout,
		kinds: "  undo: {dependency: payrail, request: {path: \"/v/{params.id}\"}, idempotency: natural}"}},
}

// ofPresets are the sorts that take a preset: their tests are in config.
var ofPresets = []string{"preset-weaker-class", "preset-key-header", "preset-key-window", "preset-key-length", "preset-settle-short", "preset-resends-not-found"}

func TestASoundConfigurationHasNoFinding(t *testing.T) {
	t.Parallel()
	for _, text := range []string{sound, file{}.text(), file{kind: "idempotency: none, " + askedAbout}.text(), file{kind: "idempotency: natural"}.text()} {
		got := Findings(parse(t, text), DefaultLoad())
		if got == nil || len(got) > 0 {
			t.Errorf("%+v\n%s", got, text)
		}
	}
}

func TestEachFlawGivesItsFindingAndNoOther(t *testing.T) {
	t.Parallel()
	for id, flaw := range flaws {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			text := flaw.file.text()
			got := Findings(parse(t, text), at(flaw.load))
			i := slices.Index(ids(got), id)
			if i < 0 || len(got) != 1 && (len(got) != 2 || got[1-i].ID != flaw.also) {
				t.Fatalf("got %+v\n%s", got, text)
			}
			f := got[i]
			if !slices.Contains(Severities, f.Severity) || f.Path == "" || f.What == "" || f.Why == "" || f.Want == "" {
				t.Errorf("incomplete: %+v", f)
			}
			if strings.Contains(f.String()+f.Want, "hunter2") || strings.ContainsAny(f.String()+f.Want, "%\n") {
				t.Errorf("%+v", f)
			}
		})
	}
}

// added finds the sorts of findings that the code can add.
var added = regexp.MustCompile(`\b[rw]\.add\("([a-z0-9-]+)"`)

func TestEverySortOfFindingHasItsFlaw(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, dir := range []string{".", filepath.Join("..", "config")} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range added.FindAllStringSubmatch(string(source), -1) {
				if found[m[1]] && m[1] != "key-window-short" {
					t.Errorf("%s is added in two places", m[1])
				}
				found[m[1]] = true
			}
		}
	}
	for id := range found {
		if _, ok := flaws[id]; !ok && !slices.Contains(ofPresets, id) {
			t.Errorf("%s has no flaw that brings it", id)
		}
	}
	for id := range flaws {
		if !found[id] {
			t.Errorf("nothing adds %s", id)
		}
	}
}

func TestAKeyThatIsForgottenTooSoonIsAsBadAsItIsLikely(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		window, kind string
		want         Severity
	}{
		{"2h", "idempotency: keyed", Warning},                         // some resends come after 96 minutes
		{"30m", "idempotency: keyed", Error},                          // most do
		{"30m", "idempotency: keyed, " + askedAbout, Warning},         // and are asked about
		{"4h", "idempotency: keyed, max_attempts: 30", ""},            // none does
		{"30m", "idempotency: natural", ""},                           // no key is needed
		{"30m", "idempotency: keyed, deadline: 20m", ""},              // the deadline comes first
		{"30m", "idempotency: none, " + askedAbout, ""},               // nothing is resent
		{"2h30m", "idempotency: keyed, max_attempts: 25", ""},         // 0.8 x 2h30m is the deadline to the minute
		{"2h29m59s", "idempotency: keyed, max_attempts: 25", Warning}, // and this is below it
	} {
		got := Findings(parse(t, file{dependency: "idempotency_key: {window: " + tt.window + "}", kind: tt.kind}.text()), DefaultLoad())
		switch {
		case tt.want == "" && len(got) > 0, tt.want != "" && (len(got) != 1 || got[0].Severity != tt.want || got[0].ID != "key-window-short"):
			t.Errorf("window %s, %s: got %+v, want %q", tt.window, tt.kind, got, tt.want)
		}
	}
}

func TestSlotsThatABreakerFreesAreANote(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		load Load
		want Severity
		ends string
	}{
		{Load{PerSecond: 4, Failing: 1, Processes: 1}, Note, "the breaker ends it 8s after it began"},
		{Load{PerSecond: 10, Failing: 0.49, Processes: 1}, Warning, "the breaker does not end it but by chance"},
		{Load{PerSecond: 10, Failing: 0.5, Processes: 1}, Note, "the breaker ends it 13s after it began"},
	} {
		got := Findings(parse(t, sound), tt.load)
		if len(got) != 1 || got[0].ID != "slots-exhausted" || got[0].Severity != tt.want || !strings.HasSuffix(got[0].Why, tt.ends) {
			t.Errorf("%+v: got %+v", tt.load, got)
		}
	}
}

func TestWhatIsSaidToBeRightIsRight(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id     string
		find   string // in what would be right
		mended func(named string) file
	}{
		{"slots-exhausted", `at least (\d+) slots`, func(n string) file { return file{top: "shutdown_grace: 40s", dependency: "timeout: 30s, slots: " + n} }},
		{"key-window-short", `window of at least (\S+) `, func(n string) file { return file{dependency: "idempotency_key: {window: " + n + "}"} }},
		{"retry-span-short", `max_attempts of at least (\d+),`, func(n string) file { return file{kind: "idempotency: keyed, max_attempts: " + n} }},
		{"breaker-never-opens", `min_calls of at most (\d+),`, func(n string) file { return file{dependency: "breaker: {consecutive: 0, min_calls: " + n + "}"} }},
		{"inquiry-gives-up-early", `at least (\S+)`, func(n string) file {
			return file{kind: strings.Replace("idempotency: none, "+askedAbout, "settle: 30s", "settle: 30s, give_up_after: "+n, 1)}
		}},
	} {
		before := Findings(parse(t, flaws[tt.id].file.text()), DefaultLoad())
		m := regexp.MustCompile(tt.find).FindStringSubmatch(before[0].Want)
		if m == nil {
			t.Errorf("%s: no %q in %q", tt.id, tt.find, before[0].Want)
			continue
		}
		if got := Findings(parse(t, tt.mended(m[1]).text()), DefaultLoad()); len(got) > 0 {
			t.Errorf("%s with %s: %+v", tt.id, m[1], got)
		}
	}
}

// Each pair is the last value that is sound and the first that is not.
func TestFindingsBeginWhereTheirNumbersSay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id             string
		sound, unsound file
		load           func(*Load)
	}{
		{"slots-exhausted", file{top: "shutdown_grace: 40s", dependency: "timeout: 30s, slots: 12"}, file{top: "shutdown_grace: 40s", dependency: "timeout: 30s, slots: 11"}, nil},
		{"retry-span-short", file{kind: "idempotency: keyed, max_attempts: 22"}, file{kind: "idempotency: keyed, max_attempts: 21"}, nil},
		{"breaker-never-opens", file{dependency: "breaker: {consecutive: 0, min_calls: 10}"}, file{dependency: "breaker: {consecutive: 0, min_calls: 11}"}, nil},
		{"budget-floor-above-load", file{dependency: "budget: {floor_per_second: 2}"}, file{dependency: "budget: {floor_per_second: 2.001}"}, func(l *Load) { l.PerSecond = 2 }},
		{"budget-cap-below-slots", file{dependency: "budget: {cap: 10}"}, file{dependency: "budget: {cap: 9}"}, nil},
		{"rate-below-load", file{dependency: "rate: {per_second: 2.5}"}, file{dependency: "rate: {per_second: 2.499}"}, func(l *Load) { l.PerSecond, l.Outage = 2.5, 0 }},
		// timeout + 600 ms + min_response = 3750 ms
		{"deadline-one-attempt", file{kind: "idempotency: keyed, deadline: 3750ms"}, file{kind: "idempotency: keyed, deadline: 3749ms"}, func(l *Load) { l.Outage = 0 }},
		// 7 s lease + 30 s + 30 s
		{"inquiry-gives-up-early", file{kind: strings.Replace("idempotency: none, "+askedAbout, "settle: 30s", "settle: 30s, give_up_after: 67s", 1)},
			file{kind: strings.Replace("idempotency: none, "+askedAbout, "settle: 30s", "settle: 30s, give_up_after: 66999ms", 1)}, nil},
		// 7854 operations at 1.1/s in 7140 s, and 60 s of ramp: the deadline of 2 h
		{"drain-too-slow", file{dependency: "drain: {max_per_second: 0}"}, file{dependency: "drain: {max_per_second: 0}, breaker: {ramp: 61s}"}, func(l *Load) { l.Outage = 7854 * time.Second }},
	} {
		if got := Findings(parse(t, tt.sound.text()), at(tt.load)); len(got) > 0 {
			t.Errorf("%s: %+v of what is sound", tt.id, got)
		}
		if got := Findings(parse(t, tt.unsound.text()), at(tt.load)); !slices.Contains(ids(got), tt.id) {
			t.Errorf("%s: got %+v of what is not sound", tt.id, got)
		}
	}
}

func TestFindingsAreRankedAndTheSameEachTime(t *testing.T) {
	t.Parallel()
	text := file{top: "shutdown_grace: 1s", dependency: "headers: {Authorization: Bearer hunter2}, budget: {cap: 3}, idempotency_key: {window: 30m}",
		kinds: "  refund: {dependency: payrail, request: {path: /r}}\n  aaa: {dependency: payrail, request: {path: /r}}"}.text()
	c := parse(t, text)
	first := Findings(c, DefaultLoad())
	rank := -1
	for _, f := range first {
		r := slices.Index(Severities, f.Severity)
		if r < rank {
			t.Errorf("%s comes too late: %q", f.ID, ids(first))
		}
		rank = r
	}
	if first[0].Severity != Error || first[len(first)-1].Severity != Note {
		t.Errorf("%+v", first)
	}
	for range 20 {
		if got := Findings(parse(t, text), DefaultLoad()); !slices.Equal(got, first) {
			t.Fatalf("%+v\nwant %+v", got, first)
		}
	}
}

// The committed configurations with one flaw each, and the page that shows them.
func TestTheFlawedConfigurationsGiveTheirFindingAndStandInTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join("testdata", "flawed", "*.yaml"))
	if err != nil || len(names) != 5 {
		t.Fatalf("%q (%v), want five", names, err)
	}
	for _, name := range names {
		c, err := config.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		id := strings.TrimSuffix(filepath.Base(name), ".yaml")
		got := Findings(c, DefaultLoad())
		if len(got) != 1 || got[0].ID != id {
			t.Errorf("%s: got %+v", name, got)
			continue
		}
		line := string(got[0].Severity) + strings.Repeat(" ", 9-len(got[0].Severity)) + got[0].String() + "\n         right: " + got[0].Want + " (" + id + ")\n"
		for _, want := range []string{"```yaml\n" + string(text) + "```", line, "internal/analysis/" + filepath.ToSlash(name)} {
			if !strings.Contains(string(page), want) {
				t.Errorf("docs/policy.md lacks\n%s", want)
			}
		}
	}
	for id := range flaws {
		if !strings.Contains(string(page), "`"+id+"`") {
			t.Errorf("docs/policy.md does not know %s", id)
		}
	}
	for _, id := range ofPresets {
		if !strings.Contains(string(page), "`"+id+"`") {
			t.Errorf("docs/policy.md does not know %s", id)
		}
	}
}
