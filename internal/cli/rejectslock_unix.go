//go:build unix

package cli

import (
	"os"
	"syscall"
)

// lockFile holds the file for this process until it is closed, also by a crash.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
