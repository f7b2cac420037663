package rehearsal

import "syscall"

// childAttr makes the kernel end the store when this process dies without cleaning
// up, and keeps an interrupt from the terminal away from it: workers that are
// asked to stop still have results to write.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
