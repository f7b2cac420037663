package torture

import "syscall"

// endWithParent makes the kernel end a worker when the test binary dies.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
