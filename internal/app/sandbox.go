package app

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/config"
	"redrive/internal/sandbox"
)

func (p *program) sandboxCommand() *cobra.Command {
	var addr, fault string
	var o sandbox.Options
	honourKeys := true
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "Run a payment gateway that misbehaves on demand and keeps its own ledger",
		Long: `Run a payment gateway that misbehaves on demand and keeps its own ledger.

  POST /v1/charges, /v1/refunds, /v1/voids     amount, currency, reference; honours Idempotency-Key
  GET  /v1/charges?reference=R, /v1/charges/ID
  PUT  /_sandbox/fault                         {"mode":"slow","latency":"2.4s","share":0.3,"for":"60s"}
  GET  /_sandbox/ledger, /_sandbox/stats       requests, side effects and keys, per reference and in all
  DELETE /_sandbox                             forget everything

It has no authentication and belongs on a loopback address.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&addr, "listen", "127.0.0.1:9900", "`address` to listen on")
	c.Flags().StringVar(&fault, "fault", "none", "how it misbehaves from the start: "+modeNames())
	c.Flags().Uint64Var(&o.Seed, "seed", 0, "`number` that decides which requests a fault hits")
	c.Flags().DurationVar(&o.IdempotencyWindow, "idempotency-window", 0, "how long an idempotency key is remembered; 0: for ever")
	c.Flags().BoolVar(&honourKeys, "honour-keys", true, "whether a repeated idempotency key has no second effect")
	c.RunE = p.begin(func(c *cobra.Command, _ []string) error {
		mode, err := sandbox.ParseMode(fault)
		if err != nil {
			return usageErrorf("--fault: %w", err)
		}
		if o.IdempotencyWindow < 0 {
			return usageErrorf("--idempotency-window %s: want 0 or more", o.IdempotencyWindow)
		}
		if err := checkFlags(config.Overrides{Listen: addr}); err != nil {
			return err
		}
		o.HonourKeys = &honourKeys
		return p.serveSandbox(c, addr, mode, o)
	})
	return c
}

func (p *program) serveSandbox(c *cobra.Command, addr string, mode sandbox.Mode, o sandbox.Options) error {
	log, err := p.flagLogger(slog.LevelInfo)
	if err != nil {
		return err
	}
	o.Logger = log
	s := sandbox.New(o)
	if err := s.SetFault(sandbox.Fault{Mode: mode}); err != nil {
		return err
	}
	l, err := listen(addr, "--listen")
	if err != nil {
		return err
	}
	ctx, done := p.interruptible(c.Context())
	defer done()
	fmt.Fprintf(p.stdout, "sandbox gateway on http://%s, fault %s, seed %d\n", l.Addr(), mode, o.Seed)
	began := time.Now()
	err = s.Serve(ctx, l)
	stats := s.Stats()
	fmt.Fprintf(p.stdout, "%d requests, %d side effects in %s\n", stats.Requests+stats.Unread, stats.SideEffects, time.Since(began).Round(time.Second))
	return err
}

// flagLogger is the logger of a command that reads no configuration file.
func (p *program) flagLogger(level slog.Level) (*slog.Logger, error) {
	c := config.Default()
	c.Log.Level = level
	if err := c.Override(config.Overrides{LogLevel: p.flags.LogLevel, LogFormat: p.flags.LogFormat}, p.getenv); err != nil {
		return nil, &usageError{err}
	}
	return newLogger(p.stderr, c.Log, p.getenv), nil
}
