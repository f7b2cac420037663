//go:build unix

package app

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// SIGHUP, the end of a terminal, once killed the worker: what it was sending became
// unknown outcomes.
func TestTheEndOfTheTerminalAsksToEnd(t *testing.T) { // not parallel: the signal is the process'
	asked, stop := osSignals()
	defer stop()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		if signal.Ignored(s) { // these tests run under nohup
			continue
		}
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-asked:
			if got != s {
				t.Errorf("%v came as %v", s, got)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%v was not heard", s)
		}
	}
}
