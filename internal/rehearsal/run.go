package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/sandbox"
	"redrive/internal/worker"
)

// What one rehearsal can carry: everything is played in this process, and miniredis
// interprets every script.
const (
	MaxOperations = 10_000
	MaxInMemory   = 1_000 // with the store in memory
)

// Options say what is played.
type Options struct {
	Operations int          // 1 to [MaxOperations]
	Fault      sandbox.Mode // how the gateway misbehaves
	Seed       uint64       // of everything that is drawn
	Workers    int          // at least 1: workers of this process, each with its own slots
	Store      StoreChoice

	// ShowFunc is told how it goes, some times a second, from one goroutine. nil:
	// nobody watches.
	ShowFunc func(Progress)
	Log      *slog.Logger // what the parts have to say; nil: silent

	// Metrics count what the workers and the request path do; nil: nobody looks.
	Metrics *metrics.Metrics
	// LedgerFunc is given the ledger before the first worker starts, for whoever shows
	// its state. It can be read until Run returns. nil: nobody shows it.
	LedgerFunc func(*ledger.Ledger)

	// For tests: senderFunc wraps the client that workers send with, to break
	// promises by it; noBreaker leaves the breaker closed; course makes it shorter (zero: [wholeCourse]); noInquiry:
	// nobody can be asked about payouts either; evidenceFunc is shown what the
	// judge looks at.
	senderFunc   func(worker.Sender) worker.Sender
	noBreaker    bool
	course       course
	noInquiry    bool
	evidenceFunc func(Evidence)
}

// course is how long the parts of a rehearsal take. Everything is short, so that it
// ends within a minute: no operation outlives its deadline, and nothing is waited
// for after that.
type course struct {
	trickle  time.Duration // over which what was never attempted is handed over
	fault    time.Duration // the fault that was asked for goes on after that
	deadline time.Duration // of the kinds
	grace    time.Duration // after the last deadline; what has not ended then never will, says the judge
}

var wholeCourse = course{trickle: 2 * time.Second, fault: 3 * time.Second, deadline: 40 * time.Second, grace: 10 * time.Second}

// Progress is how far a rehearsal is.
type Progress struct {
	Elapsed   time.Duration
	Store     string
	Total     int // operations that there will be
	Handed    int // of them handed over so far
	States    map[jobs.State]int64
	Fault     sandbox.Mode // in force now
	FaultLeft time.Duration
	Requests  int     // that reached the gateway
	Effects   int     // that the gateway counts
	Tokens    float64 // retry tokens left, as last written
}

// Ended is how many operations came to an end.
func (p Progress) Ended() int {
	n := int64(0)
	for state, count := range p.States {
		if state.Ended() {
			n += count
		}
	}
	return int(n)
}

const (
	version                      = "demo" // of the workers, as they show it
	dependency   jobs.Dependency = "payrail"
	slots                        = 16
	inquirySlots                 = slots / 4              // what a worker makes of them
	timeout                      = 600 * time.Millisecond // of one call
	watchEvery                   = 200 * time.Millisecond
	// settleWithin is for the gateway's last side effects, of calls that were given up.
	settleWithin = sandbox.StormPatience + 5*time.Second
)

// Run plays a rehearsal and judges it. It blocks until everything has ended, which
// takes less than about a minute; when ctx ends first it stops everything in order
// and returns ctx's error. An error means that it could not be played, not that
// a promise was broken.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if o.Operations < 1 || o.Operations > MaxOperations {
		return nil, fmt.Errorf("operations %d: want 1 to %d", o.Operations, MaxOperations)
	}
	if o.Workers < 1 {
		return nil, fmt.Errorf("workers %d: want at least 1", o.Workers)
	}
	mode, err := sandbox.ParseMode(string(o.Fault))
	if err != nil {
		return nil, err
	}
	o.Fault = mode
	if o.course == (course{}) {
		o.course = wholeCourse
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(metrics.Options{Version: version, Schema: ledger.Schema})
	}
	s := &stage{o: o, began: time.Now(), draw: orderSource(o.Seed)}
	defer func() { // deferred: a panic must not leave a redis-server behind
		if undone := s.tearDown(); undone != nil {
			err = errors.Join(err, undone)
		}
	}()
	if err = s.build(ctx); err == nil {
		report, err = s.play(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // whatever it cut short says so in words of its own
	}
	return report, err
}

// play hands everything over, waits until it has ended and judges.
func (s *stage) play(ctx context.Context) (*Report, error) {
	handing, stopHanding := context.WithCancel(ctx)
	handed := make(chan error, 1) // the goroutine below sends once
	var shop sync.WaitGroup
	shop.Go(func() { handed <- s.handOver(handing) })
	err := s.watch(ctx, handed)
	stopHanding() // nothing to stop unless watch gave up
	shop.Wait()
	if err != nil {
		return nil, err
	}
	for _, w := range s.workers {
		w.Stop()
	}
	return s.judge()
}

