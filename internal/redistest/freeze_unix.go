//go:build unix

package redistest

import (
	"strings"
	"syscall"
)

// Freeze stops the server's process with SIGSTOP: its connections stay open, and
// nothing is answered until [Redis.Thaw].
func (r *Redis) Freeze() { r.t.Helper(); r.signal("Freeze", syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (r *Redis) Thaw() { r.t.Helper(); r.signal("Thaw", syscall.SIGCONT) }

func (r *Redis) signal(what string, s syscall.Signal) {
	r.t.Helper()
	r.own(what)
	pid := r.PID()
	if pid == 0 {
		r.t.Fatalf("redistest: %s of a server that is down", what)
	}
	if err := syscall.Kill(pid, s); err != nil {
		r.t.Fatalf("%s redis-server: %v", strings.ToLower(what), err)
	}
}
