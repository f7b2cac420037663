package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/config"
	"redrive/internal/httpapi"
	"redrive/internal/ledger"
	"redrive/internal/metrics"
	"redrive/internal/picture"
	"redrive/internal/rehearsal"
	"redrive/internal/sandbox"
)

func modeNames() string { return joinWords(sandbox.Modes) }

func joinWords[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

func (p *program) demoCommand() *cobra.Command {
	o := rehearsal.Options{}
	var fault, store, output string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch operations being redelivered through a misbehaving gateway, and have it judged",
		Long: `Watch operations being redelivered through a misbehaving gateway, and have it judged.

Everything runs in this process: a store of its own (a redis-server child if there
is one on PATH, else in memory), the sandbox gateway and workers. A request path
submits operations: some never attempted, some that timed out on it, some that were
refused. What may not be sent again is asked about, where somebody can be asked.
The report is judged against the gateway's own ledger; the exit code is 1 if a
promise was broken. It needs no configuration and ends within a minute.

With --listen its metrics can be scraped while it runs, on loopback only.`,
		Args: cobra.NoArgs,
	}
	c.Flags().IntVar(&o.Operations, "operations", 200, "how many are handed over")
	c.Flags().StringVar(&fault, "fault", string(sandbox.Flaky), "how the gateway misbehaves: "+modeNames()+" (- counts as _)")
	c.Flags().Uint64Var(&o.Seed, "seed", rand.Uint64N(1_000_000), "`number` that everything drawn is drawn from")
	c.Flags().IntVar(&o.Workers, "workers", 1, "how many work side by side")
	c.Flags().StringVar(&store, "store", string(rehearsal.StoreAuto), "where operations are kept: "+joinWords(rehearsal.StoreChoices))
	c.Flags().StringVarP(&output, "output", "o", "text", "form of the report: text or json")
	c.Flags().Lookup("seed").DefValue = "random"
	c.RunE = p.begin(func(c *cobra.Command, _ []string) error {
		mode, err := sandbox.ParseMode(fault)
		if err != nil {
			return usageErrorf("--fault: %w", err)
		}
		o.Fault, o.Store = mode, rehearsal.StoreChoice(store)
		if err := checkDemo(o, output); err != nil {
			return err
		}
		ctx, done := p.interruptible(c.Context())
		defer done()
		if p.flags.Listen == "" {
			return p.demo(ctx, o, output)
		}
		stop, err := p.watchDemo(&o, p.flags.Listen)
		if err != nil {
			return err
		}
		defer stop()
		return p.demo(ctx, o, output)
	})
	return c
}

const maxDemoWorkers = 8 // beyond that they only compete for this one process

func checkDemo(o rehearsal.Options, output string) error {
	if o.Operations < 1 || o.Operations > rehearsal.MaxOperations {
		return usageErrorf("--operations %d: want 1 to %d", o.Operations, rehearsal.MaxOperations)
	}
	if o.Workers < 1 || o.Workers > maxDemoWorkers {
		return usageErrorf("--workers %d: want 1 to %d", o.Workers, maxDemoWorkers)
	}
	if err := oneOf("store", string(o.Store), "auto", "redis", "memory"); err != nil {
		return err
	}
	return oneOf("output", output, "text", "json")
}

// watchDemo serves the metrics of the demo to come until stop is called. The
// environment's address is that of the real worker and none of the demo's.
func (p *program) watchDemo(o *rehearsal.Options, addr string) (stop func(), err error) {
	if host, _, err := net.SplitHostPort(addr); err != nil || !onLoopback(host) {
		return nil, usageErrorf("--listen %s: a demo is shown on this machine alone: want a loopback address such as 127.0.0.1:9100", addr)
	}
	l, err := listen(addr, "--listen")
	if err != nil {
		return nil, err
	}
	m := metrics.New(metrics.Options{Version: build().version, Revision: build().revision, Schema: ledger.Schema})
	m.RedisDurable(true) // the demo asks for durability volatile, which any store has
	var started atomic.Bool
	o.Metrics = m
	o.LedgerFunc = func(l *ledger.Ledger) {
		m.ObserveLedger(ledgerState(l))
		started.Store(true)
	}
	server := httpapi.Serve(l, httpapi.Options{
		AliveFunc: func() error { return nil },
		ReadyFunc: func() []string {
			if !started.Load() {
				return []string{"the demo has not started yet"}
			}
			return nil
		},
		Metrics: m.Handler(),
	})
	fmt.Fprintf(p.stderr, "metrics on http://%s/metrics\n", l.Addr())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Close(ctx) // the report is written already: what a late reader misses is no fault of the demo
	}, nil
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (p *program) demo(ctx context.Context, o rehearsal.Options, output string) error {
	// What workers log would tear the picture apart; whoever asks for it gets it.
	const nothing = slog.LevelError + 1
	wanted := p.flags.LogLevel != "" || p.getenv(config.EnvLogLevel) != ""
	o.ShowFunc = rehearsal.Lines(p.stderr)
	if columns(p.stderr) >= picture.Width && !wanted {
		o.ShowFunc = rehearsal.Table(p.stderr, colour(p.stderr, p.getenv))
	}
	log, err := p.flagLogger(nothing)
	if err != nil {
		return err
	}
	o.Log = log
	report, err := rehearsal.Run(ctx, o)
	switch {
	case err == context.Canceled: // alone: nothing went wrong beside it
		return errors.New("interrupted: everything was stopped in order, there is no report")
	case err != nil:
		return err
	}
	write := report.WriteText
	if output == "json" {
		write = report.WriteJSON
	}
	if err := write(p.stdout); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if !report.Kept() {
		return errSaid
	}
	return nil
}
