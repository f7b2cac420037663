//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package redrive

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// canLock refuses every spool: two clients would get into one file, and each rewrites it by
// what it has read. Windows has locks of its own, but neither a file that is open can be
// replaced there nor a folder brought to the disk, and a spool needs both.
func canLock() error {
	return fmt.Errorf("there are no spools on %s, where a file cannot be locked by flock(2) and replaced while it is open: %w", runtime.GOOS, errors.ErrUnsupported)
}

// lockFile is not called: canLock keeps its callers from coming so far.
func lockFile(*os.File) error { return canLock() }

// names is how many names lead to a file, as far as can be told here.
func names(os.FileInfo) uint64 { return 1 }
