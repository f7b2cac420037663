package analysis

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// FailureSection says what each answer leads to.
type FailureSection struct {
	Rules  []RuleLine `json:"rules"`  // of the dependency, in the order in which they are asked; none: empty
	Table  []RowLine  `json:"table"`  // the built-in table, behind them
	Limits []EndLine  `json:"limits"` // what ends an operation whatever the answer
}

// RuleLine is one rule.
type RuleLine struct {
	Row       string           `json:"row"`
	When      string           `json:"when"`
	Processed policy.Processed `json:"processed"` // "": as the table has it for the same answer
	Verdict   jobs.Verdict     `json:"verdict"`
	Then      string           `json:"then"`
}

// RowLine joins the rows of the table that lead to the same.
type RowLine struct {
	Answers   []string         `json:"answers"`
	Rows      []string         `json:"rows"`
	Processed policy.Processed `json:"processed"`
	Verdict   jobs.Verdict     `json:"verdict"`
	Counted   bool             `json:"counted"` // against max_attempts
	Then      string           `json:"then"`
}

// EndLine is an end that does not hang on the answer.
type EndLine struct {
	When string `json:"when"`
	Then string `json:"then"`
}

func failureSection(k *config.Kind, d *config.Dependency) FailureSection {
	return FailureSection{Rules: ruleLines(k, d), Table: rowLines(k, d), Limits: endLines(k, d)}
}

// answered is one sample of what the other side can do, and how a person calls it.
type answered struct {
	name   string
	sample policy.Sample
}

// answers are samples of all that can be told apart without knowing the gateway: every
// phase in which there is no answer, every status of the table, and what it tells by
// the header or the body.
func answers() []answered {
	var list []answered
	for _, phase := range policy.Phases {
		if phase != policy.PhaseAnswered {
			list = append(list, answered{string(phase), policy.Sample{Phase: phase}})
		}
	}
	statuses := map[int]bool{}
	for _, row := range policy.Table() {
		for _, status := range row.On.Statuses {
			statuses[status] = true
		}
	}
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		list = append(list, answered{strconv.Itoa(status), answer(status)})
	}
	garbage, wait := answer(200), answer(413)
	garbage.Body = []byte("<html>")
	wait.Header = map[string][]string{"Retry-After": {"30"}}
	return append(list, answered{"200 with an unreadable body", garbage}, answered{"413 with Retry-After", wait},
		answered{"another 4xx", answer(499)}, answered{"another 5xx", answer(599)}, answered{"no HTTP status", answer(600)})
}

// answer is an answer with a body that anybody can read.
func answer(status int) policy.Sample {
	s := policy.Sample{Phase: policy.PhaseAnswered, Status: status, WireBytes: 1, Header: map[string][]string{"Content-Type": {"application/json"}}}
	if status != 204 && status != 205 {
		s.Body = []byte(`{}`)
	}
	return s
}

// decision is where the first attempt of an operation of k goes after c, and no earlier
// one is unknown; draw is the jitter.
func decision(k *config.Kind, d *config.Dependency, c policy.Classification, draw float64, change func(*policy.DecideInput)) policy.Decision {
	in := policy.DecideInput{
		C: c, Idempotency: k.Idempotency, ResendSafeFor: resendSafe(k, d), HasInquiry: k.Inquiry != nil,
		Attempt: 1, MaxAttempts: k.MaxAttempts, DeadlineIn: k.Deadline, MinResponse: d.MinResponse,
		Backoff: policyBackoff(k), CredentialRefusals: 1, Rand: func() float64 { return draw },
	}
	if policy.Counts(c) {
		in.Used = 1
	}
	change(&in)
	return policy.Decide(in)
}

func unchanged(*policy.DecideInput) {}

// then says in words where a classification leads.
func then(k *config.Kind, d *config.Dependency, c policy.Classification, change func(*policy.DecideInput)) string {
	least, most := decision(k, d, c, 0, change), decision(k, d, c, 1, change)
	if least.Next != policy.NextRetry {
		return ended(k, least)
	}
	text := fmt.Sprintf("sent again after %s to %s", span(least.Delay), span(most.Delay))
	if most.Next != policy.NextRetry { // the longest wait reaches beyond the deadline or the key's window
		text = fmt.Sprintf("sent again after %s or more, or %s where that is too long", span(least.Delay), ended(k, most))
	}
	if c.CredentialRefused {
		text += "; 3 in a row pause the credential"
	}
	return text
}

