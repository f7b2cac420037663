package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	// redisPatience is how long the start waits for a Redis that is away, loading or
	// full: a machine that boots starts both at once.
	redisPatience = 30 * time.Second
	lookTimeout   = 5 * time.Second // of one look at Redis

	firstPause, maxPause = 250 * time.Millisecond, 5 * time.Second
)

// redisName says which Redis is meant, without user and password.
func redisName(url string) string {
	o, err := redis.ParseURL(url)
	if err != nil {
		return "redis"
	}
	if o.Network == "unix" {
		return "redis " + o.Addr
	}
	return fmt.Sprintf("redis %s/%d", o.Addr, o.DB)
}

// connect returns a client for the configured Redis and its name for people. It
// does not dial.
func (p *program) connect(c *config.Config, o ledger.ConnectOptions) (rdb redis.UniversalClient, name string, err error) {
	url, err := c.Redis.ResolveURL(p.getenv)
	if err != nil {
		return nil, "", err
	}
	rdb, err = ledger.Connect(url, o)
	return rdb, redisName(url), err
}

func fitnessOptions(c *config.Config) ledger.FitnessOptions {
	o := ledger.FitnessOptions{Durability: string(c.Redis.Durability), AssumeMaxmemoryPolicy: c.Redis.Assume.MaxmemoryPolicy,
		AssumePersistence: c.Redis.Assume.Persistence, WaitReplicas: c.Redis.WaitReplicas}
	for _, k := range c.Kinds {
		o.UnsafeKinds = o.UnsafeKinds || k.Idempotency == jobs.IdempotencyNone || k.Idempotency == jobs.IdempotencyConditional
	}
	return o
}

// look is one look at Redis.
func look(ctx context.Context, rdb redis.UniversalClient, o ledger.FitnessOptions) (ledger.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return ledger.Fitness(ctx, rdb, o)
}

// awaitRedis looks at Redis until it is fit, and gives up at once where waiting
// cannot help, else after the program's patience.
func (p *program) awaitRedis(ctx context.Context, rdb redis.UniversalClient, name string, o ledger.FitnessOptions, log *slog.Logger) (ledger.Report, error) {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		report, err := look(ctx, rdb, o)
		why, passing := unfit(report, err)
		switch {
		case why == "":
			return report, nil
		case ctx.Err() != nil:
			return report, ctx.Err()
		case !passing:
			return report, fmt.Errorf("%s: %s", name, why)
		case time.Since(began)+pause > p.redisPatience:
			return report, fmt.Errorf("%s: %s (tried for %s)", name, why, time.Since(began).Round(time.Second))
		}
		log.LogAttrs(ctx, slog.LevelWarn, "redis is not usable yet, trying again", slog.String("redis", strings.TrimPrefix(name, "redis ")), slog.String("why", why), slog.Duration("in", pause))
		select {
		case <-ctx.Done():
			return report, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// unfit says in one line why Redis cannot be used, and whether that may pass.
func unfit(report ledger.Report, err error) (why string, passing bool) {
	if err != nil {
		return ledger.Explain(err), ledger.Passing(err)
	}
	passing = true
	var texts []string
	for _, f := range report.Refusals() {
		texts = append(texts, f.Text)
		passing = passing && f.Passing
	}
	return strings.Join(texts, "; "), passing
}

// explainStart turns what a worker met at its start into one line. What is wrong
// with the namespace explains itself; the rest is Redis'.
func explainStart(name string, err error) error {
	var binding *ledger.BindingError
	switch {
	case errors.As(err, &binding):
		return binding
	case errors.Is(err, ledger.ErrNewerSchema), errors.Is(err, ledger.ErrOlderWorkers):
		return errors.Unwrap(err) // without the worker's random name
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%s: %s", name, ledger.Explain(err))
}

// listen binds an address. hint says how another one is chosen.
func listen(addr, hint string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	if addressInUse(err) {
		return nil, fmt.Errorf("listen on %s: the port is in use: end what listens there, or choose another with %s", addr, hint)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // net's own "listen tcp ADDR:" would stand there twice
	}
	return nil, fmt.Errorf("listen on %s: %w", addr, err)
}
