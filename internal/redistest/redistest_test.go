package redistest

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServerIsDurableAndNeverEvicts(t *testing.T) {
	t.Parallel()
	c := Server(t).Client(t)
	for name, want := range map[string]string{"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"} {
		got, err := c.ConfigGet(t.Context(), name).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestServerAnswersOnPortSocketAndURL(t *testing.T) {
	t.Parallel()
	srv := Server(t, WithPassword("s3cret"))
	if err := srv.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	o, err := redis.ParseURL(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	if o.Addr != srv.Addr() {
		t.Errorf("URL names %s, Addr %s", o.Addr, srv.Addr())
	}
	byURL := redis.NewClient(o)
	defer byURL.Close()
	if got := byURL.Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("through the URL: %q, want the value written through the socket", got)
	}
	host, _, err := net.SplitHostPort(srv.Addr())
	if err != nil || host != "127.0.0.1" {
		t.Errorf("Addr %s (%v), want loopback only", srv.Addr(), err)
	}
}

func TestDataSurviveKillAndStop(t *testing.T) {
	t.Parallel()
	srv := Server(t)
	c := srv.Client(t)
	addr, pid := srv.Addr(), srv.PID()
	for i, end := range []func(){srv.Kill9, srv.Stop, func() {}} {
		if err := c.RPush(t.Context(), "lives", i).Err(); err != nil {
			t.Fatal(err)
		}
		end()
		srv.Restart()
	}
	if got := c.LLen(t.Context(), "lives").Val(); got != 3 {
		t.Errorf("%d of 3 writes survived", got)
	}
	if srv.Addr() != addr {
		t.Errorf("address changed from %s to %s", addr, srv.Addr())
	}
	if srv.PID() == pid {
		t.Error("process id did not change over restarts")
	}
}

func TestStoppedServerRefusesAndHasNoPID(t *testing.T) {
	t.Parallel()
	srv := Server(t)
	c := srv.Client(t)
	srv.Kill9()
	if srv.PID() != 0 {
		t.Errorf("PID is %d, want 0", srv.PID())
	}
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answered")
	}
	srv.Stop() // of a server that is down: nothing to do
}

func TestCleanupEndsTheServerAndRemovesItsFolder(t *testing.T) {
	t.Parallel()
	var pid int
	var dir string
	t.Run("user", func(t *testing.T) {
		srv := Server(t)
		pid, dir = srv.PID(), srv.p.dir
	})
	if proc, err := os.FindProcess(pid); err == nil && proc.Signal(syscall.Signal(0)) == nil {
		t.Errorf("redis-server %d still runs", pid)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder %s: %v, want it gone", dir, err)
	}
}

func TestOptionsReachTheServer(t *testing.T) {
	t.Parallel()
	srv := Server(t, WithConfig(`rename-command CONFIG ""`), WithArgs("--maxmemory", "64mb"))
	c := srv.Client(t)
	if err := c.ConfigGet(t.Context(), "save").Err(); err == nil {
		t.Error("CONFIG answered although it was renamed away")
	}
	info := c.Info(t.Context(), "memory").Val()
	if !strings.Contains(info, "maxmemory:67108864") {
		t.Errorf("maxmemory did not reach the server:\n%s", info)
	}
}

func TestWrongConfigIsReportedWithTheLog(t *testing.T) {
	t.Parallel()
	_, err := newProcess(settings{config: []string{"appendfsync sometimes"}})
	if err == nil || !strings.Contains(err.Error(), "appendfsync sometimes") {
		t.Fatalf("error %v, want the directive that redis-server refused", err)
	}
}

func TestSharedServerLivesAsLongAsItsLastUser(t *testing.T) {
	t.Parallel()
	var first, second *Redis
	t.Run("users", func(t *testing.T) {
		first = Server(t, Shared(), WithConfig("# of this test alone"))
		t.Run("inner", func(t *testing.T) {
			second = Server(t, Shared(), WithConfig("# of this test alone"))
		})
		if first.PID() != second.PID() {
			t.Error("two users of the shared server got two servers")
		}
		if err := first.Client(t).Ping(t.Context()).Err(); err != nil {
			t.Errorf("the first user lost its server: %v", err)
		}
	})
	if first.PID() != 0 {
		t.Error("the shared server outlived its last user")
	}
}

func TestMissingServerNamesTheInstallLine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := newProcess(settings{})
	if err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("error %v, want the line that installs redis-server", err)
	}
}

func TestEachRunsBothStoresWithEmptyOnes(t *testing.T) {
	t.Parallel()
	onServer := 0
	Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		for range 2 {
			c := newClient(t)
			if n := c.DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("a new store holds %d keys", n)
			}
			if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(newClient(t).Info(t.Context()).Val(), "process_id:") {
			onServer++
		}
	})
	if onServer != 1 {
		t.Errorf("%d runs on a real redis-server, want 1", onServer)
	}
}

func TestDatabasesAreReusedAfterTheirTest(t *testing.T) {
	t.Parallel()
	srv := Server(t)
	for range databases + 10 {
		t.Run("user", func(t *testing.T) {
			c := srv.ownDatabase(t)
			if n := c.Incr(t.Context(), "n").Val(); n != 1 {
				t.Fatalf("counter is %d in a new store", n)
			}
		})
	}
}

func TestClientsDoNotRetry(t *testing.T) {
	t.Parallel()
	srv := Server(t)
	c := srv.Client(t)
	srv.Kill9()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Fatal("a killed server answered")
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("one refused command took %v: something retried", took)
	}
}
