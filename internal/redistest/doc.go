// Package redistest gives tests a Redis: a real redis-server that the test
// starts and ends by its own process id, or a miniredis in memory.
//
// A server listens on a free port of 127.0.0.1 and on a unix socket, keeps an
// append-only file (everysec) and never evicts, as production must. It can be
// killed with SIGKILL, stopped and restarted on the same port and data, which is
// how crash tests take Redis away:
//
//	srv := redistest.Server(t)
//	client := srv.Client(t)
//	srv.Kill9()
//	srv.Restart()
//
// A contract that must hold on both stores is one function handed to [Each].
//
// A missing redis-server fails the test with the one line that installs it. It
// never skips: a suite that skips its real Redis proves nothing.
//
// Only tests import this package. The methods of [Redis] report trouble through
// t.Fatal, so they belong on the test's own goroutine.
package redistest
