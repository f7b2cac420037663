package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"redrive/internal/analysis"
	"redrive/internal/config"
	"redrive/internal/httpapi"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

func (p *program) checkCommand() *cobra.Command {
	var offline, live bool
	var known string
	load := analysis.DefaultLoad()
	c := &cobra.Command{
		Use:   "check",
		Short: "Say what is wrong with the configuration, its secrets and the Redis, and where",
		Long: `Say what is wrong with the configuration, its secrets and the Redis, and where.
It changes nothing. The exit code is 1 if anything is wrong. What the configuration leads
to is worked out for a load, as in worker policy; state your own with the same flags.

With --live it also asks each inquiry for an operation that cannot exist, which must
be answered not_found, and with --known for one that the gateway knows.`,
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&offline, "offline", false, "look at the file alone: no secrets, no Redis (for CI)")
	c.Flags().BoolVar(&live, "live", false, "also ask the inquiry of each kind, under each credential, at the real gateway")
	c.Flags().StringVar(&known, "known", "", "with --live: an operation that the gateway knows, `KIND/KEY`, to ask for too")
	c.MarkFlagsMutuallyExclusive("offline", "live")
	loadFlags(c, &load)
	c.RunE = p.begin(func(c *cobra.Command, _ []string) error {
		id, err := knownFlag(known, live)
		if err != nil {
			return err
		}
		if err := checkLoad(load); err != nil {
			return err
		}
		k := &check{program: p}
		k.config(offline, load)
		if k.c != nil && !offline {
			k.redis(c.Context())
		}
		if live && k.resolved {
			k.live(c.Context(), id)
		}
		return k.verdict()
	})
	return c
}

// knownFlag reads --known; nil: it is not given.
func knownFlag(known string, live bool) (*jobs.ID, error) {
	if known == "" {
		return nil, nil
	}
	if !live {
		return nil, usageErrorf("--known %s: only --live asks the gateway: add it", known)
	}
	id, err := jobs.ParseID(known)
	if err != nil {
		return nil, usageErrorf("--known: %w", err)
	}
	return &id, nil
}

// check collects what a person should know.
type check struct {
	program          *program
	c                *config.Config // nil when it could not be read
	resolved         bool           // its secrets are all there
	errors, warnings int
}

