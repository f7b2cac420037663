package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"redrive/internal/attempt"
	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/httpapi"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/otlp"
	"redrive/internal/tracing"
	"redrive/internal/worker"
)

func (p *program) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Redeliver until SIGTERM, SIGINT or SIGHUP; a second signal stops at once, still without losing anything",
		Args:  cobra.NoArgs,
		RunE: p.begin(func(c *cobra.Command, _ []string) error {
			return p.redeliver(c.Context())
		}),
	}
}

// redeliver starts the parts in their order and takes them down in the opposite
// one, whatever stops it. Redis is looked at before anything is written to it.
func (p *program) redeliver(ctx context.Context) (err error) {
	asked, stopSignals := p.signals()
	defer stopSignals()

	c, err := p.open()
	if err != nil {
		return err
	}
	if err := c.ResolveSecrets(p.getenv); err != nil {
		return err
	}
	log := newLogger(p.stderr, c.Log, p.getenv)
	for _, w := range c.Warnings() {
		log.LogAttrs(ctx, slog.LevelWarn, "configuration", slog.String("why", w))
	}

	starting, abort := context.WithCancel(ctx)
	defer abort()
	tracer, stopTracing, err := otlp.Start(ctx, otlp.Options{Program: "redrive-worker", Version: build().version, GetenvFunc: p.getenv, Log: log})
	if err != nil {
		return err
	}
	defer stopTracing() // after all that has spans has ended
	u := &unit{program: p, config: c, log: log, tracer: tracer}
	defer func() { err = errors.Join(err, u.tearDown()) }()
	started := make(chan error, 1) // the goroutine below sends once
	go func() { started <- u.start(starting) }()
	select {
	case err = <-started:
	case <-asked:
		abort()
		err = <-started
		log.LogAttrs(ctx, slog.LevelInfo, "asked to stop before the start was over")
	case <-ctx.Done():
		err = <-started
	}
	if errors.Is(err, context.Canceled) {
		return nil // asked for
	}
	if err != nil {
		return err
	}

	select {
	case <-asked:
	case <-ctx.Done():
	case <-starting.Done(): // aborted when all had started already
	}
	u.stop(asked)
	return nil
}

// unit is a worker with all that it needs, as one process runs it.
type unit struct {
	program *program
	config  *config.Config
	log     *slog.Logger
	tracer  *tracing.Tracer
	worker  *worker.Worker
	started atomic.Bool // the worker has: its kinds are published

	undo []func() error // last first
}

func (u *unit) later(undo func() error) { u.undo = append(u.undo, undo) }

func (u *unit) tearDown() error {
	var errs []error
	for _, undo := range slices.Backward(u.undo) {
		errs = append(errs, undo())
	}
	u.undo = nil
	return errors.Join(errs...)
}

// connections is how many Redis connections a client of this worker may need: one
// for each slot, and some for what runs beside them.
func (u *unit) connections() int {
	n := 10
	for _, d := range u.config.Dependencies {
		n += d.Slots
	}
	return min(n, 200)
}

