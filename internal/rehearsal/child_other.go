//go:build !unix

package rehearsal

import "syscall"

// childAttr has nothing to say here.
func childAttr() *syscall.SysProcAttr { return nil }
