package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"redrive/internal/attempt"
	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/tracing"
)

// Sender makes attempts and inquiries over the network. [gateway.Client] is the one
// that programs use. Send and Ask must end by itself within the call's timeout or soon after
// ctx is done; while it does not, the slot stays taken. A panic in it is caught and
// counts as an unknown outcome. Both are called from many goroutines at once.
type Sender interface {
	Send(ctx context.Context, call gateway.Call) gateway.Answer
	Ask(ctx context.Context, q gateway.Question) gateway.Answer
}

// Options are what a worker is made of.
type Options struct {
	// Ledger is where operations live. Its client must not repeat commands by
	// itself ([ledger.Connect] gives such a one). Required.
	Ledger *ledger.Ledger
	// Queue is the client that asynq works through, on the same Redis. It may be
	// the ledger's own; two keep one's slow moments from the other. Required. Both
	// are closed by the caller, after Stop.
	Queue redis.UniversalClient
	// Config says which dependencies and kinds this process serves. Its secrets
	// need not be resolved, its base URLs must be (see [config.Config.ResolveSecrets]).
	// Required, and not changed afterwards.
	Config *config.Config
	// Sender makes the calls. Required.
	Sender Sender

	Headers attempt.HeaderFunc // nil: those of Config, with secrets from the environment and from files
	Metrics *metrics.Metrics   // nil: counted and shown to nobody
	Log     *slog.Logger       // nil: silent
	Tracer  *tracing.Tracer    // nil: no traces; a stored traceparent is sent all the same
	Rand    *rand.Rand         // jitter and backoff; nil: seeded by the system. Not used by others meanwhile
	ID      string             // unique among live workers; "": host-pid-random
	Version string             // of the binary, for the heartbeat; "": unknown
}

func (o Options) validate() error {
	switch {
	case o.Ledger == nil:
		return errors.New("worker options: Ledger is missing")
	case o.Queue == nil:
		return errors.New("worker options: Queue is missing")
	case o.Config == nil:
		return errors.New("worker options: Config is missing")
	case o.Sender == nil:
		return errors.New("worker options: Sender is missing")
	case len(o.Config.Dependencies) == 0:
		return errors.New("worker options: Config names no dependency")
	}
	return nil
}

// Worker serves the dependencies of one configuration. Several may live in one
// process. All methods are safe for concurrent use.
//
// Start and Stop are idempotent: starting a running worker and stopping a stopped
// one do nothing. Stop before Start is legal, and a stopped worker may be started
// again. A Start that still waits for Redis is ended by its context, not by Stop.
type Worker struct {
	o    Options
	plan *plan

	starting sync.Mutex // held by Start, which may wait for Redis
	mu       sync.Mutex // guards run
	run      *run       // nil while stopped
}

// New checks the options. It starts nothing and does not talk to Redis.
func New(o Options) (*Worker, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Headers == nil {
		o.Headers = attempt.Headers(o.Config, os.Getenv)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(metrics.Options{Version: o.Version, Schema: ledger.Schema})
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if o.ID == "" {
		o.ID = newID()
	}
	p, err := newPlan(o.Config)
	if err != nil {
		return nil, err
	}
	o.Metrics.Declare(p.names(), p.bindings())
	return &Worker{o: o, plan: p}, nil
}

func newID() string {
	return hostname() + "-" + strconv.Itoa(os.Getpid()) + "-" + ledger.NewRunID()[:6]
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown-host"
	}
	return host
}

// ID returns the name under which the worker's heartbeat stands in Redis.
func (w *Worker) ID() string { return w.o.ID }

// Start makes the worker's kinds known and begins to redeliver. It blocks until
// Redis has answered, within ctx, and returns an error that says what is in the
// way: Redis does not answer or takes no writes, [ledger.ErrNewerSchema],
// [ledger.ErrOlderWorkers], or a [*ledger.BindingError]. Then nothing runs. Once
// started, the worker goes on until Stop whatever happens to Redis.
func (w *Worker) Start(ctx context.Context) error {
	w.starting.Lock()
	defer w.starting.Unlock()
	if w.current() != nil {
		return nil
	}
	r := newRun(w.o, w.plan)
	if err := r.start(ctx); err != nil {
		return fmt.Errorf("start worker %s: %w", w.o.ID, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run = r
	return nil
}

// Stop ends the worker in order and returns when it has ended: nothing more is
// released or begun, what is on the conveyor of this process is given back,
// running attempts may end within the configuration's shutdown grace. What runs
// then still is cancelled and written as unknown (or not sent, where that is
// certain). It takes at most the grace and two seconds.
func (w *Worker) Stop() { w.stop(false) }

// StopNow is Stop without the grace. It also shortens a Stop that is under way.
func (w *Worker) StopNow() { w.stop(true) }

func (w *Worker) stop(now bool) {
	r := w.current()
	if r == nil {
		return
	}
	r.stop(now)
	w.mu.Lock()
	if w.run == r {
		w.run = nil
	}
	w.mu.Unlock()
}

// Run is Start, then Stop once ctx is done. It returns what Start returned, and
// nil after a stop, also one that somebody else asked for.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	if r := w.current(); r != nil {
		select {
		case <-ctx.Done():
		case <-r.ended:
		}
	}
	w.Stop()
	return nil
}

func (w *Worker) current() *run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.run
}

// Ready returns the reasons why the worker cannot redeliver at this moment, fit to
// be shown; none means that it can. It does not block.
func (w *Worker) Ready() []string {
	r := w.current()
	if r == nil {
		return []string{"not started"}
	}
	return r.reasons()
}

// Alive returns an error when one of the worker's loops has stood still for so
// long that only a restart can help. Redis being away is no such reason. It does
// not block.
func (w *Worker) Alive() error {
	r := w.current()
	if r == nil {
		return nil
	}
	return r.alive()
}
