package redrive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"redrive/internal/attempt"
	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/requestpath"
	"redrive/internal/tracing"
)

// Mode says when [Client.Do] writes to the ledger.
type Mode int

// The modes.
const (
	// Durable writes the operation before it is sent, with a claim: a process that dies
	// between the send and the hand-over leaves an operation of unknown outcome, which is
	// asked about or sent again like a worker's. It costs two round trips to Redis.
	Durable Mode = iota
	// Light writes only what failed. It costs nothing while all goes well, and what it
	// risks is this: a process that dies after the send and before the hand-over leaves
	// no trace. Nobody redelivers that operation, and nobody knows whether it acted.
	Light
)

// WhenOpen says what [Client.Do] does while the breaker of its dependency is open, or
// the dependency is paused.
type WhenOpen int

// What there is to do.
const (
	Defer    WhenOpen = iota // hand the operation over unsent: it goes when the dependency is back
	FailFast                 // return [ErrOpen]: nothing is sent and nothing is kept
)

// Options are what a [Client] is made of. RedisURL or Redis is required.
type Options struct {
	RedisURL string // redis://, rediss:// or unix://; over at most 50 connections, three seconds for each answer
	// Redis is a client of one's own instead. It must not repeat commands by itself
	// (MaxRetries: -1) and should heed contexts (ContextTimeoutEnabled). It is not closed.
	Redis     redis.UniversalClient
	Namespace string // of the keys; "": that of ConfigFile, else redrive

	// ConfigFile is the worker's configuration file: dependencies, kinds and rules are
	// read from it. Secrets in it are needed only by who sends through [Attempt.Send].
	ConfigFile string
	// Dependencies and Kinds say the same in code. With neither these nor ConfigFile the
	// kinds are those that workers have published, whose rules are not known here.
	Dependencies []Dependency
	Kinds        []Kind

	Mode     Mode          // default Durable
	WhenOpen WhenOpen      // default Defer
	Reserve  time.Duration // of the caller's deadline, kept for the hand-over and an honest answer; 0: 200ms, below 0: none
	// Spool is a file for hand-overs that Redis did not take, of this client alone, which locks
	// it; "": none, and the error bears them alone. Where it cannot be locked, as on Windows,
	// [New] refuses it.
	Spool string

	// Name is that of the service, in audit and timeline, and who submitted what it hands
	// over: at most 64 bytes without control characters; "": service@host.
	Name string
	// Log is for what the client does beside its calls; nil: it logs nothing. go-redis tells
	// standard error of each connection that fails all the same, by a logger that it has once
	// for the whole process. That one is the service's: package logging of go-redis has Disable.
	Log *slog.Logger
	// Tracer makes a span for each submission and attempt; nil: none. A traceparent that is
	// given is stored and sent all the same.
	Tracer trace.TracerProvider
}

// Client hands operations over. All methods are safe for concurrent use. A service makes
// one and keeps it.
type Client struct {
	o      Options
	rdb    redis.UniversalClient
	ownRDB bool
	ledger *ledger.Ledger
	config *config.Config // nil: kinds are those that workers published
	send   *gateway.Client
	header attempt.HeaderFunc
	tracer *tracing.Tracer
	path   *requestpath.Recorder
	spool  *spool // nil: none
	late   *late
	hub    *hub
	budget *denials
	clock  clock
	again  lookAgain
	random func() float64
	// goneFunc is [gateway.Gone]; tests let time pass by it.
	goneFunc func(since time.Time) time.Duration

	underway  *underway
	closing   sync.Once
	closeWait time.Duration // for calls under way; tests have less patience
	checking  chan struct{} // capacity 1: who holds it makes sure that Redis is fit

	mu       sync.Mutex // guards the rest
	specs    map[jobs.Kind]jobs.KindSpec
	replicas *ledger.Ledger // the ledger that waits for as many replicas as are asked for
	checked  bool           // Redis was there and is fit
}

const (
	defaultReserve = 200 * time.Millisecond
	// readyWithin is how long New waits for Redis where it can do without: the first
	// operations would have to be written ahead in the time that is left.
	readyWithin = time.Second
)