func (u *unit) start(ctx context.Context) error {
	rdb, name, err := u.connect()
	if err != nil {
		return err
	}
	options := fitnessOptions(u.config)
	report, err := u.program.awaitRedis(ctx, rdb, name, options, u.log)
	if err != nil {
		return err
	}
	queue, _, err := u.connect()
	if err != nil {
		return err
	}
	b := build()
	m := metrics.New(metrics.Options{Version: b.version, Revision: b.revision, Schema: ledger.Schema, Log: u.log})
	watch := &fitnessWatch{rdb: rdb, options: options, metrics: m, log: u.log}
	watch.saw(ctx, report)

	l := ledger.New(rdb, u.config.Redis.Namespace)
	m.ObserveLedger(ledgerState(l))
	u.worker, err = worker.New(worker.Options{Ledger: l, Queue: queue, Config: u.config,
		Sender: gateway.New(gateway.Options{UserAgent: "redrive/" + b.version}), Headers: attempt.Headers(u.config, u.program.getenv),
		Metrics: m, Log: u.log, Tracer: u.tracer, Version: b.version})
	if err != nil {
		return err
	}
	if err := u.serve(m, watch); err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, u.program.redisPatience)
	defer cancel()
	if err := u.worker.Start(starting); err != nil {
		return explainStart(name, err)
	}
	u.later(func() error { u.worker.Stop(); return nil })
	u.started.Store(true)
	u.background(func(ctx context.Context) { watch.run(ctx, u.program.fitnessEvery) })
	u.log.LogAttrs(ctx, slog.LevelInfo, "redelivering", slog.String("worker", u.worker.ID()), slog.String("version", b.version), slog.String("redis", strings.TrimPrefix(name, "redis ")),
		slog.String("namespace", u.config.Redis.Namespace), slog.String("durability", string(u.config.Redis.Durability)),
		slog.Any("dependencies", slices.Sorted(maps.Keys(u.config.Dependencies))), slog.Any("kinds", slices.Sorted(maps.Keys(u.config.Kinds))))
	return nil
}

func (u *unit) connect() (redis.UniversalClient, string, error) {
	rdb, name, err := u.program.connect(u.config, ledger.ConnectOptions{PoolSize: u.connections()})
	if err != nil {
		return nil, "", err
	}
	u.later(rdb.Close)
	return rdb, name, nil
}

// serve shows health, metrics and the API: before the worker starts, so that a port
// that is taken stops the program before it has taken any work.
func (u *unit) serve(m *metrics.Metrics, watch *fitnessWatch) error {
	certificate, err := httpapi.LoadTLS(u.config.TLS, u.log)
	if err != nil {
		return err
	}
	// The API has connections of its own: a crowd there must not keep a slot waiting.
	rdb, _, err := u.program.connect(u.config, ledger.ConnectOptions{PoolSize: min(httpapi.Connections(u.config.API), 200)})
	if err != nil {
		return err
	}
	u.later(rdb.Close)
	l, err := listen(u.config.Listen, "listen, --listen or "+config.EnvListen)
	if err != nil {
		return err
	}
	server := httpapi.Serve(l, httpapi.Options{
		AliveFunc: u.worker.Alive,
		ReadyFunc: func() []string { return append(u.worker.Ready(), watch.reasons()...) },
		Metrics:   m.Handler(),
		API: &httpapi.API{Ledger: ledger.New(rdb, u.config.Redis.Namespace), Kinds: u.config.KindSpecs(), Tokens: u.config.Tokens, Limits: u.config.API,
			FitFunc: func() []string { return u.unfit(watch) }, Version: build().version},
		TLS: certificate,
		Log: u.log,
	})
	u.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return server.Close(ctx)
	})
	u.log.LogAttrs(context.Background(), slog.LevelInfo, "serving health, metrics and the API", slog.String("listen", l.Addr().String()), slog.String("api", server.Access()))
	return nil
}

// unfit is why no operation may be taken in now.
func (u *unit) unfit(watch *fitnessWatch) []string {
	if !u.started.Load() {
		return []string{"the worker is starting: its kinds are not published yet"}
	}
	return watch.reasons()
}

// background runs do until the unit is taken down, which waits for it.
func (u *unit) background(do func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { do(ctx) })
	u.later(func() error {
		cancel()
		running.Wait()
		return nil
	})
}

// stop stops the worker in order; one more signal shortens that.
func (u *unit) stop(asked <-chan os.Signal) {
	stopped := make(chan struct{}) // closed by the goroutine below
	go func() {
		defer close(stopped)
		u.worker.Stop()
	}()
	select {
	case <-stopped:
	case s := <-asked:
		u.log.LogAttrs(context.Background(), slog.LevelWarn, "asked again: stopping now, running attempts become unknown", slog.String("signal", fmt.Sprint(s)))
		u.worker.StopNow()
		<-stopped
	}
}
