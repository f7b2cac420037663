package outage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/budget"
	"redrive/internal/config"
	gatewayclient "redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/policy"
	"redrive/internal/rehearsal"
	"redrive/internal/requestpath"
	"redrive/internal/worker"
)

const (
	dependency jobs.Dependency = "payrail"
	kindCharge jobs.Kind       = "charge"
	customers                  = 256 // who may hand over at one instant without waiting for each other
)

// redrive is this system as a client: a request path that makes one call and hands over
// what failed, and real workers on a real store.
type redrive struct {
	clock   clock
	config  *config.Config
	store   *rehearsal.Store
	rdb     redis.UniversalClient
	ledger  *ledger.Ledger
	terms   ledger.SubmitTerms
	spec    jobs.KindSpec
	metrics *metrics.Metrics
	path    *requestpath.Recorder
	till    *till
	log     *slog.Logger
	seed    uint64

	mu      sync.Mutex // guards rand, delays, staff, hired
	rand    *rand.Rand
	delays  []delay // drawn for what was handed over
	staff   []*member
	hired   uint64 // workers that ever were
	backoff policy.Backoff
}

// member is a worker with connections to the store of its own, so that it can lose them.
type member struct {
	worker *worker.Worker
	rdb    []redis.UniversalClient
}

// newRedrive builds it against a gateway's address. What was begun is undone by close,
// also after an error.
func newRedrive(ctx context.Context, s *Scenario, o Options, c clock, baseURL string, read *answers) (*redrive, error) {
	r := &redrive{clock: c, log: o.Log, seed: o.Seed, rand: rand.New(rand.NewPCG(o.Seed, 2)),
		till:    newTill(baseURL, c.wall(timeout), sockets(), read),
		backoff: policy.Backoff{Base: c.wallMS(backoffBase), Cap: c.wallMS(backoffCap)},
		metrics: metrics.New(metrics.Options{Version: "rehearsal", Schema: ledger.Schema})}
	var err error
	if r.store, err = rehearsal.OpenStore(ctx, o.Store); err != nil {
		return r, err
	}
	if r.config, err = configure(s, c, r.store.URL(), baseURL); err != nil {
		return r, err
	}
	if r.rdb, err = ledger.Connect(r.store.URL(), ledger.ConnectOptions{PoolSize: customers}); err != nil {
		return r, err
	}
	r.ledger = ledger.New(r.rdb, r.config.Redis.Namespace)
	d, specs := r.config.Dependencies[dependency], r.config.KindSpecs()
	keep := r.config.Retention
	r.spec = specs[0]
	r.terms = ledger.SubmitTerms{MaxBacklog: d.MaxBacklog, ClaimLease: policy.ClaimLease(d.Timeout),
		Terms: ledger.Terms{Dependency: dependency, MinResponse: d.MinResponse, Gate: worker.GateParams(d),
			Retention: jobs.Retention{SucceededMS: keep.Succeeded.Milliseconds(), CancelledMS: keep.Cancelled.Milliseconds(), KeysMS: keep.Keys.Milliseconds()}}}
	for range workers {
		if err := r.hire(ctx); err != nil {
			return r, err
		}
	}
	if err := r.ledger.BindKinds(ctx, specs); err != nil {
		return r, err
	}
	told := max(c.wall(flushEvery), 20*time.Millisecond)
	if r.path, err = requestpath.New(r.ledger, requestpath.Options{Process: "shop", FlushEvery: told, Keep: max(c.wall(window), 2*told),
		Log: o.Log, CountFunc: r.metrics.FirstAttempts}); err != nil {
		return r, err
	}
	r.path.Start()
	return r, nil
}

