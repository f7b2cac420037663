package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
)

// atRedis is the ledger itself, with what a configuration file or the workers say of kinds.
type atRedis struct {
	p      *program
	config *config.Config
	found  bool // a configuration file was read
	client redis.UniversalClient
	ledger *ledger.Ledger

	op *operator.Operator

	known map[jobs.Kind]jobs.KindSpec // of every kind that the file or the workers know
	ours  map[jobs.Kind]jobs.KindSpec // the kinds that can be submitted to: the file's, else the workers'
}

// access says what a command does to the ledger.
type access bool

const (
	reads  access = false
	writes access = true
)

// replyTimeout is how long one reply of Redis may take. Longer than a worker's: a
// person or a script waits, no slot does, and giving up leaves an answer in doubt.
const replyTimeout = 10 * time.Second

// openRedis connects to the ledger and reads the kinds. The caller closes it.
func (p *program) openRedis(ctx context.Context, a access) (*atRedis, error) {
	if a == writes {
		if err := p.checkBy(); err != nil {
			return nil, err
		}
	}
	c, found, err := config.Open(p.flags.config, config.Overrides{RedisURL: p.flags.redis, Namespace: p.flags.namespace}, p.getenv)
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	address, err := c.Redis.ResolveURL(p.getenv)
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	client, err := ledger.Connect(address, ledger.ConnectOptions{Timeout: replyTimeout})
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	p.store = "redis at " + withoutPassword(address)
	s := &atRedis{p: p, config: c, found: found, client: client, ledger: ledger.New(client, c.Redis.Namespace).WaitingFor(c.Redis.WaitReplicas)}
	check := s.ledger.CheckNewerSchema
	if a == writes {
		check = s.ledger.CheckSchema
	}
	if err := check(ctx); err != nil {
		s.close()
		return nil, err
	}
	if err := s.readKinds(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *atRedis) close() {
	_ = s.client.Close() // nothing of ours is under way: each call waits for its reply
}

func (s *atRedis) where() string { return "in namespace " + s.ledger.Namespace() }

func (s *atRedis) now(ctx context.Context) (time.Time, error) { return s.op.Now(ctx) }

func (s *atRedis) dependencies(ctx context.Context) ([]jobs.Dependency, error) {
	return s.op.Dependencies(ctx)
}

// withoutPassword is what of a Redis URL may be shown.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the configured address"
	}
	where := u.Host
	if u.Scheme == "unix" {
		where = u.Path
	} else if u.Port() == "" {
		where += ":6379"
	}
	return where
}

// readKinds makes what acts on the ledger; it reads the kinds.
func (s *atRedis) readKinds(ctx context.Context) error {
	o := operator.Options{Hands: s.p.hands}
	if s.found {
		o.Kinds, o.Dependencies, o.Source = s.config.KindSpecs(), slices.Collect(maps.Keys(s.config.Dependencies)), s.config.Path
	}
	op, err := operator.New(ctx, s.ledger, o)
	if err != nil {
		return err
	}
	s.op, s.ledger, s.known, s.ours = op, op.Ledger(), op.Known(), op.Ours()
	return nil
}

// kind returns the kind to submit to. For a kind of the file it makes sure that
// its operations will be found.
func (s *atRedis) kind(ctx context.Context, name jobs.Kind) (jobs.KindSpec, error) {
	spec, err := s.op.Kind(ctx, name)
	var unknown *operator.UnknownKindError
	if errors.As(err, &unknown) {
		return spec, s.unknownKind(name)
	}
	return spec, err
}

func (s *atRedis) unknownKind(name jobs.Kind) error {
	if len(s.ours) == 0 {
		return &failure{exitError, fmt.Errorf("no kinds are known in namespace %q: start a worker once (it publishes its kinds), or name the configuration file with --config",
			s.ledger.Namespace())}
	}
	from := "published by the workers"
	if s.found {
		from = "in " + s.config.Path
	}
	return usagef("unknown kind %q: known are %s (%s)", name, join(slices.Sorted(maps.Keys(s.ours))), from)
}

func join[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

// fit refuses to hand operations to a Redis that would lose them. Only a file says
// how safe they must be; without one it must at least be able to hold them.
func (s *atRedis) fit(ctx context.Context) error {
	o := ledger.FitnessOptions{Durability: ledger.DurabilityVolatile}
	if s.found {
		o.Durability = string(s.config.Redis.Durability)
		o.AssumeMaxmemoryPolicy, o.AssumePersistence = s.config.Redis.Assume.MaxmemoryPolicy, s.config.Redis.Assume.Persistence
		o.WaitReplicas = s.config.Redis.WaitReplicas
		for _, k := range s.config.Kinds {
			o.UnsafeKinds = o.UnsafeKinds || k.Idempotency == jobs.IdempotencyNone || k.Idempotency == jobs.IdempotencyConditional
		}
	}
	report, err := ledger.Fitness(ctx, s.client, o)
	if err != nil {
		return err
	}
	refusals := report.Refusals()
	if len(refusals) == 0 {
		return nil
	}
	code := exitAgain
	texts := make([]string, len(refusals))
	for i, f := range refusals {
		texts[i] = f.Text
		if !f.Passing && f.Code != ledger.FindingRole { // a replica becomes the primary when another fails
			code = exitError
		}
	}
	return &failure{code, fmt.Errorf("%s is not fit to keep operations: %s", s.p.store, strings.Join(texts, "; "))}
}
