package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/remote"
)

// Run runs one command line and returns the exit code. It blocks until the command
// is done, its time limit passed or ctx ended, and leaves no goroutine behind except,
// when its time is over while it waits for input, one that waits for that.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	p := newProgram(stdin, stdout, stderr, getenv)
	return p.run(ctx, args)
}

// program is one run of enqueue.
type program struct {
	stdin  *bufio.Reader
	stdout *bufio.Writer
	stderr io.Writer
	getenv func(string) string

	input       io.Reader // what stdin reads from
	interactive bool      // somebody can be asked: stdin and stderr are a terminal
	drawn       bool      // stderr is a terminal: a progress bar can be drawn
	colored     bool      // stdout is a terminal that may be coloured
	hands       int       // how many operations of a bulk action are worked on at once; 0: as many as serve Redis best

	flags struct {
		config, redis, namespace, by, output string
		server, tokenFile                    string
		noColor, yes                         bool
		timeout                              time.Duration
	}
	server string // that is asked instead of Redis; "": Redis
	store  string // which store or server is acted on, without user and password, once it is known
}

func newProgram(stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) *program {
	return &program{
		stdin: bufio.NewReader(stdin), stdout: bufio.NewWriter(stdout), stderr: stderr, getenv: getenv, input: stdin,
		interactive: isTerminal(stdin) && isTerminal(stderr), drawn: isTerminal(stderr), colored: isTerminal(stdout),
	}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// silence keeps the Redis client from writing to stderr itself: what it has to say
// comes back as an error, and is told in one line.
var silence = sync.OnceFunc(func() { redis.SetLogger(mute{}) })

type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

func (p *program) run(ctx context.Context, args []string) int {
	silence()
	root := p.root()
	root.SetArgs(append([]string{}, args...)) // nil would make cobra read the arguments of the process
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	if flushed := p.stdout.Flush(); err == nil && flushed != nil {
		err = &failure{exitError, fmt.Errorf("write output: %w", flushed)}
	}
	return p.report(ctx, err)
}

// report says what went wrong in one line and returns the exit code. An error that
// no command returned is cobra's own: usage.
func (p *program) report(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{exitUsage, err}
	}
	if f.err == nil {
		return f.code
	}
	text := f.err.Error()
	var n *noted
	switch {
	case ctx.Err() != nil && errors.Is(f.err, context.Canceled):
		text = "interrupted"
		if errors.As(f.err, &n) {
			text += "; " + n.note
		}
	case fromStore(f.err):
		text = p.storeText(f.err)
	}
	p.say("%s", text)
	return f.code
}

// storeText explains an error of Redis or of a server: where it is, never with which
// password or token.
func (p *program) storeText(err error) string {
	note := ""
	var n *noted
	if errors.As(err, &n) {
		err, note = n.err, "; "+n.note
	}
	var answer *remote.Problem
	switch {
	case errors.As(err, &answer) && answersRequest(answer):
		return answer.Words() + " (" + answer.Server + ")" + note
	case fromServer(err):
		return err.Error() + note
	}
	text := ledger.Explain(err)
	if p.store != "" {
		text = p.store + ": " + text
	}
	return text + note
}

// noted is an error of the store with what the caller should know about it.
type noted struct {
	err  error
	note string
}

func (n *noted) Error() string { return n.err.Error() + "; " + n.note }

// Unwrap returns the cause.
func (n *noted) Unwrap() error { return n.err }

