package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// Schema is the number of the layout in Redis. A binary refuses a higher one.
const Schema = 1

// ErrNotFound is returned when no operation has the name.
var ErrNotFound = errors.New("no such operation")

// Ledger reads and changes the operations of one namespace. Safe for concurrent
// use. Its methods block for as long as ctx and the client's timeouts allow, and
// never repeat a call whose reply was lost: submit, begin and finish are
// idempotent (the same request, the same run id), so the caller may.
type Ledger struct {
	rdb       redis.UniversalClient
	namespace string
	replicas  int // that must have what is promised; 0: none
}

// New returns the ledger of a namespace. rdb should not retry by itself
// (MaxRetries: -1): a repeated begin must carry the same run id, which only the
// caller knows.
func New(rdb redis.UniversalClient, namespace string) *Ledger {
	return &Ledger{rdb: rdb, namespace: namespace}
}

// WaitingFor returns a ledger of the same namespace whose submissions, begins and
// people's actions are on n replicas before they count; 0: on none. Each of these
// calls then blocks for up to [luascript.ReplicaWait] more. The clients of both are
// the same.
func (l *Ledger) WaitingFor(n int) *Ledger {
	waiting := *l
	waiting.replicas = n
	return &waiting
}

// Client returns the Redis client that the ledger was made with.
func (l *Ledger) Client() redis.UniversalClient { return l.rdb }

// Namespace returns the prefix of every key.
func (l *Ledger) Namespace() string { return l.namespace }

// slot is KEYS[1] of every script: it names the dependency's hash slot.
func (l *Ledger) slot(dep jobs.Dependency) string {
	return l.namespace + ":{" + string(dep) + "}"
}

// key returns a key of the dependency.
func (l *Ledger) key(dep jobs.Dependency, name string) string { return l.slot(dep) + ":" + name }

// global returns a key outside any dependency.
func (l *Ledger) global(name string) string { return l.namespace + ":" + name }

// Terms are what the deciding process's configuration says about a dependency,
// passed with every call: they are read at each decision, not stored.
type Terms struct {
	Dependency  jobs.Dependency
	Gate        budget.Params // the zero value: those that a worker said last
	MinResponse time.Duration // no attempt with less time than this before the deadline
	Retention   jobs.Retention
	ClaimLease  time.Duration // from begin until an attempt counts as lost; 0: not known here

	// Seen is the highest count of attempts written ahead that this process has read
	// ([Release.Begins], [Grant.Begins]); 0: none yet. A store that counts fewer was
	// rolled back.
	Seen int64

	// Expect is where the caller expects Redis' clock to be; zero: it does not know.
	// [ErrClockStepped] when it is more than 2 s away from there.
	Expect time.Time
}

// ErrClockStepped is returned when Redis' clock is not where the caller expects it to
// be. Nothing was decided: neither leases nor deadlines can be trusted now.
var ErrClockStepped = errors.New("redis' clock is not where it was expected to be")

func expectArgs(a *luascript.Args, at time.Time) *luascript.Args {
	if !at.IsZero() {
		a.Int("expect", at.UnixMilli())
	}
	return a
}

// unstepped returns [ErrClockStepped] when the script decided nothing.
func unstepped(r luascript.Reply) error {
	if r.At(0) == "stepped" {
		return ErrClockStepped
	}
	return nil
}

// gateArgs adds the parameters of the gate, if the caller has any.
func (t Terms) gateArgs(a *luascript.Args) *luascript.Args {
	if t.Gate != (budget.Params{}) {
		t.Gate.Args(a)
	}
	return a
}

func (t Terms) args() *luascript.Args {
	a := new(luascript.Args)
	t.gateArgs(a).Int("min_response", t.MinResponse.Milliseconds())
	if t.Seen > 0 {
		a.Int("seen", t.Seen)
	}
	return retentionArgs(a, t.Retention)
}

func retentionArgs(a *luascript.Args, r jobs.Retention) *luascript.Args {
	return a.Int("keep_succeeded", r.SucceededMS).Int("keep_cancelled", r.CancelledMS)
}

// Target is what an attempt of a kind would be sent to and under, as the deciding
// process is configured. It must equal that of every unknown attempt before a
// resend is safe.
type Target struct {
	BaseURL     string
	Idempotency jobs.Idempotency // as configured; the weaker of it and the one at submission is in force
	KeyHeader   string           // header that carries the idempotency key; "" sends none
	KeyWindow   time.Duration    // how long the dependency remembers a key; 0: not known
	ClaimLease  time.Duration    // from begin until the attempt counts as lost
}

func (t Target) args(a *luascript.Args, class string) *luascript.Args {
	return a.Str(class, string(t.Idempotency)).Str("base", t.BaseURL).Str("keyheader", t.KeyHeader).
		Int("window", t.KeyWindow.Milliseconds()).Int("lease", t.ClaimLease.Milliseconds())
}

// Ended tells of one operation that a call moved to an end: for metrics, and for
// the one log line that every stop gets.
type Ended struct {
	ID            jobs.ID
	State         jobs.State
	Reason        jobs.Reason // "" unless State is dead
	Class         jobs.Class  // of the last attempt; "" when there was none
	Sends         int
	Inquiries     int
	CorrelationID string
}

func ended(r luascript.Reply, from int) []Ended {
	var out []Ended
	for i := from; i+1 < len(r); i++ {
		if r[i] != "ended" {
			continue
		}
		f := strings.SplitN(r[i+1], " ", 7)
		if len(f) == 7 {
			id, _ := jobs.ParseID(f[0])
			out = append(out, Ended{ID: id, State: jobs.State(f[1]), Reason: jobs.Reason(dash(f[2])), Class: jobs.Class(dash(f[3])),
				Sends: int(number(f[4])), Inquiries: int(number(f[5])), CorrelationID: dash(f[6])})
		}
		i++
	}
	return out
}

func dash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// unexpected is an answer that no script gives: the binary and the script differ.
func unexpected(name string, r luascript.Reply) error {
	return fmt.Errorf("script %s: unexpected answer %q", name, []string(r))
}
