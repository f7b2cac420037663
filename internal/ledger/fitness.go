package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The durability levels that [FitnessOptions] knows, weakest first.
const (
	DurabilityVolatile = "volatile" // anything; said at every start
	DurabilityStandard = "standard" // noeviction, and persistence or a replica
	DurabilityStrict   = "strict"   // also refuses what can lose an acknowledged write, or cannot be read
)

// FitnessOptions say what is demanded of a Redis.
type FitnessOptions struct {
	Durability string // one of the levels above; anything else is an error

	// What a person vouches for where the server does not tell; "" assumes nothing.
	// What was read always wins.
	AssumeMaxmemoryPolicy string // in Redis' own words, such as noeviction
	AssumePersistence     string // none, rdb or aof; an assumed aof counts as appendfsync everysec

	// UnsafeKinds: operations of class none or conditional will be kept. A lost
	// write-ahead of one of those is a second effect, so strict demands more.
	UnsafeKinds bool

	// WaitReplicas is how many replicas the ledger waits for ([Ledger.WaitingFor]):
	// Redis must have so many, and refuse writes when it has not. 0: none.
	WaitReplicas int
}

// Source says where a fact about Redis comes from.
type Source string

// The sources, in the order in which they are asked.
const (
	FromInfo   Source = "INFO"
	FromConfig Source = "CONFIG GET"
	FromAssume Source = "assumed"
	Unread     Source = "" // nobody told
)

// Fact is one thing that was looked at.
type Fact struct {
	Name  string // such as maxmemory-policy
	Value string // "" when unread
	From  Source
	Why   string // with Unread: why it could not be read
}

// Finding is something that is wrong with a Redis, or that a person should know.
type Finding struct {
	Code    FindingCode
	Refuses bool   // the level does not allow it; else it is a warning
	Passing bool   // it can pass by itself (loading, memory full): worth waiting for
	Text    string // one line: what is so, and what would be right
}

// FindingCode names a sort of finding.
type FindingCode string

// The codes.
const (
	FindingVersion     FindingCode = "version"
	FindingMode        FindingCode = "mode"
	FindingRole        FindingCode = "role"
	FindingLoading     FindingCode = "loading"
	FindingFull        FindingCode = "full"
	FindingEviction    FindingCode = "eviction"
	FindingPersistence FindingCode = "persistence"
	FindingReplica     FindingCode = "replica"
	FindingWait        FindingCode = "wait_replicas"
	FindingUnread      FindingCode = "unread"
	FindingVolatile    FindingCode = "volatile"
)

// Report is what a preflight found.
type Report struct {
	Facts    []Fact
	Findings []Finding // refusals first
}

// Fit reports whether the level allows what was found.
func (r Report) Fit() bool { return len(r.Refusals()) == 0 }

// Refusals returns the findings that the level does not allow.
func (r Report) Refusals() []Finding { return r.pick(true) }

// Warnings returns the findings that the level allows.
func (r Report) Warnings() []Finding { return r.pick(false) }

func (r Report) pick(refuses bool) []Finding {
	var out []Finding
	for _, f := range r.Findings {
		if f.Refuses == refuses {
			out = append(out, f)
		}
	}
	return out
}

// Fitness looks at how safe operations are in the Redis behind rdb: its version,
// role, memory, eviction, persistence and replicas. It asks INFO, then CONFIG GET,
// then what is assumed, and names what nobody tells; it writes nothing. It takes
// two round trips. An error means that it could not be looked at (see [Explain]),
// not that it is unfit.
func Fitness(ctx context.Context, rdb redis.UniversalClient, o FitnessOptions) (Report, error) {
	switch o.Durability {
	case DurabilityVolatile, DurabilityStandard, DurabilityStrict:
	default:
		return Report{}, fmt.Errorf("unknown durability %q: want one of %s, %s, %s", o.Durability, DurabilityVolatile, DurabilityStandard, DurabilityStrict)
	}
	asked := askedConfig
	if o.WaitReplicas > 0 {
		asked = append(slices.Clone(asked), minReplicas, minReplicasLag)
	}
	r, err := readRedis(ctx, rdb, asked)
	if err != nil {
		return Report{}, fmt.Errorf("look at redis: %w", err)
	}
	return r.judge(o), nil
}

// redisWords is what a server said of itself.
type redisWords struct {
	info   map[string]string
	config map[string]string
	// Why nothing is in them; "" when the server answered.
	noInfo, noConfig string
}

// askedConfig are the parameters that INFO does not tell on every server.
var askedConfig = []string{"maxmemory-policy", "appendonly", "appendfsync", "save"}

func readRedis(ctx context.Context, rdb redis.UniversalClient, asked []string) (redisWords, error) {
	w := redisWords{info: map[string]string{}, config: map[string]string{}}
	text, err := rdb.Info(ctx).Result()
	if w.noInfo, err = notAllowed("INFO", err); err != nil {
		return w, err
	}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			w.info[name] = value
		}
	}
	pipe := rdb.Pipeline() // one parameter a call: several at once need Redis 7
	answers := make([]*redis.MapStringStringCmd, len(asked))
	for i, name := range asked {
		answers[i] = pipe.ConfigGet(ctx, name)
	}
	_, err = pipe.Exec(ctx)
	if w.noConfig, err = notAllowed("CONFIG", err); err != nil {
		return w, err
	}
	for i, name := range asked {
		if value, ok := answers[i].Val()[name]; ok {
			w.config[name] = value
		}
	}
	return w, nil
}

// notAllowed tells a server that refuses the command (it is renamed, or the user
// may not) from one that cannot be asked now.
func notAllowed(command string, err error) (why string, other error) {
	switch ReplyCode(err) {
	case "ERR", "NOPERM":
		return command + " is not allowed here", nil
	}
	return "", err
}

// Value returns the value of a fact by its name; "" when it was not read.
func (r Report) Value(name string) string {
	for _, f := range r.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}
