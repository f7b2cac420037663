//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package redrive

import (
	"os"
	"syscall"
)

// canLock: a file can be held here for one client.
func canLock() error { return nil }

// lockFile holds the file for this process until it is closed, also by a crash. It is the
// file that is held, whatever name it was opened by.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// names is how many names lead to a file; 0: it was removed.
func names(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}
