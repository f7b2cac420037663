package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/sandbox"
	"redrive/internal/worker"
)

// stage is everything that a rehearsal is played with.
type stage struct {
	o     Options
	began time.Time
	draw  *rand.Rand // of the orders

	store   *store
	gateway *sandbox.Sandbox
	door    *door
	baseURL string
	config  *config.Config
	ledger  *ledger.Ledger
	workers []*worker.Worker
	path    *requestPath

	// What tearDown undoes, last first.
	undo []func() error
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

func (s *stage) build(ctx context.Context) error {
	var err error
	if s.store, err = openStore(ctx, s.o.Store); err != nil {
		return err
	}
	s.later(s.store.close)
	if s.store.memory && s.o.Operations > MaxInMemory {
		return fmt.Errorf("operations %d: a store in memory carries at most %d (%s)", s.o.Operations, MaxInMemory, s.store.note)
	}
	if err := s.openGateway(); err != nil {
		return err
	}
	if s.config, err = s.configure(); err != nil {
		return err
	}
	rdb, err := ledger.Connect(s.store.url, ledger.ConnectOptions{PoolSize: 4 * slots})
	if err != nil {
		return err
	}
	s.later(rdb.Close)
	s.ledger = ledger.New(rdb, s.config.Redis.Namespace)
	if s.o.LedgerFunc != nil {
		s.o.LedgerFunc(s.ledger)
	}
	for i := range s.o.Workers {
		if err := s.startWorker(ctx, uint64(i)); err != nil {
			return err
		}
	}
	s.o.Metrics.Slots(dependency, slots*s.o.Workers) // each has told of its own, and the process has them all
	d, specs := s.config.Dependencies[dependency], s.config.KindSpecs()
	if err := s.ledger.BindKinds(ctx, specs); err != nil {
		return err
	}
	s.path = newRequestPath(s.ledger, s.submitTerms(d), specs, s.baseURL, rand.New(rand.NewPCG(s.o.Seed, 2)), s.o.Metrics)
	return nil
}

// openGateway puts the sandbox behind the door on a free port of the loopback.
func (s *stage) openGateway() error {
	s.gateway = sandbox.New(sandbox.Options{Seed: s.o.Seed, Logger: s.o.Log})
	s.door = &door{gateway: s.gateway.Handler()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("start the sandbox gateway: %w", err)
	}
	s.baseURL = "http://" + l.Addr().String()
	server := &http.Server{Handler: s.door, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug)}
	served := make(chan error, 1) // Serve's goroutine sends once, when the server is closed
	go func() { served <- server.Serve(l) }()
	s.later(func() error {
		err := server.Close()
		s.gateway.Stop()
		if served := <-served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("sandbox gateway: %w", served))
		}
		return err
	})
	return nil
}

