package outage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"redrive/internal/rehearsal"
	"redrive/internal/sandbox"
)

// Options say what is rehearsed.
type Options struct {
	Scenario Scenario // as [Find] returns it
	Speed    float64  // seconds of the scenario in one of the wall, 1 to [MaxSpeed]; 0: the scenario's own
	Seed     uint64   // of the orders, the gateways' draws, and every jitter that is drawn here
	Store    rehearsal.StoreChoice

	// Against is the URL of a sandbox to play against instead of those of this process;
	// "": these. As there is one of it, redrive alone is played. It must be on this
	// machine or stand in Allow, and its ledger must be empty. Calls reach it through a
	// door on the loopback, which counts them.
	Against string
	Allow   []string // hosts, or host:port

	// ShowFunc is told how it goes, once a second of the scenario, from one goroutine. nil:
	// nobody watches.
	ShowFunc func(Progress)
	Log      *slog.Logger // what the parts have to say; nil: silent
}

// MaxSpeed is the fastest at which the clients' timeout is still more than the machine's
// own pauses.
const MaxSpeed = float64(timeout / minimum)

const (
	// drainFor is how long, by the wall, the backlog may take to leave after the last
	// customer.
	drainFor = time.Minute
	// settleWithin is for the gateway's last side effects, of calls that were given up.
	settleWithin = 15 * time.Second
	// startIn is until the first customer may come.
	startIn = 300 * time.Millisecond
)

func (o Options) check() (Options, error) {
	if len(o.Scenario.Parts) < 3 || len(o.Scenario.faults) != len(o.Scenario.Parts) {
		return o, errors.New("options: Scenario is none of those that Find returns")
	}
	if o.Speed == 0 {
		o.Speed = o.Scenario.Speed
	}
	if !(o.Speed >= 1 && o.Speed <= MaxSpeed) {
		return o, fmt.Errorf("speed %v: want 1 to %v", o.Speed, MaxSpeed)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Against != "" {
		return o, checkAgainst(o.Against, o.Allow)
	}
	return o, nil
}

// stage is everything that a rehearsal is played with.
type stage struct {
	o        Options
	scenario *Scenario
	clock    clock
	orders   []order
	shops    []*shop
	redrive  *redrive

	undo []func() error // last first
}

func (s *stage) later(undo func() error) { s.undo = append(s.undo, undo) }

func (s *stage) tearDown() error {
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i]())
	}
	s.undo = nil
	return errors.Join(errs...)
}

// Run plays a scenario and says what came of it. It blocks until all is over, which
// takes the length of the scenario divided by the speed, and at most a minute and a half
// more. When ctx ends first it stops everything in order and returns ctx's error. An
// error means that it could not be played; a target that is missed is none.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if o, err = o.check(); err != nil {
		return nil, err
	}
	s := &stage{o: o, scenario: &o.Scenario, clock: clock{speed: o.Speed}}
	defer func() { // deferred: a panic must not leave a redis-server behind
		if undone := s.tearDown(); undone != nil {
			report, err = nil, errors.Join(err, undone)
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

// build sets up the shops. The clock begins to run when it returns.
func (s *stage) build(ctx context.Context) error {
	clients := Clients
	if s.o.Against != "" {
		clients = []Client{Redrive}
	}
	s.clock.began = time.Now() // of what is built; play starts it anew
	s.orders = drawOrders(s.scenario, "order-", rand.New(rand.NewPCG(s.o.Seed, 1)))
	for _, name := range clients {
		sh := &shop{name: name, visits: make([]visit, len(s.orders)), answers: &answers{refused: map[string]time.Duration{}}}
		if err := s.openGateway(ctx, sh); err != nil {
			return err
		}
		sh.door = &door{gateway: sh.gateway}
		direct := func() *till { return newTill("http://gateway", s.clock.wall(timeout), direct{sh.door}, sh.answers) }
		switch name {
		case Naive:
			sh.client = &stubborn{till: direct(), layers: []int{naiveTries}}
		case Stacked:
			sh.client = &stubborn{till: direct(), layers: []int{stackedIn, stackedIn, stackedIn}}
		case Redrive:
			url, err := s.serve(sh)
			if err != nil {
				return err
			}
			s.redrive, err = newRedrive(ctx, s.scenario, s.o, s.clock, url, sh.answers)
			s.later(s.redrive.close)
			if err != nil {
				return err
			}
			sh.client = s.redrive
		}
		s.shops = append(s.shops, sh)
	}
	return s.fault(ctx, s.scenario.faults[0])
}

func (s *stage) openGateway(ctx context.Context, sh *shop) error {
	if s.o.Against == "" {
		sh.gateway = local{sandbox.New(sandbox.Options{Seed: s.o.Seed, Logger: s.o.Log})}
	} else {
		r, err := newRemote(ctx, s.o.Against)
		if err != nil {
			return err
		}
		sh.gateway = r
	}
	s.later(func() error { sh.gateway.close(); return nil })
	return nil
}

// serve puts a gateway behind its door, on a free port of the loopback.
func (s *stage) serve(sh *shop) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("start the gateway of %s: %w", sh.name, err)
	}
	server := &http.Server{Handler: sh.door, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug)}
	served := make(chan error, 1) // Serve's goroutine sends once, when the server is closed
	go func() { served <- server.Serve(l) }()
	s.later(func() error {
		err := server.Close()
		if served := <-served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("gateway of %s: %w", sh.name, served))
		}
		return err
	})
	return "http://" + l.Addr().String(), nil
}

