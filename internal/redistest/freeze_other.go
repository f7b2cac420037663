//go:build !unix

package redistest

// Freeze fails the test: here no process can be stopped and let go on.
func (r *Redis) Freeze() { r.t.Helper(); r.t.Fatal("redistest: Freeze: this system has no SIGSTOP") }

// Thaw fails the test, as Freeze does.
func (r *Redis) Thaw() { r.t.Helper(); r.t.Fatal("redistest: Thaw: this system has no SIGCONT") }