// configure makes the configuration that a file would.
func (s *stage) configure() (*config.Config, error) {
	c := config.Default()
	c.Redis.URL = config.LiteralSecret(s.store.url)
	c.Redis.Durability = config.DurabilityVolatile
	c.ShutdownGrace = timeout + time.Second
	d := config.NewDependency(dependency, s.baseURL)
	d.Timeout, d.MinResponse, d.Slots, d.MaxInFlight = timeout, 50*time.Millisecond, slots, 0
	// A backlog of all operations drains in fifteen seconds: nobody watches for longer.
	perSecond := max(int64(s.o.Operations)/15, 10)
	d.Budget = config.Budget{RatioMilli: 100, Cap: perSecond, FloorMilliPerSecond: perSecond * 1000}
	d.Drain.MaxMilliPerSecond = perSecond * 1000
	// The fault takes seconds, not minutes, and so does what follows it.
	d.Breaker = config.Breaker{Window: time.Second, MinCalls: 20, FailureRateMilli: 500, Consecutive: 8, Open: 400 * time.Millisecond,
		MaxOpen: 1600 * time.Millisecond, Probes: 3, Ramp: 2 * time.Second}
	if s.o.senderFunc != nil || s.o.noBreaker {
		d.Breaker.Consecutive, d.Breaker.MinCalls = 0, 1_000_000 // what is broken is met often
	}
	c.Dependencies[dependency] = d

	kind := func(name jobs.Kind, path string, class jobs.Idempotency, attempts int) *config.Kind {
		k := config.NewKind(name, d, path)
		k.Idempotency, k.MaxAttempts, k.Deadline = class, attempts, s.o.course.deadline
		k.Backoff = config.Backoff{Base: 200 * time.Millisecond, Cap: 2 * time.Second}
		c.Kinds[name] = k
		return k
	}
	kind(kindCharge, "/v1/charges", jobs.IdempotencyKeyed, 50)
	kind(kindVoid, "/v1/voids", jobs.IdempotencyNatural, 50)
	kind(kindTransfer, "/v1/charges", jobs.IdempotencyNone, 5).IdempotencyKey.Header = ""
	payout := kind(kindPayout, "/v1/charges", jobs.IdempotencyNone, 5)
	payout.IdempotencyKey.Header = ""
	if s.o.noInquiry {
		return c, nil
	}
	var err error
	payout.Inquiry, err = s.inquiry(payout)
	return c, err
}

// inquiry asks for all charges under the operation's key. What is surely not there is
// sent again: the gateway's lists do not lag, and settle covers its longest delay.
func (s *stage) inquiry(k *config.Kind) (*config.Inquiry, error) {
	q := config.NewInquiry(k, "/v1/charges?reference={key}")
	q.Settle, q.GiveUpAfter, q.AfterNotFoundDead = settleTime(s.o.Fault), s.o.course.deadline, false
	q.Backoff = policy.Backoff{Base: 500 * time.Millisecond, Cap: 2 * time.Second}
	var err error
	q.Read, err = policy.CompileInquiry(policy.InquirySpec{
		Answers:   []int{http.StatusOK},
		Succeeded: `body.data.exists(c, c.status == "succeeded")`,
		Failed:    `size(body.data) > 0 && body.data.all(c, c.status == "failed")`,
		NotFound:  `size(body.data) == 0`,
	})
	return q, err
}

// settleTime is the timeout and the longest after which the gateway still acts: at
// once, but in a storm.
func settleTime(fault sandbox.Mode) time.Duration {
	longest := 400 * time.Millisecond // a busy machine
	if fault == sandbox.Storm {
		longest += sandbox.StormPatience
	}
	return timeout + longest
}

func (s *stage) startWorker(ctx context.Context, n uint64) error {
	queue, err := ledger.Connect(s.store.url, ledger.ConnectOptions{PoolSize: 4 * slots})
	if err != nil {
		return err
	}
	s.later(queue.Close)
	var sender worker.Sender = gateway.New(gateway.Options{})
	if s.o.senderFunc != nil {
		sender = s.o.senderFunc(sender)
	}
	w, err := worker.New(worker.Options{Ledger: s.ledger, Queue: queue, Config: s.config, Sender: sender, Log: s.o.Log,
		Rand: rand.New(rand.NewPCG(s.o.Seed, 3+n)), Metrics: s.o.Metrics, Version: version})
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	s.later(func() error { w.Stop(); return nil })
	s.workers = append(s.workers, w)
	return nil
}

func (s *stage) submitTerms(d *config.Dependency) ledger.SubmitTerms {
	keep := s.config.Retention
	return ledger.SubmitTerms{
		Terms: ledger.Terms{Dependency: d.Name, MinResponse: d.MinResponse,
			Gate:      worker.GateParams(d),
			Retention: jobs.Retention{SucceededMS: keep.Succeeded.Milliseconds(), CancelledMS: keep.Cancelled.Milliseconds(), KeysMS: keep.Keys.Milliseconds()}},
		MaxBacklog: d.MaxBacklog, ClaimLease: policy.ClaimLease(d.Timeout),
	}
}