// New makes a client and starts what it runs beside: it counts first attempts for the
// shared budget, delivers the spool, and follows events while somebody waits. [Client.Close]
// ends all that. A Redis that is away, or not fit, is an error only where the kinds are the
// workers' published ones; else New waits a second for it at most, and what needs it looks
// again. Kinds that are published later are known once [Client.Call] or a [Client.Transport] has
// looked for a dependency that was not. An error is a kind that is bound to
// another dependency, which has operations of it. ctx bounds New alone. Errors name the
// option that is wrong.
func New(ctx context.Context, o Options) (*Client, error) {
	if ctx == nil {
		return nil, errors.New("redrive: ctx is nil")
	}
	c, err := build(o)
	if err != nil {
		return nil, fmt.Errorf("redrive: %w", err)
	}
	if err := c.readyAtFirst(ctx); err != nil {
		c.close()
		return nil, fmt.Errorf("redrive: kinds: %w", err)
	}
	for _, dep := range c.dependencies() {
		c.path.State(dep) // asks, so that the first call knows
	}
	c.path.Start()
	c.late.start()
	if c.spool != nil {
		c.spool.start(c)
	}
	return c, nil
}

func build(o Options) (*Client, error) {
	o, c, err := o.settled()
	if err != nil {
		return nil, err
	}
	client := &Client{o: o, config: c, send: gateway.New(gateway.Options{UserAgent: "redrive-client"}), random: rand.Float64, goneFunc: gateway.Gone, budget: newDenials(), underway: newUnderway(), closeWait: closeWait, checking: make(chan struct{}, 1)}
	if o.Tracer != nil {
		client.tracer = tracing.New(o.Tracer)
	}
	client.rdb = o.Redis
	if client.rdb == nil {
		client.ownRDB = true
		if client.rdb, err = ledger.Connect(o.RedisURL, ledger.ConnectOptions{PoolSize: 50, Timeout: 3 * time.Second, DialOnce: true}); err != nil {
			return nil, err
		}
	}
	client.ledger = ledger.New(client.rdb, o.Namespace)
	client.replicas = client.ledger
	if o.Spool != "" {
		if client.spool, err = openSpool(o.Spool, o.Log); err != nil {
			client.close()
			return nil, err
		}
	}
	client.header = func(dep jobs.Dependency, credential string) (http.Header, error) {
		if c == nil {
			return nil, errors.New("nothing is known here of its headers: name ConfigFile or Dependencies, or send by your own client")
		}
		return attempt.Headers(c, os.Getenv)(dep, credential)
	}
	spare := gates(c)
	if client.path, err = requestpath.New(client.ledger, requestpath.Options{Process: o.Name, Spare: spare, Log: o.Log}); err != nil {
		client.close()
		return nil, err
	}
	client.late, client.hub = newLate(client), newHub(client)
	if c != nil {
		client.specs = specsOf(c)
	}
	return client, nil
}