// fault makes every gateway behave as f says on the scenario's clock.
func (s *stage) fault(ctx context.Context, f sandbox.Fault) error {
	f.Latency = s.clock.wall(f.Latency)
	f.PerSecond *= s.o.Speed
	for _, sh := range s.shops {
		if err := sh.gateway.setFault(ctx, f); err != nil {
			return fmt.Errorf("tell the gateway of %s to be %s: %w", sh.name, f.Mode, err)
		}
	}
	return nil
}

// play lets time run until the last customer has left and the backlog too.
func (s *stage) play(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.clock.began = time.Now().Add(startIn)
	s.redrive.clock = s.clock
	for _, sh := range s.shops {
		sh.door.clock, sh.answers.clock = s.clock, s.clock
	}
	var running sync.WaitGroup // both end with ctx
	left := make(chan struct{})
	running.Go(func() { // the gateways' weather, and the deployments
		if err := s.direct(ctx); err != nil {
			cancel(err)
		}
	})
	running.Go(func() { // the customers; closes left when the last has gone
		defer close(left)
		if err := open(ctx, s.clock, s.shops, s.orders); err != nil {
			cancel(err)
		}
	})
	samples, err := s.watch(ctx, left, s.scenario.end()+time.Duration(float64(drainFor)*s.o.Speed))
	if err != nil {
		cancel(err)
	}
	running.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.report(samples)
}

// direct does at its instant what happens to the gateways and to redrive's workers.
func (s *stage) direct(ctx context.Context) error {
	type scene struct {
		at     time.Duration
		doFunc func() error
	}
	var scenes []scene
	for i, part := range s.scenario.Parts[1:] {
		scenes = append(scenes, scene{part.From, func() error { return s.fault(ctx, s.scenario.faults[i+1]) }})
	}
	if s.scenario.gate.raised > 0 {
		scenes = append(scenes, scene{s.scenario.Parts[len(s.scenario.Parts)-1].From, func() error { return s.redrive.raise(ctx, s.scenario.gate.raised) }})
	}
	// Deployments lie within the outage, between its two faults.
	for i, d := range s.scenario.deploy {
		at := 1 + i
		scenes = append(scenes[:at], append([]scene{{d.at, func() error { return s.redrive.deploy(ctx, d) }}}, scenes[at:]...)...)
	}
	for _, sc := range scenes {
		if !s.clock.sleep(ctx, sc.at) {
			return nil // whoever ended it knows why
		}
		if err := sc.doFunc(); err != nil {
			return err
		}
	}
	return nil
}

// setting says what was configured, on the scenario's clock.
func (s *stage) setting() []Setting {
	sc := s.scenario
	breaker := "off, so that the budget alone is seen"
	if sc.gate.breaker {
		breaker = fmt.Sprintf("opens at 20 calls or more in %s of which half failed; open for %s, doubling to %s; %d probes; ramp %s",
			window, openFor, maxOpen, probes, ramp)
	}
	lane := ""
	if sc.gate.raised > 0 {
		lane = fmt.Sprintf(", which a person raises to %v by an override when the gateway has recovered", sc.gate.raised)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	settings := []Setting{
		{"timeout", timeout.String() + " for every call of every client"},
		{"orders", fmt.Sprintf("charges, %d a minute, under one idempotency key each, whoever sends them and however often; one in %d is one that the gateway refuses (400)", sc.PerMin, invalidOf)},
		{"gateway", "normal: median latency 180ms; a call that a fault does not hit is answered at once"},
		{"naive", fmt.Sprintf("calls up to %d times at once one after the other; the customer waits", naiveTries)},
		{"stacked", fmt.Sprintf("%d layers of %d tries each: %d calls at worst; the customer waits", stackedIn, stackedIn, stackedIn*stackedIn*stackedIn)},
		{"redrive", fmt.Sprintf("one call by the request path, whatever the breaker says; what fails is handed over to %d workers of %d slots", workers, slots)},
		{"budget", fmt.Sprintf("ratio %s, cap %d, floor %s a second", number(ratio), tokens, number(floor))},
		{"breaker", breaker},
		{"backoff", fmt.Sprintf("base %s, cap %s, full jitter", backoffBase, backoffCap)},
		{"drain lane", number(sc.gate.drain) + " a second at most" + lane},
		{"deadline", deadline.String()},
		{"real time", fmt.Sprintf("what does not run faster: the least wait of 100ms (here %s), a worker's lease of 4s and the timeout (here %s), the lane's growth by a twentieth a second (here each %s), Retry-After in whole seconds (here %s each)",
			s.scaled(100*time.Millisecond), s.scaled(4*time.Second), s.scaled(time.Second), s.scaled(time.Second))},
	}
	return settings
}

// scaled is a span of the wall on the scenario's clock.
func (s *stage) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.o.Speed).Round(100 * time.Millisecond)
}
