package requestpath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	// MaxDependencies is how many dependencies one Recorder counts for. A caller that
	// names more makes names up.
	MaxDependencies = 256
	// StopWithin bounds how long Stop tries to tell what is left.
	StopWithin = 2 * time.Second

	minFlushEvery = time.Millisecond
	maxFlushEvery = time.Second
	defaultKeep   = 10 * time.Second
	maxKeep       = time.Minute
	flushTimeout  = time.Second // of one flush: Redis answers in ms, or something is wrong
	drainPause    = 50 * time.Millisecond
)

// Options of a [Recorder]. The zero value is fit for use.
type Options struct {
	// Process is what this process is called among those that tell the gate; "": nothing.
	// Random digits are added, so that neither a namesake nor an earlier life of the
	// process is taken for it.
	Process string
	// Spare are the gate's parameters by dependency, for as long as no worker has ever
	// said its own: theirs win. A dependency that is missing here has the zero value.
	Spare map[jobs.Dependency]budget.Params
	// FlushEvery is the longest pause between two batches of a dependency; each is drawn
	// uniformly from a quarter of it to all of it. 0: a second, which is also the most:
	// the budget's bound allows for first attempts that are a second late.
	FlushEvery time.Duration
	// Keep is how long counts wait for a Redis that does not answer before they are
	// forgotten. 0: 10 s, the breaker's usual window; at least twice FlushEvery, at most a
	// minute. By as much may the budget's deposits be late, and only then.
	Keep time.Duration

	Log *slog.Logger // nil: silent
	// CountFunc is told what was recorded, some times a second, for first_attempts_total;
	// from one goroutine for each dependency. nil: it is counted nowhere.
	CountFunc func(dep jobs.Dependency, result jobs.Result, n int)
}

// withDefaults fills in what is 0, and refuses what cannot work.
func (o Options) withDefaults() (Options, error) {
	if o.FlushEvery == 0 {
		o.FlushEvery = maxFlushEvery
	}
	if o.Keep == 0 {
		o.Keep = defaultKeep
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.FlushEvery < minFlushEvery || o.FlushEvery > maxFlushEvery:
		return o, fmt.Errorf("request path options: FlushEvery is %s, must be %s to %s", o.FlushEvery, minFlushEvery, maxFlushEvery)
	case o.Keep < 2*o.FlushEvery || o.Keep > maxKeep: // what waits for its first flush must not be forgotten
		return o, fmt.Errorf("request path options: Keep is %s, must be twice FlushEvery (%s) to %s", o.Keep, 2*o.FlushEvery, maxKeep)
	}
	return o, nil
}

// Recorder tells the gates of the first attempts of one process. All methods are safe
// for concurrent use.
//
// Start and Stop are idempotent; Stop before Start is legal, and a stopped Recorder may
// be started again. What is recorded while it is not running is told once it runs, if
// that is within [Options.Keep].
type Recorder struct {
	ledger *ledger.Ledger
	o      Options

	tallies atomic.Pointer[map[jobs.Dependency]*tally] // copied for each new dependency, never changed
	beyond  atomic.Bool                                // a dependency beyond MaxDependencies was named

	life    sync.Mutex // held by Start and Stop, which waits
	mu      sync.Mutex // guards running, and tallies against two that replace them
	running *running   // nil while stopped

	trouble trouble
}

// running is one life between Start and Stop.
type running struct {
	stop   chan struct{} // closed by Stop, nothing is sent
	stopBy time.Time     // set before stop is closed: when telling ends
	wg     sync.WaitGroup
}

// State is the gate of a dependency as it last answered.
type State struct {
	Breaker budget.State
	Hold    jobs.Hold // why the gate lets nothing leave; none where it lets calls through
	// Until is when that may end; zero where Hold is none or nobody knows. After it a
	// caller should try: only results close a breaker.
	Until time.Time
	At    time.Time // when the answer arrived
}

// Age is how old the answer is.
func (s State) Age() time.Duration { return time.Since(s.At) }