func (k *check) say(tag, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	// What has several lines, such as the place of a mistake, stays under its tag.
	fmt.Fprintf(k.program.stdout, "%-8s %s\n", tag, strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n         "))
}

func (k *check) ok(format string, args ...any) { k.say("ok", format, args...) }

func (k *check) warn(format string, args ...any) {
	k.warnings++
	k.say("warning", format, args...)
}

func (k *check) wrong(format string, args ...any) {
	k.errors++
	k.say("error", format, args...)
}

func (k *check) verdict() error {
	fmt.Fprintf(k.program.stdout, "%s, %s\n", countText(k.errors, "error", "errors"), countText(k.warnings, "warning", "warnings"))
	if k.errors > 0 {
		return errSaid
	}
	return nil
}

func countText(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func (k *check) config(offline bool, load analysis.Load) {
	c, err := k.program.open()
	if err != nil {
		k.wrong("%s", err)
		return
	}
	k.c = c
	k.ok("configuration %s: %s, %s", c.Path, countText(len(c.Dependencies), "dependency", "dependencies"), countText(len(c.Kinds), "kind", "kinds"))
	if !offline {
		if err := c.ResolveSecrets(k.program.getenv); err != nil {
			k.wrong("%s", err)
		} else {
			k.resolved = true
			k.ok("secrets: all there")
		}
		k.tls()
	}
	k.presets()
	k.findings(load)
}

// expiresSoon is how long before its end a certificate is warned about: time enough for
// whoever renews it by hand.
const expiresSoon = 14 * 24 * time.Hour

// tls reads the files that the API is to be served under.
func (k *check) tls() {
	leaf, err := httpapi.Leaf(k.c.TLS)
	if err != nil {
		k.wrong("%s", err)
		return
	}
	if leaf == nil {
		return
	}
	names := strings.Join(append(slices.Clone(leaf.DNSNames), addresses(leaf.IPAddresses)...), ", ")
	if names == "" {
		k.warn("tls: %s names no host: clients will refuse it", k.c.TLS.Cert)
	}
	const day = "2006-01-02 15:04 MST"
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		k.wrong("tls: %s ended %s", k.c.TLS.Cert, leaf.NotAfter.UTC().Format(day))
	case now.Before(leaf.NotBefore):
		k.wrong("tls: %s begins %s", k.c.TLS.Cert, leaf.NotBefore.UTC().Format(day))
	case now.After(leaf.NotAfter.Add(-expiresSoon)):
		k.warn("tls: %s ends %s", k.c.TLS.Cert, leaf.NotAfter.UTC().Format(day))
	default:
		k.ok("tls: %s for %s, until %s", k.c.TLS.Cert, names, leaf.NotAfter.UTC().Format(day))
	}
}

func addresses(ips []net.IP) []string {
	out := make([]string, len(ips))
	for i, ip := range ips {
		out[i] = ip.String()
	}
	return out
}

// presets shows what presets put into force, and where the file says something else.
func (k *check) presets() {
	for _, u := range k.c.PresetUses() {
		k.ok("%s", strings.Join(append([]string{fmt.Sprintf("dependencies.%s.preset %s:", u.Dependency, u.Preset.Name)}, u.Sets...), "\n  "))
		for _, o := range u.Overrides {
			k.say("override", "%s", o)
		}
	}
}

// redis looks once: a check that waits would only hide what it is asked about.
func (k *check) redis(ctx context.Context) {
	rdb, name, err := k.program.connect(k.c, ledger.ConnectOptions{})
	if err != nil {
		k.wrong("%s", err)
		return
	}
	defer rdb.Close()
	report, err := look(ctx, rdb, fitnessOptions(k.c))
	if err != nil {
		k.wrong("%s: %s", name, ledger.Explain(err))
		return
	}
	k.ok("%s: %s", name, factsText(report))
	for _, f := range report.Refusals() {
		k.wrong("%s: %s", name, f.Text)
	}
	for _, f := range report.Warnings() {
		k.warn("%s: %s", name, f.Text)
	}
	if !report.Fit() {
		return
	}
	if err := k.namespace(ctx, rdb); err != nil {
		k.wrong("%s: %s", name, ledger.Explain(err))
	}
}

// factsText lists what was read, and where from if not from INFO.
func factsText(r ledger.Report) string {
	var texts []string
	for _, f := range r.Facts {
		switch f.From {
		case ledger.Unread:
			texts = append(texts, f.Name+" unknown")
		case ledger.FromInfo, ledger.FromConfig:
			texts = append(texts, f.Name+" "+f.Value)
		default:
			texts = append(texts, fmt.Sprintf("%s %s (%s)", f.Name, f.Value, f.From))
		}
	}
	return strings.Join(texts, ", ")
}

// namespace looks at what other programs left there. The error is Redis'.
func (k *check) namespace(ctx context.Context, rdb redis.UniversalClient) error {
	l := ledger.New(rdb, k.c.Redis.Namespace)
	err := l.CheckNewerSchema(ctx)
	if errors.Is(err, ledger.ErrNewerSchema) {
		k.wrong("namespace %s: %s", l.Namespace(), err)
		return nil
	}
	if err != nil {
		return err
	}
	var binding *ledger.BindingError
	if err := l.CheckBindings(ctx, k.c.KindSpecs()); errors.As(err, &binding) {
		k.wrong("operations.%s: %s", binding.Kind, binding)
	} else if err != nil {
		return err
	}
	orphans, err := k.orphans(ctx, l)
	if err != nil {
		return err
	}
	for _, o := range orphans {
		k.wrong("namespace %s: %s", l.Namespace(), o)
	}
	if len(orphans) == 0 {
		k.ok("namespace %s: every open operation has a configuration", l.Namespace())
	}
	return nil
}

// orphans are kinds with open operations that neither this configuration nor a
// live worker knows: nobody would ever send them.
func (k *check) orphans(ctx context.Context, l *ledger.Ledger) ([]string, error) {
	deps, err := l.Dependencies(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := l.Workers(ctx)
	if err != nil {
		return nil, err
	}
	known := map[jobs.Kind]bool{}
	for name := range k.c.Kinds {
		known[name] = true
	}
	for _, w := range workers {
		for _, name := range w.Kinds {
			known[name] = true
		}
	}
	var out []string
	for _, dep := range deps {
		counts, err := l.Counts(ctx, dep)
		if err != nil {
			return nil, err
		}
		open := map[jobs.Kind]int64{}
		for _, c := range counts {
			if !c.State.Ended() && !known[c.Kind] {
				open[c.Kind] += c.N
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(open)) {
			if open[kind] > 0 {
				out = append(out, fmt.Sprintf("kind %s of dependency %s has %s, and stands neither in this configuration nor in that of a live worker",
					kind, dep, countText(int(open[kind]), "open operation", "open operations")))
			}
		}
	}
	return out, nil
}
