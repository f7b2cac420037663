package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"redrive"
)

// patience is how long a customer is kept waiting.
const patience = 5 * time.Second

// run reads the flags and serves until ctx ends.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("checkout", flag.ContinueOnError)
	config := flags.String("config", "redrive.yaml", "the worker's configuration `file`")
	redisURL := flags.String("redis", "redis://127.0.0.1:6379/0", "`URL` of Redis")
	listen := flags.String("listen", "127.0.0.1:8081", "`address` to serve on")
	light := flags.Bool("light", false, "write only what failed: faster, and a crash after a send leaves no trace")
	spool := flags.String("spool", "", "`file` for hand-overs while Redis is away")
	if err := flags.Parse(args); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	o := redrive.Options{RedisURL: *redisURL, ConfigFile: *config, Spool: *spool, Name: "checkout", Log: log}
	if *light {
		o.Mode = redrive.Light
	}
	return serve(ctx, *listen, o, log)
}

func serve(ctx context.Context, address string, o redrive.Options, log *slog.Logger) error {
	client, err := redrive.New(ctx, o)
	if err != nil {
		return err
	}
	defer client.Close()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	log.Info("serving", "listen", l.Addr().String())
	server := &http.Server{Handler: routes(client), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	return server.Shutdown(ending) // customers who are here are served
}

func routes(client *redrive.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /checkout", func(w http.ResponseWriter, r *http.Request) { checkout(w, r, client) })
	mux.HandleFunc("GET /orders/{order}", func(w http.ResponseWriter, r *http.Request) { status(w, r, client) })
	return mux
}

// purchase is what a customer sends.
type purchase struct {
	Order    string `json:"order"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

func checkout(w http.ResponseWriter, r *http.Request, client *redrive.Client) {
	var p purchase
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&p); err != nil || p.Order == "" || p.Amount <= 0 || p.Currency == "" {
		say(w, http.StatusBadRequest, map[string]any{"error": "want order, amount above 0 and currency"})
		return
	}
	body, err := json.Marshal(map[string]any{"amount": p.Amount, "currency": p.Currency, "reference": p.Order})
	if err != nil {
		say(w, http.StatusInternalServerError, map[string]any{"error": "internal"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	reply, err := client.Do(ctx, redrive.Operation{Kind: "charge", Key: p.Order, Body: body, Within: 2 * time.Hour}, nil)
	var deferred *redrive.Deferred
	var declined *redrive.Permanent
	var wrong *redrive.Invalid
	var clash *redrive.Clash
	var notKept *redrive.HandoverError
	switch {
	case err == nil:
		say(w, http.StatusOK, map[string]any{"order": p.Order, "charged": true, "charge": reply.Result["id"]})
	case errors.As(err, &declined):
		say(w, http.StatusPaymentRequired, map[string]any{"order": p.Order, "charged": false})
	case errors.As(err, &deferred), errors.As(err, &notKept) && notKept.Spooled:
		w.Header().Set("Location", "/orders/"+url.PathEscape(p.Order))
		say(w, http.StatusAccepted, map[string]any{"order": p.Order, "status": "/orders/" + url.PathEscape(p.Order)})
	case errors.As(err, &clash):
		say(w, http.StatusConflict, map[string]any{"error": "this order was charged with another amount"})
	case errors.As(err, &wrong):
		say(w, http.StatusBadRequest, map[string]any{"error": wrong.Err.Error()})
	default: // nothing was sent (redrive.ErrBacklogFull and the like), or nobody knows: the customer asks again for the same order
		w.Header().Set("Retry-After", "5")
		say(w, http.StatusServiceUnavailable, map[string]any{"error": "not now"})
	}
}

func status(w http.ResponseWriter, r *http.Request, client *redrive.Client) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	record, err := client.Get(ctx, "charge", r.PathValue("order"))
	switch {
	case errors.Is(err, redrive.ErrNotFound):
		say(w, http.StatusNotFound, map[string]any{"error": "no such order"})
	case err != nil:
		say(w, http.StatusServiceUnavailable, map[string]any{"error": "not now"})
	default:
		say(w, http.StatusOK, map[string]any{"order": record.Key, "ended": record.State.Ended(), "charged": record.Applied, "state": record.State})
	}
}

func say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a customer who is gone cannot be told
}
