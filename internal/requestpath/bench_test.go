package requestpath

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/redistest"
)

func BenchmarkRecord(b *testing.B) {
	_, client := redistest.Mini(b)
	r := setup(b, client, Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Record(dep, metrics.ResultOK)
		}
	})
}

// BenchmarkFiftyThousandFirstAttemptsASecond plays 100 processes that send 500 first
// attempts a second each, for ten seconds an iteration, to one dependency: what of
// Redis' core do they take? Run with -benchtime 1x.
func BenchmarkFiftyThousandFirstAttemptsASecond(b *testing.B) {
	const processes, perSecond, seconds = 100, 50_000, 10
	client := redistest.Server(b).Client(b)
	gate := setup(b, client, Options{})
	recorders := make([]*Recorder, processes)
	for i := range recorders {
		r, err := New(ledger.New(client, "test"), Options{})
		if err != nil {
			b.Fatal(err)
		}
		recorders[i] = r
		r.Start()
		b.Cleanup(r.Stop)
	}
	before, sent := usage(b, client), 0
	began := time.Now()
	for b.Loop() {
		for end := sent + perSecond*seconds; sent < end; time.Sleep(time.Millisecond) {
			for due := min(end, int(time.Since(began).Seconds()*perSecond)); sent < due; sent++ {
				recorders[sent%processes].Record(dep, metrics.Results[0])
			}
		}
	}
	took := time.Since(began)
	after := usage(b, client)
	for _, r := range recorders {
		r.Stop()
	}
	if got := gate.heard(dep); got != int64(sent) {
		b.Errorf("the gate heard of %d first attempts of %d", got, sent)
	}
	core := took.Seconds() / 100
	b.ReportMetric(float64(sent)/took.Seconds(), "attempts/s")
	b.ReportMetric((after.calls-before.calls)/took.Seconds(), "flushes/s")
	b.ReportMetric((after.scripts-before.scripts)/(after.calls-before.calls)*1e6, "µs/flush")
	b.ReportMetric((after.scripts-before.scripts)/core, "%core-scripts")
	b.ReportMetric((after.cpu-before.cpu)/core, "%core-all")
}

// used is what Redis has spent, in seconds.
type used struct{ calls, scripts, cpu float64 }

func usage(b *testing.B, client redis.UniversalClient) used {
	b.Helper()
	info, err := client.Info(context.Background(), "commandstats", "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	read := func(pattern string) float64 {
		m := regexp.MustCompile(pattern).FindStringSubmatch(info)
		if m == nil {
			return 0
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
	return used{calls: read(`cmdstat_evalsha:calls=(\d+)`), scripts: read(`cmdstat_evalsha:calls=\d+,usec=(\d+)`) / 1e6,
		cpu: read(`used_cpu_sys:([\d.]+)`) + read(`used_cpu_user:([\d.]+)`)}
}