// New checks the options. It starts nothing and does not talk to Redis. The ledger's
// client should heed contexts and not repeat commands by itself, as that of
// [ledger.Connect]; the caller closes it, after Stop.
func New(l *ledger.Ledger, o Options) (*Recorder, error) {
	if l == nil {
		return nil, errors.New("request path: the ledger is missing")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	o.Process = fmt.Sprintf("%s.%016x", o.Process, rand.Uint64())
	o.Spare = maps.Clone(o.Spare)
	r := &Recorder{ledger: l, o: o}
	r.tallies.Store(&map[jobs.Dependency]*tally{})
	return r, nil
}

// Record counts one first attempt that was sent to dep, by how it ended: a decline is
// ok, for the dependency worked. A result that stands in no list counts as failed. What
// was not sent must not be recorded, nor what a submission reports, unless that says
// that it is counted. It never blocks, whatever Redis does.
func (r *Recorder) Record(dep jobs.Dependency, result jobs.Result) {
	if t := r.tally(dep); t != nil {
		t.record(result)
	}
}

// State returns the last answer of dep's gate, and false before the first one. It does
// not block: asking makes the Recorder ask the gate with its next batch, so that the
// answer stays younger than about a second for as long as somebody asks.
func (r *Recorder) State(dep jobs.Dependency) (State, bool) {
	t := r.tally(dep)
	if t == nil {
		return State{}, false
	}
	t.asked.Store(true)
	if s := t.state.Load(); s != nil {
		return *s, true
	}
	return State{}, false
}

// tally returns the counters of a dependency; nil beyond MaxDependencies.
func (r *Recorder) tally(dep jobs.Dependency) *tally {
	if t := (*r.tallies.Load())[dep]; t != nil {
		return t
	}
	return r.add(dep)
}

func (r *Recorder) add(dep jobs.Dependency) *tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := *r.tallies.Load()
	if t := old[dep]; t != nil {
		return t
	}
	if len(old) == MaxDependencies {
		r.beyond.Store(true)
		return nil
	}
	t := &tally{dependency: dep, spare: r.o.Spare[dep], keep: r.o.Keep, collectedAt: time.Now()}
	tallies := maps.Clone(old)
	tallies[dep] = t
	r.tallies.Store(&tallies)
	if r.running != nil {
		r.report(r.running, t)
	}
	return t
}

// Start begins to tell the gates. It returns at once.
func (r *Recorder) Start() {
	r.life.Lock()
	defer r.life.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running != nil {
		return
	}
	r.running = &running{stop: make(chan struct{})}
	for _, t := range *r.tallies.Load() {
		r.report(r.running, t)
	}
}

// Stop tells what is left, for at most [StopWithin], and returns when nothing runs any
// more. What is recorded meanwhile may be left out.
func (r *Recorder) Stop() {
	r.life.Lock()
	defer r.life.Unlock()
	r.mu.Lock()
	life := r.running
	r.running = nil
	r.mu.Unlock()
	if life == nil {
		return
	}
	life.stopBy = time.Now().Add(StopWithin)
	close(life.stop)
	life.wg.Wait()
}

// report starts the goroutine that tells one dependency's gate. r.mu is held.
func (r *Recorder) report(life *running, t *tally) {
	life.wg.Go(func() { // ended by life.stop; Stop waits
		timer := time.NewTimer(r.pause())
		defer timer.Stop()
		for {
			select {
			case <-life.stop:
				r.drain(life, t)
				return
			case <-timer.C:
			}
			if r.beyond.CompareAndSwap(true, false) {
				r.trouble.tooMany(r.o.Log)
			}
			_ = r.flush(t, time.Now().Add(flushTimeout)) // it says so itself, and the next round tries again
			timer.Reset(r.pause())
		}
	})
}

func (r *Recorder) pause() time.Duration {
	least := r.o.FlushEvery / 4
	return least + rand.N(r.o.FlushEvery-least+1)
}

// drain flushes what is left.
func (r *Recorder) drain(life *running, t *tally) {
	for r.flush(t, life.stopBy) != nil && time.Now().Before(life.stopBy) {
		time.Sleep(min(drainPause, time.Until(life.stopBy)))
	}
	if n := t.sealed.counts.sum() + t.behind.counts.sum(); n > 0 {
		r.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "stopped before the gate heard of all first attempts",
			slog.String("dependency", string(t.dependency)), slog.Int64("unheard", n))
	}
}

// flush tells a gate what was counted, and reads its answer. It ends at by.
func (r *Recorder) flush(t *tally, by time.Time) error {
	r.count(t.dependency, t.collect(time.Now()))
	asked := t.asked.Swap(false)
	for ; t.seal(asked); asked = false {
		ctx, cancel := context.WithDeadline(context.Background(), by)
		answer, err := r.ledger.FirstAttempts(ctx, t.dependency, t.spare, t.firsts(r.o.Process, rand.Int64N(1001)))
		cancel()
		if err != nil {
			t.asked.Store(true)
			r.trouble.begins(r.o.Log, t, err)
			return err
		}
		t.answered(answer, time.Now())
		r.trouble.ends(r.o.Log, t)
		logNews(r.o.Log, t.dependency, answer.News)
	}
	return nil
}

// count counts what was collected, whether or not the gate hears of it.
func (r *Recorder) count(dep jobs.Dependency, c counts) {
	if r.o.CountFunc == nil {
		return
	}
	for i, result := range jobs.Results {
		if c[i] > 0 {
			r.o.CountFunc(dep, result, int(c[i]))
		}
	}
}
