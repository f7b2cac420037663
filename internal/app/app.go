package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/config"
	"redrive/internal/outage"
)

// The exit codes.
const (
	exitDone  = 0
	exitError = 1
	exitUsage = 2
)

// Run is the program worker. It returns the exit code. It ends when its command
// does; ctx ends it as the first SIGTERM would.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr, getenv: getenv, signals: osSignals, redisPatience: redisPatience, fitnessEvery: fitnessEvery,
		rehearseFunc: outage.Run}
	return p.run(ctx, args)
}

// program is one run of the program.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string

	// signals starts to deliver what asks the program to end, until stop is called.
	signals func() (asked <-chan os.Signal, stop func())

	redisPatience time.Duration // how long the start waits for Redis
	fitnessEvery  time.Duration // how often Redis is looked at again

	// rehearseFunc plays an outage.
	rehearseFunc func(context.Context, outage.Options) (*outage.Report, error)

	flags   flags
	started bool // a command began: what goes wrong from now on is no matter of usage
}

// flags are those that every command knows.
type flags struct {
	config string
	config.Overrides
}

func osSignals() (<-chan os.Signal, func()) {
	asked := make(chan os.Signal, 2) // the runtime drops what nobody takes: two are all that count
	signal.Notify(asked, syscall.SIGTERM, os.Interrupt)
	if !signal.Ignored(syscall.SIGHUP) { // nohup does: it is to outlive its terminal
		signal.Notify(asked, syscall.SIGHUP)
	}
	return asked, func() { signal.Stop(asked) }
}

func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	command, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errSaid):
		return exitError
	}
	fmt.Fprintf(p.stderr, "%s: %s\n", command.CommandPath(), err)
	if usage := new(usageError); p.started && !errors.As(err, &usage) {
		return exitError
	}
	fmt.Fprintf(p.stderr, "See %s --help.\n", command.CommandPath())
	return exitUsage
}

// errSaid ends a command with exit code 1 where everything has been said.
var errSaid = errors.New("said already")

// usageError is a wrong argument that only the command itself can find.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usageErrorf(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "worker",
		Short:         "Redeliver failed operations: when the other side can bear it, never twice, never too late",
		Args:          cobra.NoArgs,
		Version:       build().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		// Without a command there is nothing to do but to say what there is.
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("worker {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	f := root.PersistentFlags()
	f.StringVar(&p.flags.config, "config", "", "configuration `file` (else REDRIVE_CONFIG, ./redrive.yaml, /etc/redrive/redrive.yaml)")
	f.StringVar(&p.flags.RedisURL, "redis", "", "Redis `URL` (else REDRIVE_REDIS_URL, redis.url)")
	f.StringVar(&p.flags.Namespace, "namespace", "", "prefix of every key (else REDRIVE_NAMESPACE, redis.namespace)")
	f.StringVar(&p.flags.Listen, "listen", "", "`address` of health and metrics (else REDRIVE_LISTEN, listen)")
	f.StringVar(&p.flags.LogLevel, "log-level", "", "debug, info, warn or error (else REDRIVE_LOG_LEVEL, log.level)")
	f.StringVar(&p.flags.LogFormat, "log-format", "", "auto, text or json (else REDRIVE_LOG_FORMAT, log.format)")
	root.AddCommand(p.runCommand(), p.checkCommand(), p.policyCommand(), p.demoCommand(), p.rehearseCommand(), p.sandboxCommand(), p.classifyCommand(), p.presetsCommand(), p.versionCommand())
	return root
}

// begin wraps what a command does: from here on an error is no matter of usage.
func (p *program) begin(do func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		p.started = true
		if err := checkFlags(p.flags.Overrides); err != nil {
			return err
		}
		return do(c, args)
	}
}

// checkFlags finds flags whose value can never be right: a matter of usage, whatever
// the configuration and the environment say.
func checkFlags(o config.Overrides) error {
	if err := config.Default().Override(o, func(string) string { return "" }); err != nil {
		return &usageError{err}
	}
	return nil
}

// interruptible is ctx, ended by the first signal.
func (p *program) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	asked, stop := p.signals()
	done := make(chan struct{}) // closed by the returned function
	go func() {                 // ended by done or a signal; nobody needs to wait: it holds nothing
		select {
		case <-asked:
			cancel()
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		stop()
		cancel()
	}
}

// open reads the configuration. What works for dependencies needs a file.
func (p *program) open() (*config.Config, error) {
	_, found, err := config.Find(p.flags.config, p.getenv)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("no configuration file: give --config or %s, or write ./%s or %s (examples/redrive.yaml is one that works)",
			config.EnvConfig, config.LocalPath, config.SystemPath)
	}
	c, _, err := config.Open(p.flags.config, p.flags.Overrides, p.getenv)
	return c, err
}

// oneOf checks a flag whose values are a closed list.
func oneOf(flag, value string, allowed ...string) error {
	for _, a := range allowed {
		if a == value {
			return nil
		}
	}
	return usageErrorf("--%s %q: want one of %s", flag, value, strings.Join(allowed, ", "))
}
