//go:build !linux

package torture

import "syscall"

// endWithParent has no portable form: here a worker outlives a test binary that
// dies without cleaning up.
func endWithParent() *syscall.SysProcAttr { return nil }