// handOver is the request path's day: an outage of its own first, then the fault
// that was asked for while the rest is handed over.
func (s *stage) handOver(ctx context.Context) error {
	orders := drawOrders(s.o.Operations, s.draw)
	by := map[way][]Order{}
	for _, order := range orders {
		by[order.way] = append(by[order.way], order)
	}
	shoppers := min(max(s.o.Operations/10, 8), 500)
	for _, incident := range []struct {
		way   way
		fault sandbox.Fault
	}{{timedOut, silence(s.o.Fault)}, {refused, sandbox.Fault{Mode: sandbox.RateLimit, PerSecond: 0.001}}} {
		if err := s.gateway.SetFault(incident.fault); err != nil {
			return err
		}
		if err := s.path.attempt(ctx, by[incident.way], shoppers); err != nil {
			return err
		}
	}
	rest := by[neverAttempted]
	// What was answered on the request path after all makes room for others.
	_, settled := s.path.accounts()
	for i := range settled {
		rest = append(rest, drawOrder(s.o.Operations+i, neverAttempted, s.draw))
	}
	if err := s.gateway.SetFault(sandbox.Fault{Mode: s.o.Fault}); err != nil {
		return err
	}
	if err := s.path.trickle(ctx, rest, s.o.course.trickle); err != nil {
		return err
	}
	// It heals some seconds after the last was handed over, however long that took.
	return s.gateway.SetFault(sandbox.Fault{Mode: s.o.Fault, For: s.o.course.fault})
}

// silence is the outage in which the request path's calls get no usable answer: of
// the sort that was asked for where that sort can be silent, else a slow gateway.
func silence(asked sandbox.Mode) sandbox.Fault {
	always := 1.0
	switch asked {
	case sandbox.Down, sandbox.LostReplies, sandbox.Garbage:
		return sandbox.Fault{Mode: asked, Share: &always}
	case sandbox.Flaky:
		return sandbox.Fault{Mode: sandbox.LostReplies, Share: &always}
	}
	// Slower than the request path's patience even at its fastest, a quarter of that.
	return sandbox.Fault{Mode: sandbox.Slow, Latency: 5 * patience}
}

// watch shows how it goes until every operation has ended, or the time is over:
// what has not ended then is for the judge.
func (s *stage) watch(ctx context.Context, handed <-chan error) error {
	var over <-chan time.Time // set once all is handed over
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	allHanded := false
	for {
		select {
		case err := <-handed:
			if err != nil {
				return err
			}
			allHanded = true
			over = time.After(s.o.course.deadline + s.o.course.grace)
			continue
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var p Progress
		if err := persist(ctx, func() (err error) { p, err = s.progress(ctx); return err }); err != nil {
			return err
		}
		if s.o.ShowFunc != nil {
			s.o.ShowFunc(p)
		}
		if allHanded && p.Ended() >= p.Handed {
			return nil
		}
	}
}

func (s *stage) progress(ctx context.Context) (Progress, error) {
	snapshot, err := s.ledger.Snapshot(ctx, dependency)
	if err != nil {
		return Progress{}, err
	}
	handed, _ := s.path.accounts()
	fault := s.gateway.Fault()
	p := Progress{Elapsed: time.Since(s.began), Store: s.store.name, Total: s.o.Operations, Handed: len(handed), States: map[jobs.State]int64{},
		Fault: fault.Mode, FaultLeft: fault.For, Requests: s.door.count(), Effects: s.gateway.Stats().SideEffects,
		Tokens: max(float64(snapshot.TokensMilli)/1000, 0)}
	for _, c := range snapshot.Counts {
		p.States[c.State] += c.N
	}
	return p, nil
}

// judge waits until the gateway has nothing under way any more, then asks for both
// accounts.
func (s *stage) judge() (*Report, error) {
	took := time.Since(s.began)
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	if err := s.door.settled(ctx); err != nil {
		return nil, err
	}
	var page ledger.Page
	err := persist(ctx, func() (err error) {
		page, err = s.ledger.List(ctx, ledger.Filter{Dependencies: []jobs.Dependency{dependency}}, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	handed, settled := s.path.accounts()
	d := s.config.Dependencies[dependency]
	gate, err := s.ledger.Gate(ctx, dependency)
	if err != nil {
		return nil, err
	}
	e := Evidence{Orders: handed, Settled: settled, Ledger: s.gateway.Ledger(), Arrivals: s.door.all(), Operations: page.Items, Took: took,
		Limits: Limits{Cap: d.Budget.Cap, Ratio: float64(d.Budget.RatioMilli) / 1000, FloorPerSecond: float64(d.Budget.FloorMilliPerSecond) / 1000,
			LanePerSecond: float64(d.Drain.MaxMilliPerSecond) / 1000, Probes: int64(d.Breaker.Probes) * (gate.Gate.Generation + 1) / 2,
			Slots: d.Slots * s.o.Workers, InquirySlots: inquirySlots * s.o.Workers, Timeout: d.Timeout}}
	if s.o.evidenceFunc != nil {
		s.o.evidenceFunc(e)
	}
	r := Judge(e)
	r.Store, r.Fault, r.Seed = s.store.name+": "+s.store.note, string(s.o.Fault), s.o.Seed
	return &r, nil
}
