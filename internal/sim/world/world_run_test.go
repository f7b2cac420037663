package world

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"redrive/internal/jobs"
)

// TestMain lets garbage pile up: each call of a script makes a Lua state.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

func fixture(t *testing.T, rule *rule) (*setup, *store) {
	t.Helper()
	c, err := configuration()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(rule)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func played(c *setup, s *store, seed uint64) *world {
	w := newWorld(c, s, seed)
	w.logf("world %d", seed)
	w.drawGates(seed)
	w.play()
	return w
}

// each runs f for the numbers below n on as many stores as there are processors, until
// f says stop. It returns how long that took.
func each(t *testing.T, n int, rule *rule, f func(c *setup, s *store, i int) (stop bool)) time.Duration {
	t.Helper()
	began := time.Now()
	var mu sync.Mutex // guards next, stopped
	next, stopped := 0, false
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= n && !stopped
	}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		c, s := fixture(t, rule)
		all.Go(func() { // ends with the numbers; each waits
			for i, more := take(); more; i, more = take() {
				if f(c, s, i) {
					mu.Lock()
					stopped = true
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

const seeds = "testdata/seeds"

// long asks for all of it instead of what fits into some seconds.
var long = os.Getenv("REDRIVE_SIM") == "long"

// TestSeedsThatOnceFailed plays every seed that is kept.
func TestSeedsThatOnceFailed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(seeds, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no seed is kept in %s", seeds)
	}
	c, s := fixture(t, nil)
	for _, f := range files {
		seed, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(f), ".txt"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if w := played(c, s, seed); len(w.harm) > 0 {
			t.Errorf("world %d: %s\n%s", seed, w.harm[0], w.text())
		}
	}
}

// TestWorlds plays many worlds. REDRIVE_WORLDS says how many, REDRIVE_WORLDS_FROM the
// first seed.
func TestWorlds(t *testing.T) {
	t.Parallel()
	n, from := number(t, "REDRIVE_WORLDS", shortWorlds), number(t, "REDRIVE_WORLDS_FROM", 1)
	var mu sync.Mutex // guards failed, events, calls
	failed, events, calls := 0, 0, map[string]int{}
	took := each(t, n, nil, func(c *setup, s *store, i int) bool {
		w := played(c, s, uint64(from+i))
		mu.Lock()
		defer mu.Unlock()
		events += w.step
		for what, n := range w.history {
			calls[what] += n
		}
		if n == 1 {
			t.Log("\n" + w.text())
		}
		if len(w.harm) == 0 {
			return false
		}
		failed++
		name := filepath.Join(seeds, strconv.Itoa(from+i)+".txt")
		if err := os.WriteFile(name, []byte(w.text()), 0o644); err != nil {
			t.Error(err)
		}
		t.Errorf("world %d: %s (its log is in %s)", from+i, w.harm[0], name)
		return failed >= 20
	})
	t.Logf("%d worlds, %d events, in %s: %.0f worlds a minute", n, events, took.Round(time.Millisecond), float64(n)/took.Minutes())
	for _, what := range slices.Sorted(maps.Keys(calls)) {
		t.Logf("  %6d %s", calls[what], what)
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

func TestTheSameSeedGivesTheSameLog(t *testing.T) {
	t.Parallel()
	c, s := fixture(t, nil)
	_, other := fixture(t, nil)
	for seed := range uint64(10) {
		a, b := played(c, s, seed), played(c, other, seed)
		if a.text() != b.text() {
			t.Fatalf("world %d twice:\n%s\nand\n%s", seed, a.text(), b.text())
		}
	}
}

// TestEveryCrashPoint walks each class, with an inquiry and without, through each
// outcome of its first attempt, and has each loss happen at each point of that way.
func TestEveryCrashPoint(t *testing.T) {
	t.Parallel()
	type way struct {
		class   jobs.Idempotency
		asked   bool
		outcome int
	}
	kinds := outcomes
	if !long {
		kinds = outcomes[:shortOutcomes]
	}
	var ways []way
	for _, class := range jobs.Idempotencies {
		for _, asked := range []bool{false, true} {
			for i := range kinds {
				ways = append(ways, way{class, asked, i})
			}
		}
	}
	var mu sync.Mutex // guards points, runs
	points, runs := 0, map[loss]int{}
	took := each(t, len(ways), nil, func(c *setup, s *store, i int) bool {
		wy := ways[i]
		play := func(l loss, at int) *script {
			sc := &script{first: outcomes[wy.outcome].plan, loss: l, at: at}
			if w := cycle(c, s, wy.class, wy.asked, sc); len(w.harm) > 0 {
				t.Errorf("%s, inquiry %v, %s, %s: %s\n%s", wy.class, wy.asked, outcomes[wy.outcome].name, sc, w.harm[0], w.text())
			}
			mu.Lock()
			defer mu.Unlock()
			runs[l]++
			return sc
		}
		whole := play(nothing, 0)
		mu.Lock()
		points += len(whole.points)
		mu.Unlock()
		for at := range whole.points {
			for _, l := range lossesAt(whole.points[at]) {
				play(l, at+1)
			}
		}
		return t.Failed()
	})
	text := ""
	for _, l := range losses {
		text += fmt.Sprintf(", %s %d", l, runs[l])
	}
	t.Logf("%d ways with %d points%s: in %s", len(ways), points, text, took.Round(time.Millisecond))
}
