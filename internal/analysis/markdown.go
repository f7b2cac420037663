package analysis

import (
	"fmt"
	"io"
	"strings"
	"time"

	"redrive/internal/policy"
)

// WriteMarkdown writes r for people: findings first, then five sections for each kind.
// The error is w's.
func (r *Record) WriteMarkdown(w io.Writer) error {
	m := &markdown{}
	m.line("# Retry decision record")
	m.line("")
	m.line("Computed from the configuration. Figures that depend on a load are for: %s.", r.Load.text())
	m.line("")
	m.findings(r.Findings)
	for i := range r.Kinds {
		m.kind(&r.Kinds[i])
	}
	_, err := io.WriteString(w, m.b.String())
	return err
}

func (l LoadRecord) text() string {
	perSecond := "each dependency's own load"
	if l.PerSecond != nil {
		perSecond = number(*l.PerSecond) + " first attempts/s at each dependency"
	}
	return fmt.Sprintf("%s, %s %% of calls timing out, %s, an outage of %s, a request path that sends %s in its slot",
		perSecond, number(l.Failing*100), count(l.Processes, "worker", "workers"), msText(l.OutageMS), count(l.ResendsInRequest+1, "time", "times"))
}

type markdown struct{ b strings.Builder }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n", args...) }

// table writes a table; cells may hold anything.
func (m *markdown) table(head []string, rows [][]string) {
	m.row(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	m.row(rule)
	for _, row := range rows {
		m.row(row)
	}
	m.line("")
}

var cell = strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ")

func (m *markdown) row(cells []string) {
	for _, c := range cells {
		m.b.WriteString("| " + cell.Replace(c) + " ")
	}
	m.line("|")
}

func (m *markdown) findings(list []Finding) {
	m.line("## Findings")
	m.line("")
	if len(list) == 0 {
		m.line("None.")
		m.line("")
		return
	}
	rows := make([][]string, len(list))
	for i, f := range list {
		rows[i] = []string{string(f.Severity), code(f.ID), code(f.Path), f.What, f.Why, f.Want}
	}
	m.table([]string{"", "finding", "where", "what", "why it matters", "what would be right"}, rows)
}

func (m *markdown) kind(k *KindRecord) {
	m.line("## %s at %s", k.Kind, k.Dependency)
	m.line("")
	m.policy(&k.Policy, &k.Slots)
	m.failures(&k.Failures)
	m.idempotency(&k.Idempotency, &k.Policy)
	m.slots(&k.Slots)
	m.observability(&k.Observability)
}

func (m *markdown) policy(p *PolicySection, s *SlotSection) {
	m.line("### 1. Policy")
	m.line("")
	m.line("`%s`, with base %s and cap %s. At most %s that count (not_sent, 429 and refused credentials do not); each lasts at most %s; none begins with less than %s before the deadline, %s after acceptance unless the operation brings its own.",
		p.Formula, msText(p.BackoffBaseMS), msText(p.BackoffCapMS), count(p.MaxAttempts, "attempt", "attempts"), msText(p.TimeoutMS), msText(p.MinResponseMS), msText(p.DeadlineMS))
	m.line("")
	if len(p.Delays) > 0 {
		rows := make([][]string, len(p.Delays))
		for i, d := range p.Delays {
			which := fmt.Sprint(d.First)
			if d.Last > d.First {
				which = fmt.Sprintf("%d to %d", d.First, d.Last)
			}
			rows[i] = []string{which, msText(d.MinMS), msText(d.MeanMS), msText(d.MaxMS)}
		}
		m.table([]string{"retry", "least wait", "mean", "longest"}, rows)
	}
	m.line("- Retry span: %s on average (attempts fail at once), at most %s (attempts time out, longest waits), against a deadline of %s. Hints, the breaker and a lack of tokens make it longer.",
		msText(p.MeanSpanMS), msText(p.LongestSpanMS), msText(p.DeadlineMS))
	b := p.Budget
	m.line("- Budget: most extra calls in an hour at %s/s = cap %d + ratio %s x %s first attempts (of 3601 s) + floor %s/s x 3600 s = %s; %s calls for each first attempt at most. Probes and the drain lane are on top.",
		number(s.PerSecond), b.Cap, number(b.Ratio), number(s.PerSecond*3601), number(b.FloorPerSecond), number(b.ExtraPerHour), number(b.CallsPerFirst))
	m.breaker(p.Breaker, s.Failing)
	d := p.Drain
	drains := "never"
	if d.DrainsInMS != nil {
		drains = "in " + msText(*d.DrainsInMS) + ", the ramp included"
	}
	m.line("- Drain: an outage leaves %s operations behind; they leave %s, at %s calls/s at best (lane at most %s/s).", number(d.Backlog), drains, number(d.PerSecond), number(d.MaxPerSecond))
	m.line("")
}

func (m *markdown) breaker(b BreakerRecord, failing float64) {
	run := "no run of failures opens it"
	if b.Consecutive > 0 {
		run = fmt.Sprintf("or %d in a row while there are fewer", b.Consecutive)
	}
	slow := "no call is slow"
	if b.SlowCallMS > 0 {
		slow = "slower than " + msText(b.SlowCallMS) + " is a failure"
	}
	m.line("- Breaker: opens at %s of at least %d results in %s, %s; %s. Open %s, doubling to %s; %s; ramp %s. At this load it opens %s if all calls time out, and %s if %s %% do.",
		number(b.FailureRate), b.MinCalls, msText(b.WindowMS), run, slow, msText(b.OpenMS), msText(b.MaxOpenMS), count(b.Probes, "probe", "probes"), msText(b.RampMS),
		after(b.OpensWhenDownMS, "never"), after(b.OpensAtFailingMS, "by chance only"), number(failing*100))
}

func after(ms *int64, never string) string {
	if ms == nil {
		return never
	}
	return "after " + msText(*ms)
}

func (m *markdown) failures(f *FailureSection) {
	m.line("### 2. What each answer leads to")
	m.line("")
	m.line("For a first attempt; waits are those of the first retry. Where an earlier attempt is unknown, an end waits until that one is settled.")
	m.line("")
	if len(f.Rules) > 0 {
		rows := make([][]string, len(f.Rules))
		for i, r := range f.Rules {
			processed := string(r.Processed)
			if processed == "" {
				processed = "as the table has it"
			}
			rows[i] = []string{r.Row, code(r.When), processed, string(r.Verdict), r.Then}
		}
		m.line("Rules of the dependency, asked first, in this order:")
		m.line("")
		m.table([]string{"rule", "when", "processed", "verdict", "then"}, rows)
		m.line("The table, for what no rule knows:")
		m.line("")
	}
	rows := make([][]string, len(f.Table))
	for i, r := range f.Table {
		counted := "yes"
		if !r.Counted {
			counted = "no"
		}
		rows[i] = []string{strings.Join(r.Answers, ", "), string(r.Processed), string(r.Verdict), counted, r.Then}
	}
	m.table([]string{"answer", "processed", "verdict", "counts", "then"}, rows)
	rows = make([][]string, len(f.Limits))
	for i, r := range f.Limits {
		rows[i] = []string{r.When, r.Then}
	}
	m.table([]string{"whatever the answer", "then"}, rows)
}

func (m *markdown) idempotency(s *IdempotencySection, p *PolicySection) {
	m.line("### 3. Idempotency")
	m.line("")
	m.line("- Class: %s. Mechanism: %s.", s.Class, s.Mechanism)
	if s.KeyWindowMS != nil {
		lease := policy.ClaimLease(time.Duration(p.TimeoutMS) * time.Millisecond).Milliseconds()
		verdict := "The window is long enough."
		if !*s.WindowSuffices {
			verdict = "The window is too short."
		}
		m.line("- Window: the gateway keeps a key for %s; a resend is safe for min(0.8 x %s, %s - 2 x lease of %s) = %s after the first send. The longest retry span within the deadline is %s. %s",
			msText(*s.KeyWindowMS), msText(*s.KeyWindowMS), msText(*s.KeyWindowMS), msText(lease), msText(*s.SafeWindowMS), msText(min(p.LongestSpanMS, p.DeadlineMS)), verdict)
	}
	if q := s.Inquiry; q == nil {
		m.line("- Inquiry: none. Nobody can be asked what became of an unknown outcome.")
	} else {
		found := "It cannot learn that nothing arrived."
		if q.NotFound {
			found = "Not found, said twice: " + q.AfterNotFound + "."
		}
		m.line("- Inquiry: `%s`, after a settle time of %s, given up after %s. %s Failed means: %s.", q.Request, msText(q.SettleMS), msText(q.GiveUpAfterMS), found, q.FailedMeans)
	}
	m.line("- A timeout: %s.", s.Unknown)
	if s.UnknownLate != s.Unknown {
		m.line("- A timeout when a resend is no longer safe: %s.", s.UnknownLate)
	}
	m.line("")
}

func (m *markdown) slots(s *SlotSection) {
	m.line("### 4. Hold time, slots, exhaustion")
	m.line("")
	m.line("Load: %s first attempts/s (%s), %s %% of calls time out.", number(s.PerSecond), s.From, number(s.Failing*100))
	m.line("")
	m.table([]string{"", "a worker's slots", fmt.Sprintf("a request path that sends %s in its slot", count(s.RequestPath.Sends, "time", "times"))}, [][]string{
		{"hold time", s.Worker.hold(), s.RequestPath.hold()},
		{"slots wanted", s.Worker.wanted(s), s.RequestPath.wanted(s)},
		{"exhaustion", s.Worker.exhaustion(s), s.RequestPath.exhaustion(s)},
		{"all slots held", s.Worker.fills(s), s.RequestPath.fills(s)},
		{"bears", s.Worker.bears(s), s.RequestPath.bears(s)},
	})
	m.line("Exhaustion is the usual figure of the field: slots / (calls/s x share failing x hold time). It says how many seconds of arrivals use up all the slot-seconds that the pool has in one second. Below 1 s the pool is exhausted while the failure lasts, from 1 s on it never is. It is not the time until the pool is full; that is the next row. Calls that succeed, and the breaker, are left out: the first make it worse, the second ends it.")
	m.line("")
	m.line("An attempt of Redrive never waits in a slot, so that its hold time is the timeout whatever is retried. The request path is taken to have as many slots as the workers.")
	m.line("")
}

func (p PoolRecord) timeout() int64 { return p.HoldMS / int64(p.Sends) }

func (p PoolRecord) hold() string {
	return fmt.Sprintf("%s x %d = %s", msText(p.timeout()), p.Sends, msText(p.HoldMS))
}

func (p PoolRecord) wanted(s *SlotSection) string {
	return fmt.Sprintf("%s x %s x %s s = %s of %d", number(s.PerSecond), number(s.Failing), number(float64(p.HoldMS)/1000), number(p.WantedSlots), p.Slots)
}

func (p PoolRecord) exhaustion(s *SlotSection) string {
	if p.ExhaustionS == nil {
		return "never: no call times out"
	}
	verdict := "never exhausted"
	if p.FillsInMS != nil {
		verdict = "exhausted"
	}
	return fmt.Sprintf("%d / (%s x %s x %s) = %s s: %s", p.Slots, number(s.PerSecond), number(s.Failing), number(float64(p.HoldMS)/1000), number(*p.ExhaustionS), verdict)
}

func (p PoolRecord) fills(s *SlotSection) string {
	if p.FillsInMS == nil {
		return "never"
	}
	return fmt.Sprintf("after %d / (%s x %s) = %s", p.Slots, number(s.PerSecond), number(s.Failing), msText(*p.FillsInMS))
}

func (p PoolRecord) bears(s *SlotSection) string {
	if p.Bears == nil {
		return "any load: no call times out"
	}
	return fmt.Sprintf("%d / (%s x %s) = %s calls/s", p.Slots, number(s.Failing), number(float64(p.HoldMS)/1000), number(*p.Bears))
}

func (m *markdown) observability(o *ObservabilitySection) {
	m.line("### 5. What tells of trouble")
	m.line("")
	m.line("The alerts about this dependency. Those about Redis, the workers and whole processes, and what to do about each, are in docs/runbook.md.")
	m.line("")
	rows := make([][]string, len(o.Alerts))
	for i, a := range o.Alerts {
		held := a.For
		if held == "" {
			held = "at once"
		}
		rows[i] = []string{a.Alert, a.When, held, a.Severity}
	}
	m.table([]string{"alert", "when", "for", "severity"}, rows)
	rows = make([][]string, len(o.Commands))
	for i, c := range o.Commands {
		rows[i] = []string{code(c.Command), c.Shows}
	}
	m.table([]string{"command", "shows"}, rows)
}

// code writes text as code; with backticks in it, with more of them around it.
func code(text string) string {
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}

func msText(ms int64) string { return span(time.Duration(ms) * time.Millisecond) }
