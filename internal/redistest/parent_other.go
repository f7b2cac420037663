//go:build !linux

package redistest

import "syscall"

// endWithParent has no portable form: here a server outlives a test binary that
// dies without cleaning up.
func endWithParent() *syscall.SysProcAttr { return nil }
