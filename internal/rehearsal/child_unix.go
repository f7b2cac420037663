//go:build unix && !linux

package rehearsal

import "syscall"

// childAttr keeps an interrupt from the terminal away from the store: workers that
// are asked to stop still have results to write. There is no portable way to end
// it with a process that dies without cleaning up.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