// ended says in words where a decision leads that is no retry.
func ended(k *config.Kind, d policy.Decision) string {
	switch d.Next {
	case policy.NextSucceed:
		return "succeeded"
	case policy.NextAsk:
		if k.Inquiry == nil {
			return fmt.Sprintf("dead (%s): a person looks", jobs.ReasonUnsafe)
		}
		return "unresolved: the inquiry asks what became of it"
	default:
		return fmt.Sprintf("dead (%s)", d.Reason)
	}
}

func rowLines(k *config.Kind, d *config.Dependency) []RowLine {
	lines := []RowLine{}
	for _, a := range answers() {
		c := policy.Classify(a.sample, k.Idempotency)
		line := RowLine{Processed: c.Processed, Verdict: c.Verdict, Counted: policy.Counts(c), Then: then(k, d, c, unchanged)}
		i := slices.IndexFunc(lines, func(o RowLine) bool {
			return o.Processed == line.Processed && o.Verdict == line.Verdict && o.Counted == line.Counted && o.Then == line.Then
		})
		if i < 0 {
			lines = append(lines, line)
			i = len(lines) - 1
		}
		lines[i].Answers = append(lines[i].Answers, a.name)
		if !slices.Contains(lines[i].Rows, c.Row) {
			lines[i].Rows = append(lines[i].Rows, c.Row)
		}
	}
	return lines
}

// statusIn finds the statuses that an expression names.
var statusIn = regexp.MustCompile(`\b[1-5][0-9][0-9]\b`)

func ruleLines(k *config.Kind, d *config.Dependency) []RuleLine {
	lines := []RuleLine{}
	own := 0
	for _, spec := range d.Rules.Specs() {
		row := spec.Preset + "/" + spec.Name
		if spec.Preset == "" {
			own++
			row = fmt.Sprintf("R%d", own)
		}
		c := ruled(spec, k.Idempotency)
		line := RuleLine{Row: row, When: spec.When, Processed: c.Processed, Verdict: c.Verdict, Then: then(k, d, c, unchanged)}
		if spec.Processed == "" && !statusIn.MatchString(spec.When) && !tellsProcessed(spec.Verdict) {
			line.Processed = ""
		}
		lines = append(lines, line)
	}
	return lines
}

// tellsProcessed: the verdict says by itself that the request was processed.
func tellsProcessed(v jobs.Verdict) bool {
	return v == jobs.VerdictSucceeded || v == jobs.VerdictDuplicateSuccess || v == jobs.VerdictPendingPoll
}

// ruled is what a rule makes of an answer for which it is true: with the first status
// that it names, 400 where it names none.
func ruled(spec policy.RuleSpec, class jobs.Idempotency) policy.Classification {
	status := 400
	if named := statusIn.FindString(spec.When); named != "" {
		status, _ = strconv.Atoi(named) // three digits
	}
	spec.When = "true"
	rules, err := policy.CompileRules([]policy.RuleSpec{spec})
	if err != nil {
		panic(fmt.Sprintf("analysis: a rule of a checked configuration does not compile: %v", err))
	}
	c, _, _, _ := rules.Classify(answer(status), class)
	return c
}

// endLines are the ends that hang on numbers, decided as for an answer that nobody acted
// on: what is unknown goes to the inquiry or a person first.
func endLines(k *config.Kind, d *config.Dependency) []EndLine {
	refused := policy.Classify(policy.Sample{Phase: policy.PhaseConnect}, k.Idempotency)
	lost := policy.Classify(policy.Sample{Phase: policy.PhaseWorkerLost}, k.Idempotency)
	credential := policy.Classify(answer(401), k.Idempotency)
	return []EndLine{
		{fmt.Sprintf("%d attempts were made that count", k.MaxAttempts), then(k, d, refused, func(in *policy.DecideInput) { in.Used, in.MaxAttempts = k.MaxAttempts, k.MaxAttempts })},
		{"the next attempt would end after the deadline", then(k, d, refused, func(in *policy.DecideInput) { in.DeadlineIn = time.Nanosecond })},
		{"the third worker in a row was lost", then(k, d, lost, func(in *policy.DecideInput) { in.WorkerLosses = 3 })},
		{"the third refused credential in a row, and others get through", then(k, d, credential, func(in *policy.DecideInput) { in.CredentialRefusals = 3 })},
	}
}

// becomes is what a timeout leads to while a resend is safe for so long.
func becomes(k *config.Kind, d *config.Dependency, safeFor time.Duration) string {
	c := policy.Classify(policy.Sample{Phase: policy.PhaseAnswerTimeout, WireBytes: 1}, k.Idempotency)
	return then(k, d, c, func(in *policy.DecideInput) { in.ResendSafeFor = safeFor })
}
