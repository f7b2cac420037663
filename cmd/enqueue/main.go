// Command enqueue puts operations into Redrive and looks at what became of them.
// See docs/enqueue.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"redrive/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default holds again: a second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
