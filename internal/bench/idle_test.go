package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/gateway"
	"redrive/internal/redistest"
)

// info reads one number of INFO.
func info(b *testing.B, rdb redis.UniversalClient, section, field string) float64 {
	b.Helper()
	text, err := rdb.Info(context.Background(), section).Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, line := range strings.Split(text, "\r\n") {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("INFO %s says nothing of %s", section, field)
	return 0
}

// watch counts what clients send: a script and its inner commands are one. The
// returned function stops watching and tells.
func watch(b *testing.B, server *redistest.Redis) (count func() int64) {
	b.Helper()
	conn, err := net.Dial("unix", server.Socket())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	done := make(chan struct{})
	go func() { // ends when conn is closed; count waits for it
		defer close(done)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if text := lines.Text(); strings.HasPrefix(text, "+") && !strings.Contains(text, " lua] ") && text != "+OK" {
				n.Add(1)
			}
		}
	}()
	return func() int64 {
		conn.Close()
		<-done
		return n.Load()
	}
}

// BenchmarkIdle: what a worker with nothing to do costs Redis.
func BenchmarkIdle(b *testing.B) {
	const span = 15 * time.Second
	server := server(b)
	for _, dependencies := range []int{1, 20} {
		bundle := setup(b, server, dependencies, "budget: {ratio: 0.1}")
		stop := bundle.work(b, func(gateway.Call) {})
		time.Sleep(3 * time.Second)
		count := watch(b, server)
		time.Sleep(span)
		perSecond := float64(count()) / span.Seconds() / float64(dependencies)
		stop()
		record(b, fmt.Sprintf("idle, %d dependencies, per dependency and process", dependencies),
			fmt.Sprintf("%.1f commands/s", perSecond), "<= 5 commands/s", met(perSecond <= 5))
	}
}

// BenchmarkHeld: what 100,000 operations held by an empty budget, with a drain lane that is
// shut, cost while they wait, in CPU of this process and of Redis, above an idle worker.
func BenchmarkHeld(b *testing.B) {
	const n, span = 100_000, 15 * time.Second
	server := server(b)
	cpu := func(held int) float64 {
		bundle := setup(b, server, 1, "budget: {ratio: 0.001, cap: 1, floor_per_second: 0}, drain: {max_per_second: 0}")
		if held > 0 {
			bundle.submit(b, 0, bundle.entries(b, 0, 0, held, reportedRefused))
		}
		stop := bundle.work(b, func(gateway.Call) {})
		defer stop()
		time.Sleep(8 * time.Second) // they have come due and moved into their lane
		own, redis := processCPU(b), redisCPU(b, bundle.rdb)
		time.Sleep(span)
		return (processCPU(b) - own + redisCPU(b, bundle.rdb) - redis) / span.Seconds() * 100
	}
	idle, held := cpu(0), cpu(n)
	record(b, "100,000 held operations, drain lane shut, added CPU", fmt.Sprintf("%.2f %% of a core (idle %.2f %%)", held-idle, idle), "< 1 %", met(held-idle < 1))
}

func redisCPU(b *testing.B, rdb redis.UniversalClient) float64 {
	return info(b, rdb, "cpu", "used_cpu_user") + info(b, rdb, "cpu", "used_cpu_sys")
}

func processCPU(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