// configure makes the configuration that a file would, each span as the wall has it.
func configure(s *Scenario, cl clock, storeURL, baseURL string) (*config.Config, error) {
	c := config.Default()
	c.Redis.URL, c.Redis.Durability = config.LiteralSecret(storeURL), config.DurabilityVolatile
	c.ShutdownGrace = cl.wallMS(timeout) + time.Second
	d := config.NewDependency(dependency, baseURL)
	d.Timeout, d.MinResponse, d.Slots, d.MaxInFlight = cl.wallMS(timeout), cl.wallMS(150*time.Millisecond), slots, 0
	d.Budget = config.Budget{RatioMilli: ratio * 1000, Cap: tokens, FloorMilliPerSecond: int64(floor * 1000 * cl.speed)}
	d.Drain.MaxMilliPerSecond = int64(s.gate.drain * 1000 * cl.speed)
	d.Breaker = config.Breaker{}
	if s.gate.breaker {
		d.Breaker = config.Breaker{Window: cl.wallMS(window), MinCalls: 20, FailureRateMilli: 500, Consecutive: 5, Open: cl.wallMS(openFor),
			MaxOpen: cl.wallMS(maxOpen), Probes: probes, Ramp: cl.wallMS(ramp)}
	}
	c.Dependencies[dependency] = d
	k := config.NewKind(kindCharge, d, "/v1/charges")
	k.Idempotency, k.MaxAttempts, k.Deadline = jobs.IdempotencyKeyed, 50, cl.wallMS(deadline)
	k.Backoff = config.Backoff{Base: cl.wallMS(backoffBase), Cap: cl.wallMS(backoffCap)}
	c.Kinds[kindCharge] = k
	q := config.NewInquiry(k, "/v1/charges?reference={key}")
	q.Settle, q.GiveUpAfter, q.AfterNotFoundDead = cl.wallMS(settle), k.Deadline, false
	q.Backoff = policy.Backoff{Base: cl.wallMS(5 * time.Second), Cap: cl.wallMS(backoffCap)}
	var err error
	q.Read, err = policy.CompileInquiry(policy.InquirySpec{Answers: []int{http.StatusOK},
		Succeeded: `body.data.exists(c, c.status == "succeeded")`, Failed: `size(body.data) > 0 && body.data.all(c, c.status == "failed")`,
		NotFound: `size(body.data) == 0`})
	k.Inquiry = q
	return c, err
}

// hire starts one more worker.
func (r *redrive) hire(ctx context.Context) error {
	m := &member{}
	for range 2 {
		rdb, err := ledger.Connect(r.store.URL(), ledger.ConnectOptions{PoolSize: 4 * slots})
		if err != nil {
			return errors.Join(err, m.dismiss())
		}
		m.rdb = append(m.rdb, rdb)
	}
	r.mu.Lock()
	n := r.hired
	r.hired++
	r.mu.Unlock()
	w, err := worker.New(worker.Options{Ledger: ledger.New(m.rdb[0], r.config.Redis.Namespace), Queue: m.rdb[1], Config: r.config,
		Sender: noted{gatewayclient.New(gatewayclient.Options{}), r.till.answers}, Metrics: r.metrics, Log: r.log, Rand: rand.New(rand.NewPCG(r.seed, 10+n)), Version: "rehearsal"})
	if err == nil {
		err = w.Start(ctx)
	}
	if err != nil {
		return errors.Join(err, m.dismiss())
	}
	m.worker = w
	r.mu.Lock()
	defer r.mu.Unlock()
	r.staff = append(r.staff, m)
	return nil
}

// dismiss stops a worker in order, as SIGTERM would.
func (m *member) dismiss() error {
	if m.worker != nil {
		m.worker.Stop()
	}
	return m.cut()
}

