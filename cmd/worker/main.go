// Command worker redelivers failed operations.
package main

import (
	"context"
	"os"

	"redrive/internal/app"
)

func main() {
	os.Exit(app.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