// settled fills in what is not given, and refuses what cannot work.
func (o Options) settled() (Options, *config.Config, error) {
	if (o.RedisURL == "") == (o.Redis == nil) {
		return o, nil, errors.New("options: give RedisURL or Redis")
	}
	if own, ok := o.Redis.(*redis.Client); ok && own.Options().MaxRetries != 0 {
		// go-redis turns -1 into 0 when the client is made.
		return o, nil, errors.New("options: Redis repeats commands by itself: make it with MaxRetries: -1, a repeated begin is a second send")
	}
	switch o.Redis.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return o, nil, fmt.Errorf("options: Redis is a %T, which sends a command again to another node: give a client of one server, or of its sentinels", o.Redis)
	}
	if o.Mode != Durable && o.Mode != Light || o.WhenOpen != Defer && o.WhenOpen != FailFast {
		return o, nil, errors.New("options: unknown Mode or WhenOpen")
	}
	c, err := o.configuration()
	if err != nil {
		return o, nil, err
	}
	if o.Namespace == "" {
		o.Namespace = config.Default().Redis.Namespace
		if c != nil {
			o.Namespace = c.Redis.Namespace
		}
	}
	if err := jobs.CheckNamespace(o.Namespace); err != nil {
		return o, nil, fmt.Errorf("options: Namespace: %w", err)
	}
	if o.Reserve == 0 {
		o.Reserve = defaultReserve
	}
	o.Reserve = max(o.Reserve, 0)
	if o.Name == "" {
		o.Name = "service"
		if host, err := os.Hostname(); err == nil {
			o.Name = jobs.CutBy(o.Name + "@" + host)
		}
	}
	if err := jobs.CheckBy(o.Name); err != nil {
		return o, nil, fmt.Errorf("options: Name: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, c, nil
}

// ready makes sure, once, that Redis is there, fit to keep operations and of our schema,
// and that the kinds are bound.
func (c *Client) ready(ctx context.Context) error {
	if c.isReady() {
		return nil
	}
	select { // one looks for all; who waits does so no longer than it may
	case c.checking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.checking }()
	if c.isReady() {
		return nil
	}
	if err := c.clock.read(ctx, c); err != nil {
		return err
	}
	if err := c.ledger.CheckSchema(ctx); err != nil {
		return err
	}
	report, err := ledger.Fitness(ctx, c.rdb, c.fitness())
	if err != nil {
		return err
	}
	if why := report.Refusals(); len(why) > 0 {
		texts := make([]string, len(why))
		for i, f := range why {
			texts[i] = f.Text
		}
		return fmt.Errorf("redis is not fit to keep operations: %s", strings.Join(texts, "; "))
	}
	published, err := c.ledger.Kinds(ctx)
	if err != nil {
		return err
	}
	specs, wait := published, replicasOf(published)
	if c.config != nil {
		specs, wait = specsOf(c.config), c.config.Redis.WaitReplicas
		for name, spec := range specs {
			if old, ok := published[name]; ok && spec.BaseURL == "" && old.Dependency == spec.Dependency {
				spec.BaseURL = old.BaseURL // the workers know what is a secret here
				specs[name] = spec
			}
		}
		if err := c.ledger.BindKinds(ctx, slices.Collect(maps.Values(specs))); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.specs, c.replicas, c.checked = specs, c.ledger.WaitingFor(wait), true
	return nil
}

// readyAtFirst is ready for New.
func (c *Client) readyAtFirst(ctx context.Context) error {
	if c.config == nil {
		return c.ready(ctx)
	}
	try, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err := c.ready(try)
	if bound := new(ledger.BindingError); errors.As(err, &bound) {
		return err // no waiting helps
	}
	if err != nil {
		c.o.Log.WarnContext(ctx, "redis cannot be used yet", "err", err)
	}
	return nil
}

func (c *Client) isReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checked
}

func (c *Client) fitness() ledger.FitnessOptions {
	o := ledger.FitnessOptions{Durability: ledger.DurabilityVolatile}
	if c.config == nil {
		return o // the workers hold it to what they are configured with
	}
	o.Durability = string(c.config.Redis.Durability)
	o.AssumeMaxmemoryPolicy, o.AssumePersistence = c.config.Redis.Assume.MaxmemoryPolicy, c.config.Redis.Assume.Persistence
	o.WaitReplicas = c.config.Redis.WaitReplicas
	for _, k := range c.config.Kinds {
		o.UnsafeKinds = o.UnsafeKinds || k.Idempotency == jobs.IdempotencyNone || k.Idempotency == jobs.IdempotencyConditional
	}
	return o
}

// store is the ledger whose promises count, once it is known to be fit.
func (c *Client) store(ctx context.Context) (*ledger.Ledger, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas, nil
}

// spec returns a kind as it is known here.
func (c *Client) spec(name string) (jobs.KindSpec, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spec, ok := c.specs[jobs.Kind(name)]
	if !ok {
		known := slices.Sorted(maps.Keys(c.specs))
		return spec, fmt.Errorf("unknown kind %q (known are %v)", name, known)
	}
	return spec, nil
}

// dependencies are those of all known kinds, sorted.
func (c *Client) dependencies() []jobs.Dependency {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[jobs.Dependency]bool{}
	for _, spec := range c.specs {
		seen[spec.Dependency] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func (c *Client) who(note string) ledger.Actor { return ledger.Actor{By: c.o.Name, Note: note} }