func (m *member) cut() error {
	var errs []error
	for _, rdb := range m.rdb {
		if err := rdb.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lose ends a worker as kill -9 would: nothing reaches the store any more, and what is
// under way is cut off.
func (m *member) lose() error {
	err := m.cut()
	m.worker.StopNow()
	return err
}

// deploy replaces the worker that has been here longest.
func (r *redrive) deploy(ctx context.Context, d deployment) error {
	r.mu.Lock()
	oldest := r.staff[0]
	r.staff = r.staff[1:]
	r.mu.Unlock()
	end := oldest.dismiss
	if d.crash {
		end = oldest.lose
		if err := r.awaitAttempt(ctx); err != nil {
			return errors.Join(err, end())
		}
	}
	if err := end(); err != nil {
		return fmt.Errorf("end a worker: %w", err)
	}
	return r.hire(ctx)
}

// awaitAttempt waits for an attempt to be under way, for half a minute at most: with
// an open breaker there are only probes.
func (r *redrive) awaitAttempt(ctx context.Context) error {
	for until := r.clock.now() + 30*time.Second; r.clock.now() < until; {
		var counts []ledger.Count
		err := persist(ctx, func() (err error) {
			counts, err = r.ledger.Counts(ctx, dependency)
			return err
		})
		if err != nil {
			return err
		}
		for _, c := range counts {
			if c.State == jobs.Attempting && c.N > 0 {
				return nil
			}
		}
		if !r.clock.sleep(ctx, r.clock.now()+r.clock.wall(50*time.Millisecond)) {
			return ctx.Err()
		}
	}
	return nil
}

// raise lets the backlog leave faster, as a person does by an override of the gate.
func (r *redrive) raise(ctx context.Context, perSecond float64) error {
	return persist(ctx, func() error {
		_, err := r.ledger.Override(ctx, dependency, map[string]int64{budget.OverrideDrain: int64(perSecond * 1000 * r.clock.speed)}, time.Hour,
			ledger.Actor{By: "rehearsal", Note: "the gateway has recovered"})
		return err
	})
}

// serve makes the request path's one call, and hands over what it could not finish.
func (r *redrive) serve(ctx context.Context, o *order) (fate, error) {
	at := time.Now()
	a := r.till.call(ctx, o)
	if ctx.Err() != nil {
		return waiting, ctx.Err()
	}
	if a.err == nil && a.status == http.StatusBadRequest {
		r.path.Record(dependency, metrics.ResultOK) // it works, and does not want this one
		return refused, nil
	}
	saw := rehearsal.SightOfAnswer(a.status, a.body, a.err)
	if a.err != nil && a.status == 0 {
		saw = rehearsal.SightOfError(a.err)
	}
	if saw.Outcome != jobs.OutcomeNotSent {
		r.path.Record(dependency, saw.Result)
	}
	switch {
	case saw.Settled && declined(a.status):
		return refused, nil
	case saw.Settled:
		return succeeded, nil
	}
	return handedOver, r.handOver(ctx, o, saw, at, hint(a))
}

// hint is the Retry-After of an answer, which this gateway gives in seconds.
func hint(a answer) time.Duration {
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func (r *redrive) handOver(ctx context.Context, o *order, saw rehearsal.Sight, at time.Time, hint time.Duration) error {
	e, err := ledger.Prepare(&jobs.Submission{Kind: kindCharge, Key: jobs.Key(o.reference), Body: o.body, CorrelationID: o.reference, IdempotencyKey: o.key(),
		Attempted: &jobs.Attempted{ID: o.reference, Outcome: saw.Outcome, Class: saw.Class, FirstSentAt: at.UTC().Format(time.RFC3339Nano), Counted: true}}, r.spec)
	if err != nil {
		return err
	}
	e.Delay = r.draw(hint)
	var receipts []jobs.Receipt
	err = persist(ctx, func() (err error) {
		receipts, err = r.ledger.Submit(ctx, r.terms, []ledger.Entry{e})
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("hand over: %w", err)
	case receipts[0].Answer == jobs.Accepted, receipts[0].Answer == jobs.Duplicate:
		return nil
	case receipts[0].Error != nil:
		return fmt.Errorf("hand over: %s: %s", receipts[0].Answer, *receipts[0].Error)
	}
	return fmt.Errorf("hand over: %s", receipts[0].Answer)
}

// persist does until it works: what is asked of the store here may be asked again, and
// a busy machine can keep it waiting.
func persist(ctx context.Context, doFunc func() error) error {
	const tries = 5
	var err error
	for range tries {
		if err = doFunc(); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// draw draws how long what was just called waits before it is sent again.
func (r *redrive) draw(hint time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.backoff.Delay(1, r.rand.Float64)
	if hint == 0 {
		r.delays = append(r.delays, delay{attempt: 1, drawn: d})
	}
	return policy.Wait(hint, d, r.rand.Float64)
}

// close ends everything, in order.
func (r *redrive) close() error {
	var errs []error
	r.mu.Lock()
	staff := r.staff
	r.staff = nil
	r.mu.Unlock()
	for _, m := range staff {
		errs = append(errs, m.dismiss())
	}
	if r.path != nil {
		r.path.Stop()
	}
	if r.rdb != nil {
		errs = append(errs, r.rdb.Close())
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	return errors.Join(errs...)
}
