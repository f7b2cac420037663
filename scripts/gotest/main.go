// Command gotest runs "go test" with the arguments it is given, prints what a
// person needs of it and counts: a skipped test is a failure, because a suite
// that skips its real Redis proves nothing.
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// run ends with go test; an interrupt reaches both, as they share the terminal.
func run(args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := newReport(os.Stdout)
	readErr := r.read(events)
	if err := cmd.Wait(); err != nil {
		r.broken = true
	}
	if readErr != nil {
		return readErr
	}
	return r.close()
}
