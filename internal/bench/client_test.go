package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"redrive"
	"redrive/internal/config"
	"redrive/internal/httpapi"
	"redrive/internal/redistest"
)

// rounds is how often what has no peer is measured: the best round counts, because a
// machine that is shared can only slow it down.
const rounds = 5

// client is a service's: its dependency is never called.
func client(b *testing.B, server *redistest.Redis, mode redrive.Mode) *redrive.Client {
	b.Helper()
	c, err := redrive.New(b.Context(), redrive.Options{RedisURL: "unix://" + server.Socket(), Namespace: fmt.Sprintf("b%d", namespaces.Add(1)), Mode: mode,
		Dependencies: []redrive.Dependency{{Name: "payrail", BaseURL: "http://127.0.0.1:1"}},
		Kinds:        []redrive.Kind{{Name: "charge", Dependency: "payrail", Path: "/v1/charges", Class: redrive.Keyed}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func charge(i int) redrive.Operation {
	key := fmt.Sprintf("order-%08d", i)
	return redrive.Operation{Kind: "charge", Key: key, Body: fmt.Appendf(nil, `{"amount":4200,"currency":"GBP","reference":%q}`, key)}
}

// each is the least time, and the allocations, of one of n calls in turn.
func each(n int, do func(i int)) (least time.Duration, allocations uint64) {
	least = math.MaxInt64
	for round := range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		for i := range n {
			do(round*n + i)
		}
		least = min(least, time.Since(began)/time.Duration(n))
		runtime.ReadMemStats(&after)
		allocations = (after.Mallocs - before.Mallocs) / uint64(n)
	}
	return least, allocations
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// BenchmarkDo: what the client adds to a call that succeeds.
func BenchmarkDo(b *testing.B) {
	server := server(b)
	nothing := func(context.Context, *redrive.Attempt) (redrive.Reply, error) {
		return redrive.Reply{Status: http.StatusCreated, Body: []byte(`{"id":"ch_1"}`)}, nil
	}
	measure := func(mode redrive.Mode, n int) (time.Duration, uint64) {
		c := client(b, server, mode)
		return each(n, func(i int) {
			if _, err := c.Do(b.Context(), charge(i), nothing); err != nil {
				b.Fatal(err)
			}
		})
	}
	took, allocations := measure(redrive.Light, 20_000)
	record(b, "Do in light mode adds to a success", fmt.Sprintf("%.1f us, %d allocations, no round trip", micros(took), allocations), "<= 20 us", met(took <= 20*time.Microsecond))
	const durable = 2_000
	rdb := connect(b, server)
	before := redisCPU(b, rdb)
	took, allocations = measure(redrive.Durable, durable)
	redis := (redisCPU(b, rdb) - before) / (rounds * durable) * 1e6
	record(b, "Do in durable mode adds to a success", fmt.Sprintf("%.0f us, %d allocations, 2 round trips (%.0f us CPU of Redis)", micros(took), allocations, redis), "", nil)
}

// BenchmarkCallRefused: what a read costs that fails while the budget is used up.
func BenchmarkCallRefused(b *testing.B) {
	server := server(b)
	bundle := setup(b, server, 1, "budget: {ratio: 0, floor_per_second: 0.001, cap: 1}, breaker: {min_calls: 1000000, consecutive: 0}")
	file := filepath.Join(b.TempDir(), "redrive.yaml")
	if err := os.WriteFile(file, []byte(bundle.text), 0o600); err != nil {
		b.Fatal(err)
	}
	c, err := redrive.New(b.Context(), redrive.Options{RedisURL: "unix://" + server.Socket(), ConfigFile: file})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	took, allocations := each(100_000, func(int) {
		_, err := c.Call(b.Context(), "d0", func(context.Context) (redrive.Reply, error) {
			return redrive.Reply{Status: http.StatusInternalServerError}, nil
		})
		var stopped *redrive.Stopped
		if !errors.As(err, &stopped) || stopped.Reason != redrive.StopBudget {
			b.Fatal(err)
		}
	})
	record(b, "Call that the used-up budget stops", fmt.Sprintf("%.1f us, %d allocations; Redis is asked once a second", micros(took), allocations), "us, not ms", met(took <= 100*time.Microsecond))
}

// taken is the best rate at which n operations are taken in, and the least CPU that Redis
// and this process need for one.
func taken(b *testing.B, server *redistest.Redis, n int, take func(round int)) (perSecond float64, costs string) {
	b.Helper()
	rdb := connect(b, server)
	redis, own := math.Inf(1), math.Inf(1)
	for round := range rounds {
		redisBefore, ownBefore := redisCPU(b, rdb), processCPU(b)
		perSecond = max(perSecond, rate(n, func() { take(round) }))
		redis = min(redis, (redisCPU(b, rdb)-redisBefore)/float64(n)*1e6)
		own = min(own, (processCPU(b)-ownBefore)/float64(n)*1e6)
	}
	return perSecond, fmt.Sprintf("CPU for one: Redis %.0f us, ours %.0f us", redis, own)
}

// BenchmarkSubmitMany: charges of 60 bytes in one call.
func BenchmarkSubmitMany(b *testing.B) {
	const n = 40_000
	server := server(b)
	c := client(b, server, redrive.Durable)
	perSecond, costs := taken(b, server, n, func(round int) {
		ops := make([]redrive.Operation, n)
		for i := range ops {
			ops[i] = charge(round*n + i)
		}
		receipts, err := c.SubmitMany(b.Context(), ops)
		if err != nil || receipts[n-1].Answer != redrive.Accepted {
			b.Fatal(receipts[n-1], err)
		}
	})
	record(b, "SubmitMany of the client", fmt.Sprintf("%.0f/s (%s)", perSecond, costs), ">= 20,000/s", met(perSecond >= 20_000))
}

// BenchmarkImport: the same charges over HTTP, a line each.
func BenchmarkImport(b *testing.B) {
	const n = 40_000
	server := server(b)
	bundle := setup(b, server, 1, "budget: {ratio: 0.1}")
	if err := bundle.ledger.PublishKinds(b.Context(), bundle.config.KindSpecs()); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	api := httpapi.Serve(l, httpapi.Options{AliveFunc: func() error { return nil }, ReadyFunc: func() []string { return nil }, Metrics: http.NotFoundHandler(),
		API: &httpapi.API{Ledger: bundle.ledger, Kinds: bundle.config.KindSpecs(), Limits: config.Default().API, FitFunc: func() []string { return nil }, Version: "bench"}})
	b.Cleanup(func() { _ = api.Close(context.Background()) })
	perSecond, costs := taken(b, server, n, func(round int) {
		var lines bytes.Buffer
		for i := range n {
			o := charge(round*n + i)
			fmt.Fprintf(&lines, `{"kind":"k0","key":%q,"body":%s}`+"\n", o.Key, o.Body)
		}
		resp, err := http.Post("http://"+l.Addr().String()+"/v1/operations:import", "application/x-ndjson", &lines)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		var answers bytes.Buffer
		if _, err := answers.ReadFrom(resp.Body); err != nil {
			b.Fatal(err)
		}
		if !bytes.Contains(answers.Bytes(), fmt.Appendf(nil, `"answers":{"accepted":%d}`, n)) {
			b.Fatalf("%.500s", answers.Bytes()[max(0, answers.Len()-500):])
		}
	})
	record(b, "import by the API (NDJSON), answers and client included", fmt.Sprintf("%.0f lines/s (%s)", perSecond, costs), ">= 10,000/s", met(perSecond >= 10_000))
}
