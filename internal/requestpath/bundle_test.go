package requestpath

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/luascript"
	"redrive/internal/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dep = jobs.Dependency("payrail")

// tell is a gate of which the tokens tell how many first attempts it has heard of: one
// for each, none for anything else.
var tell = budget.Params{RatioMilli: 1000, Cap: 1_000_000_000}

// fate is what becomes of one flush.
type fate int

const (
	arrives     fate = iota
	requestLost      // not applied; the caller sees an error
	replyLost        // applied; the caller sees an error
	hangs            // not applied; the caller sees its own deadline
)

var errLost = errors.New("connection lost")

// link is the Redis client of one process, over which flushes meet their fates.
type link struct {
	redis.UniversalClient

	mu      sync.Mutex // guards fate, flushes
	fate    func(n int) fate
	flushes []string // what each said, in order, whatever its fate
}

var _ luascript.Runner = (*link)(nil)

// RunScript implements [luascript.Runner].
func (l *link) RunScript(ctx context.Context, s *luascript.Script, key string, args *luascript.Args) (luascript.Reply, error) {
	l.mu.Lock()
	said := map[string]string{}
	words := s.Command(ctx, key, []*luascript.Args{args}).Args()[5:]
	for i := 0; i+1 < len(words); i += 2 {
		said[fmt.Sprint(words[i])] = fmt.Sprint(words[i+1])
	}
	l.flushes = append(l.flushes, fmt.Sprintf("%s: %s ok %s failed %s timed_out %s", key, said["seq"], said["ok"], said["failed"], said["timed_out"]))
	what := arrives
	if l.fate != nil {
		what = l.fate(len(l.flushes))
	}
	l.mu.Unlock()
	switch what {
	case requestLost:
		return nil, errLost
	case hangs:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r, err := s.Run(ctx, l.UniversalClient, key, args)
	if what == replyLost && err == nil {
		return nil, errLost
	}
	return r, err
}

// meets sets the fate of the flushes to come; n counts them from 1.
func (l *link) meets(f func(n int) fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fate = f
}

func (l *link) said() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.flushes...)
}

// logged is a log that goroutines may write while a test reads it.
type logged struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// bundle is a Recorder whose gates tell what they have heard.
type bundle struct {
	testing.TB
	*Recorder
	link    *link
	gates   *ledger.Ledger // beside the link, so that the test always gets through
	log     *logged
	metrics *metrics.Metrics
}

// setup makes a Recorder that is not started yet.
func setup(t testing.TB, client redis.UniversalClient, o Options) *bundle {
	t.Helper()
	b := &bundle{TB: t, link: &link{UniversalClient: client}, gates: ledger.New(client, "test"), log: &logged{}, metrics: metrics.New(metrics.Options{})}
	b.metrics.Declare([]jobs.Dependency{dep}, nil)
	b.worker(dep)
	o.Log, o.CountFunc = slog.New(slog.NewTextHandler(b.log, nil)), b.metrics.FirstAttempts
	var err error
	if b.Recorder, err = New(ledger.New(b.link, "test"), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}

// worker lets a worker ask once, so that the gate knows its parameters.
func (b *bundle) worker(dep jobs.Dependency) {
	b.Helper()
	if _, err := b.gates.Release(context.Background(), ledger.Terms{Dependency: dep, Gate: tell}, nil, 0); err != nil {
		b.Fatal(err)
	}
}

// heard is how many first attempts the gate of d has counted.
func (b *bundle) heard(d jobs.Dependency) int64 {
	b.Helper()
	g, err := b.gates.Gate(context.Background(), d)
	if err != nil {
		b.Fatal(err)
	}
	if g.Gate.TokensMilli%1000 != 0 {
		b.Fatalf("%d thousandths of a token: the test's gate is no counter", g.Gate.TokensMilli)
	}
	return g.Gate.TokensMilli / 1000
}

func (b *bundle) record(n int, result metrics.Result) {
	for range n {
		b.Record(dep, result)
	}
}

// inMemory is a client of a miniredis without a socket, fit for a bubble. end closes
// it before the bubble ends.
func inMemory() (client redis.UniversalClient, end func()) {
	m := miniredis.NewMiniRedis()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, Protocol: 2, DisableIdentity: true, PoolSize: 10, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return m.Dial() }})
	return c, func() { _ = c.Close() }
}

// firstAttempts is redrive_first_attempts_total of the test's dependency, by result.
func (b *bundle) firstAttempts(result metrics.Result) float64 {
	b.Helper()
	families, err := b.metrics.Gatherer().Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "redrive_first_attempts_total" && m.Label[0].GetValue() == string(dep) && m.Label[1].GetValue() == string(result) {
				return m.Counter.GetValue()
			}
		}
	}
	b.Fatalf("no counter of first attempts that ended %s", result)
	return 0
}

// eventually polls ok for up to ten seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10s: %s", what)
		}
	}
}
