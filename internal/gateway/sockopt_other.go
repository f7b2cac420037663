//go:build !linux

package gateway

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing here: only Linux lets us bound how long the kernel
// repeats unacknowledged bytes. docs/sending.md says what that means.
func setUserTimeout(syscall.Conn, time.Duration) error { return nil }
