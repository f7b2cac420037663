package redistest

import "syscall"

// endWithParent makes the kernel end the server when the test binary dies without
// cleaning up, such as at its -timeout.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
