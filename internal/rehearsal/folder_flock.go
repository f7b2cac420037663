//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rehearsal

import (
	"os"
	"syscall"
)

// lockFile takes the lock, which ends with the process however it ends; an error
// says that another one holds it.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
