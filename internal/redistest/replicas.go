package redistest

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// followIn bounds the first copy that replicas get.
const followIn = 20 * time.Second

// Replicated starts a primary with the options and n replicas of it, and returns once
// all of them follow it. Each is ended when the test is over, frozen or not.
func Replicated(t testing.TB, n int, opts ...Option) (primary *Redis, replicas []*Redis) {
	t.Helper()
	// Without a delay the first copy is sent at once.
	primary = Server(t, append([]Option{WithConfig("repl-diskless-sync-delay 0")}, opts...)...)
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		replicas = append(replicas, Server(t, WithConfig("replicaof "+host+" "+port)))
	}
	primary.awaitInfo(func(info string) bool { return strings.Count(info, "state=online") == n })
	for _, r := range append(replicas, primary) {
		// A child that writes files would outlive its server, into a folder that is being removed.
		r.awaitInfo(func(info string) bool {
			return !strings.Contains(info, "in_progress:1") && !strings.Contains(info, "scheduled:1")
		})
	}
	return primary, replicas
}

// awaitInfo polls INFO.
func (r *Redis) awaitInfo(ok func(info string) bool) {
	r.t.Helper()
	c := redis.NewClient(clientOptions("unix", r.p.socket, r.p.settings.password, 0))
	defer c.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), followIn)
	defer cancel()
	for {
		info, err := c.Info(ctx).Result()
		if err == nil && ok(info) {
			return
		}
		select {
		case <-ctx.Done():
			r.t.Fatalf("redis-server on port %s is not ready to be replicated within %v: %v\n%s", strconv.Itoa(r.p.port), followIn, err, info)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
