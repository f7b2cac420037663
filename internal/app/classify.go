package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// sampleFlags describe an answer to be classified.
type sampleFlags struct {
	status      int
	body        string
	headers     []string
	network     string
	idempotency string
	output      string
}

func (p *program) classifyCommand() *cobra.Command {
	var f sampleFlags
	c := &cobra.Command{
		Use:   "classify DEPENDENCY --status N --idempotency CLASS",
		Short: "Say what an answer of a dependency means for an operation",
		Long: `Say what an answer of a dependency means for an operation: the rule (R1, R2, ..., or
PRESET/NAME) or the row of the table that decides, whether the other side acted, and what follows for
the idempotency class. It reads the configuration if there is one, for the rules of
the dependency, and needs neither Redis nor secrets.`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().IntVar(&f.status, "status", 0, "HTTP status of the answer")
	c.Flags().StringVar(&f.body, "body", "", "body of the answer, @FILE or @- for standard input")
	c.Flags().StringArrayVar(&f.headers, "header", nil, "header of the answer, 'Name: value'; may be repeated")
	c.Flags().StringVar(&f.network, "network", "", "instead of a status, how far the attempt got: "+joinWords(networkPhases()))
	c.Flags().StringVar(&f.idempotency, "idempotency", string(jobs.IdempotencyNone), joinWords(jobs.Idempotencies))
	c.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	c.MarkFlagsMutuallyExclusive("status", "network")
	c.MarkFlagsOneRequired("status", "network")
	c.RunE = p.begin(func(_ *cobra.Command, args []string) error { return p.classify(args[0], f) })
	return c
}

// networkPhases are the phases in which there is no answer.
func networkPhases() []policy.Phase {
	var out []policy.Phase
	for _, phase := range policy.Phases {
		if phase != policy.PhaseAnswered {
			out = append(out, phase)
		}
	}
	return out
}

// classified is the answer of worker classify.
type classified struct {
	Row       string           `json:"row"`
	Class     jobs.Class       `json:"class"`
	Processed policy.Processed `json:"processed"`
	Verdict   jobs.Verdict     `json:"verdict"`
	Delay     *string          `json:"delay"` // what the answer asks for; null: the kind's backoff, where there is a next attempt
	Settles   bool             `json:"resolves_prior_unknown"`
	Again     jobs.Again       `json:"again,omitempty"` // never: the payment must not be tried again; "": nothing is known of it
	Reason    string           `json:"reason"`
	Skipped   []string         `json:"skipped,omitempty"` // rules that cannot be evaluated on this answer, and why
}

func (p *program) classify(dependency string, f sampleFlags) error {
	if err := oneOf("output", f.output, "text", "json"); err != nil {
		return err
	}
	class, err := jobs.Parse("idempotency", f.idempotency, jobs.Idempotencies)
	if err != nil {
		return &usageError{fmt.Errorf("--idempotency: %w", err)}
	}
	rules, err := p.rulesOf(jobs.Dependency(dependency))
	if err != nil {
		return err
	}
	sample, err := p.sample(f)
	if err != nil {
		return err
	}
	c, _, ruled, skipped := rules.Classify(sample, class)
	if !ruled {
		c = policy.Classify(sample, class)
	}
	out := classified{Row: c.Row, Class: c.Class, Processed: c.Processed, Verdict: c.Verdict, Settles: c.SettlesPrior, Again: c.Again, Reason: c.Reason}
	if c.Hint.From != "" {
		wait := c.Hint.Wait.String()
		out.Delay = &wait
	}
	for _, err := range skipped {
		out.Skipped = append(out.Skipped, err.Error())
	}
	if f.output == "json" {
		return json.NewEncoder(p.stdout).Encode(out)
	}
	delay := "the kind's backoff, where there is a next attempt"
	if out.Delay != nil {
		delay = *out.Delay + " (" + c.Hint.From + ")"
	}
	settles := "no"
	if out.Settles {
		settles = "yes"
	}
	text := fmt.Sprintf("row        %s\nclass      %s\nprocessed  %s\nverdict    %s\ndelay      %s\nresolves a prior unknown  %s\nreason     %s\n",
		out.Row, out.Class, out.Processed, out.Verdict, delay, settles, out.Reason)
	if out.Again != "" {
		text += "again      " + string(out.Again) + "\n"
	}
	for _, why := range out.Skipped {
		text += "skipped    " + why + "\n"
	}
	_, err = io.WriteString(p.stdout, text)
	return err
}

// rulesOf returns the rules of a dependency, none without a configuration. It
// refuses a dependency that the configuration does not name.
func (p *program) rulesOf(dep jobs.Dependency) (*policy.Rules, error) {
	path, found, err := config.Find(p.flags.config, p.getenv)
	if err != nil || !found {
		return nil, err
	}
	c, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	d := c.Dependencies[dep]
	if d == nil {
		return nil, usageErrorf("%s has no dependency %q", path, dep)
	}
	return d.Rules, nil
}

func (p *program) sample(f sampleFlags) (policy.Sample, error) {
	if f.network != "" {
		phase, err := jobs.Parse("network phase", f.network, networkPhases())
		if err != nil {
			return policy.Sample{}, &usageError{fmt.Errorf("--network: %w", err)}
		}
		if len(f.headers) > 0 || f.body != "" {
			return policy.Sample{}, usageErrorf("--network %s: without an answer there is neither header nor body", phase)
		}
		return policy.Sample{Phase: phase}, nil
	}
	header, err := headerOf(f.headers)
	if err != nil {
		return policy.Sample{}, err
	}
	body, err := p.bodyOf(f.body)
	if err != nil {
		return policy.Sample{}, err
	}
	return policy.Sample{Phase: policy.PhaseAnswered, Status: f.status, Header: header, Body: body, WireBytes: 1, ReceivedAt: time.Now()}, nil
}

func headerOf(lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usageErrorf("--header %q: want 'Name: value'", line)
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h, nil
}

const maxSampleBytes = 1 << 20

func (p *program) bodyOf(arg string) ([]byte, error) {
	name, isFile := strings.CutPrefix(arg, "@")
	if !isFile {
		return []byte(arg), nil
	}
	r := p.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--body: %w", err)
		}
		defer f.Close() // only read from: nothing to lose
		r = f
	}
	body, err := io.ReadAll(io.LimitReader(r, maxSampleBytes))
	if err != nil {
		return nil, fmt.Errorf("--body: %w", err)
	}
	return body, nil
}