// say writes words for a person to stderr, after the data that was written before.
func (p *program) say(format string, args ...any) {
	_ = p.stdout.Flush() // it keeps its first error until the end
	lines := strings.Split(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}
	fmt.Fprintf(p.stderr, "enqueue: %s\n", strings.Join(lines, "\n"))
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "enqueue",
		Short: "Hand operations to Redrive, and see and settle what became of them",
		Long: "enqueue hands operations to Redrive, shows what became of them and lets a person act on them.\n" +
			"It needs the Redis URL and the namespace; kinds come from the configuration file, else from what the workers published. With --server\n" +
			"it needs neither: it asks the HTTP API of a worker, under a token.",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("enqueue {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&p.flags.config, "config", "", "configuration `file` (REDRIVE_CONFIG; else ./redrive.yaml, /etc/redrive/redrive.yaml)")
	f.StringVar(&p.flags.redis, "redis", "", "Redis `URL` (REDRIVE_REDIS_URL)")
	f.StringVar(&p.flags.namespace, "namespace", "", "prefix of every key: a `name` (REDRIVE_NAMESPACE; else redrive)")
	f.StringVar(&p.flags.by, "by", "", "`who` acts or submits, for audit and timeline (REDRIVE_BY; else user@host)")
	f.StringVarP(&p.flags.output, "output", "o", "table", "`form` of the data on stdout: table, json, jsonl, csv or name")
	f.BoolVar(&p.flags.noColor, "no-color", false, "no colours, also when stdout is a terminal (NO_COLOR)")
	f.DurationVar(&p.flags.timeout, "command-timeout", 30*time.Second, "give up after this `span`; import, export and bulk actions have no limit unless it is given")
	f.BoolVarP(&p.flags.yes, "yes", "y", false, "go on without being asked; needed where a command asks and there is no terminal")
	f.StringVar(&p.flags.server, "server", "", "`URL` of a worker: act through its HTTP API instead of on Redis (REDRIVE_SERVER)")
	f.StringVar(&p.flags.tokenFile, "token-file", "", "`file` that holds the token for --server (REDRIVE_TOKEN_FILE)")
	root.AddCommand(
		p.addCommand(), p.importCommand(), p.showCommand(), p.listCommand(), p.cancelCommand(), p.reconcileCommand(), p.resolveCommand(), p.dlqCommand(),
		p.batchCommand(),
		p.gateCommand(), p.firstsCommand(), p.pauseCommand(), p.resumeCommand(), p.auditCommand(), p.statsCommand(), p.watchCommand(),
	)
	completeWords(root, "output", forms)
	return root
}

// limit says how long a command may take.
type limit bool

const (
	limited   limit = true  // by --command-timeout
	unlimited limit = false // only if --command-timeout was given
)

// command makes what cobra runs: the command's own errors get their exit code, so
// that the rest is usage, and its context ends with its time.
func (p *program) command(l limit, outputs []string, do func(context.Context, *cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		server, err := p.serverNamed(cmd)
		if err != nil {
			return err
		}
		p.server = server
		if p.flags.noColor || p.getenv("NO_COLOR") != "" {
			p.colored = false
		}
		if !slices.Contains(outputs, p.flags.output) {
			return usagef("-o %s is not a form of %s: want one of %s", p.flags.output, cmd.CommandPath(), strings.Join(outputs, ", "))
		}
		if p.flags.timeout <= 0 {
			return usagef("--command-timeout %s: must be above 0", p.flags.timeout)
		}
		ctx := cmd.Context()
		if l == limited || cmd.Flags().Changed("command-timeout") {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, p.flags.timeout)
			defer cancel()
		}
		err = asFlags(do(ctx, cmd, args))
		if err == nil {
			return nil
		}
		if f, ok := err.(*failure); ok {
			return f
		}
		var inner *failure
		if errors.As(err, &inner) {
			return &failure{inner.code, err}
		}
		if outOfTime(ctx) && fromStore(err) {
			late := fmt.Errorf("not done within %s (--command-timeout)", p.flags.timeout)
			var n *noted
			if errors.As(err, &n) {
				late = fmt.Errorf("%w; %s", late, n.note)
			}
			return &failure{exitAgain, late}
		}
		return &failure{codeOf(err), err}
	}
}

// outOfTime reports whether ctx's time is over. A connection whose deadline comes
// from ctx notices a moment earlier than ctx itself.
func outOfTime(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < 20*time.Millisecond
}

// by says who acts.
func (p *program) by() string {
	if by := cmp.Or(p.flags.by, p.getenv("REDRIVE_BY")); by != "" {
		return by
	}
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return jobs.CutBy(name + "@" + host)
}

// checkBy refuses a name that the ledger would not keep.
func (p *program) checkBy() error {
	if p.flags.by != "" {
		if err := jobs.CheckBy(p.flags.by); err != nil {
			return usagef("--by: %w", err)
		}
	} else if by := p.getenv("REDRIVE_BY"); by != "" {
		if err := jobs.CheckBy(by); err != nil {
			return usagef("REDRIVE_BY: %w", err)
		}
	}
	return nil
}
