// Command checkout is a small service that charges customers through Redrive's client:
//
//	worker sandbox --listen 127.0.0.1:9900
//	worker run --config examples/redrive.yaml
//	go run ./examples/checkout --config examples/redrive.yaml
//	curl -i -d '{"order":"order-1001","amount":4200,"currency":"GBP"}' http://127.0.0.1:8081/checkout
//
// It answers 200 when the charge succeeded, 402 when it was declined, and 202 with a link
// to its status when it goes on without the customer. Asking again for the same order is
// safe: it is one charge.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "checkout:", err)
		os.Exit(1)
	}
}
