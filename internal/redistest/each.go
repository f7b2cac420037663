package redistest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Mini returns an empty miniredis on 127.0.0.1 and a client of it, both ended with
// the test.
func Mini(t testing.TB) (*miniredis.Miniredis, redis.UniversalClient) {
	t.Helper()
	m := miniredis.RunT(t)
	return m, newClient(t, clientOptions("tcp", m.Addr(), "", 0))
}

// Each runs suite as two subtests, "miniredis" and "redis-server". Each call of
// newClient gives a client of an empty store that nobody else uses, so the parts
// of a suite may run in parallel.
func Each(t *testing.T, suite func(t *testing.T, newClient func(testing.TB) redis.UniversalClient)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		suite(t, func(t testing.TB) redis.UniversalClient {
			t.Helper()
			_, c := Mini(t)
			return c
		})
	})
	t.Run("redis-server", func(t *testing.T) {
		srv := Server(t)
		suite(t, func(t testing.TB) redis.UniversalClient {
			t.Helper()
			return srv.ownDatabase(t)
		})
	})
}

// ownDatabase returns a client of a numbered database that no other test uses;
// it is flushed and given back at the end of t.
func (r *Redis) ownDatabase(t testing.TB) redis.UniversalClient {
	t.Helper()
	db, err := r.p.free.take()
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(clientOptions("unix", r.p.socket, r.p.settings.password, db))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.FlushDB(ctx).Err(); err != nil {
			t.Errorf("flush database %d: %v", db, err)
		} else {
			r.p.free.giveBack(db)
		}
		if err := c.Close(); err != nil {
			t.Errorf("close redis client: %v", err)
		}
	})
	return c
}

// freeDatabases hands out database numbers. Number 0 is left to [Redis.Client].
type freeDatabases struct {
	mu       sync.Mutex // guards used, returned
	used     int
	returned []int
}

func (f *freeDatabases) take() (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.returned); n > 0 {
		db := f.returned[n-1]
		f.returned = f.returned[:n-1]
		return db, nil
	}
	if f.used == databases-1 {
		return 0, fmt.Errorf("redistest: more than %d stores of one server in use at once", databases-1)
	}
	f.used++
	return f.used, nil
}

func (f *freeDatabases) giveBack(db int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.returned = append(f.returned, db)
}
