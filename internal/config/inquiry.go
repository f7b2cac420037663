package config

import (
	"slices"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// Inquiry says how the dependency is asked what became of an operation of a kind
// whose outcome is unknown, and what its answer leads to.
type Inquiry struct {
	Method string // GET or POST; no body is sent; default GET
	// Path begins with a slash and may use {key}, {idempotency_key}, {params.NAME} and
	// {result.NAME}; at least one of them, as it must ask about one operation. Required.
	Path string

	// Settle is how long "not found" proves nothing, from the later of the last unknown
	// attempt's end and its claim lease's end. At least the dependency's timeout.
	// Required for class none, else default 30 s.
	Settle time.Duration
	// AfterNotFoundDead: what is settled as not applied ends as dead(unresolved) and is
	// not sent again. Default: true for class none, else false.
	AfterNotFoundDead bool
	// FailedNotApplied: "failed" means that it was not applied and may go on. Default
	// false: it is final, such as a decline.
	FailedNotApplied bool
	Backoff          policy.Backoff // between two inquiries; Base above 0, Cap at least Base; default 5 s and 10 min
	GiveUpAfter      time.Duration  // from entering unresolved until a person must look; at least Settle; default 72 h

	Read *policy.Inquiry // how an answer is read. Required
	// Results say what is kept of an answer that says succeeded. Together with the
	// kind's at most [policy.MaxResults] names; nil: nothing, the default.
	Results *policy.Results
}

// NewInquiry returns the inquiry of k by GET at path, with the defaults for the rest.
// What has none is left for the caller: how answers are read, and of class none Settle.
func NewInquiry(k *Kind, path string) *Inquiry {
	q := &Inquiry{
		Method:      "GET",
		Path:        path,
		Settle:      30 * time.Second,
		Backoff:     policy.Backoff{Base: 5 * time.Second, Cap: 10 * time.Minute},
		GiveUpAfter: 72 * time.Hour,
	}
	if k.Idempotency == jobs.IdempotencyNone {
		q.Settle, q.AfterNotFoundDead = 0, true
	}
	return q
}

// ResultNames returns the names of what may be known of a success of k, sorted: what is
// kept of an attempt's answer, and of an inquiry's.
func (k *Kind) ResultNames() []string {
	names := k.Results.Names()
	if k.Inquiry != nil {
		names = append(names, k.Inquiry.Results.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Needs returns the names of the params and of the results that the path uses.
func (q *Inquiry) Needs() (params, results []string) {
	return placeholders(q.Path, "params."), placeholders(q.Path, "result.")
}

// What people write for the two bools of an Inquiry.
const (
	afterNotFoundResend = "resend"
	afterNotFoundDead   = "dead"
	failedFinal         = "final"
	failedNotApplied    = "not_applied"
)

// inquiry reads the inquiry of k, whose class is known, and compiles how its answers
// are read once all of it can be read. Where neither what is asked nor how it is read
// is written, base says both, and what else is not written; nil: there is no base.
func (d *decoder) inquiry(v value, k *Kind, base *Inquiry) *Inquiry {
	before := len(d.findings)
	q := NewInquiry(k, "")
	o := v.object("request: {path: ...}, succeeded: ...")
	if o.hasAny("request", "answers", "succeeded", "pending", "failed", "not_found") {
		base = nil // a question of one and a reading of the other would not fit
	}
	if base != nil {
		*q = *base
	}
	if v, ok := o.take("request"); ok {
		r := v.object("method: GET, path: /...")
		r.text("method", &q.Method)
		r.text("path", &q.Path)
		r.done()
	}
	spec := policy.InquirySpec{Answers: []int{200}}
	if v, ok := o.take("answers"); ok {
		spec.Answers = v.statuses()
	}
	o.expression("succeeded", &spec.Succeeded)
	o.expression("pending", &spec.Pending)
	o.expression("failed", &spec.Failed)
	o.expression("not_found", &spec.NotFound)
	if v, ok := o.take("result"); ok {
		q.Results = d.results(v)
	}
	o.span("settle", &q.Settle)
	var then string
	if word(o, "after_not_found", "after_not_found", &then, []string{afterNotFoundResend, afterNotFoundDead}); then != "" {
		q.AfterNotFoundDead = then == afterNotFoundDead
	}
	var means string
	word(o, "failed_means", "failed_means", &means, []string{failedFinal, failedNotApplied})
	if means != "" {
		q.FailedNotApplied = means == failedNotApplied
	}
	if v, ok := o.take("backoff"); ok {
		b := v.object("base: 5s, cap: 10m")
		b.span("base", &q.Backoff.Base)
		b.span("cap", &q.Backoff.Cap)
		b.done()
	}
	o.span("give_up_after", &q.GiveUpAfter)
	o.done()
	if len(d.findings) > before {
		return nil
	}
	if base != nil {
		return q
	}
	if spec.Succeeded == "" {
		d.findings = append(d.findings, finding{path: join(v.path, "succeeded"),
			message: `required: an expression that is true of the answer when the operation took effect, such as body.status == "succeeded"`})
		return nil
	}
	read, err := policy.CompileInquiry(spec)
	d.findings = append(d.findings, ruleFindings(v.path, err)...)
	q.Read = read
	return q
}

// statuses reads a list of HTTP statuses; which of them can be read is a matter of
// package policy.
func (v value) statuses() (list []int) {
	items, _ := v.list("200")
	for _, item := range items {
		if status, ok := item.integer(); ok {
			list = append(list, int(status))
		}
	}
	return list
}

// inquiry checks the inquiry of k; d is its dependency, nil if there is none.
func (v *validator) inquiry(path string, k *Kind, d *Dependency) {
	q := k.Inquiry
	if q == nil {
		return
	}
	if q.Method != "GET" && q.Method != "POST" {
		v.fail(path+".request.method", "%q is not GET or POST: an inquiry is a read, and changes nothing", q.Method)
	}
	v.inquiryPath(path+".request.path", k)
	if q.Read == nil {
		v.fail(path+".succeeded", "required: nothing says how an answer is read")
	}
	if names := k.ResultNames(); q.Results != nil && len(names) > policy.MaxResults {
		v.fail(path+".result", "together with operations.%s.result there are %d results (%s), the limit is %d", k.Name, len(names), strings.Join(names, ", "), policy.MaxResults)
	}
	v.backoff(path+".backoff", q.Backoff.Base, q.Backoff.Cap, "inquiries would follow each other without a pause")
	sound := v.settleTime(path+".settle", k, d)
	if v.positive(path+".give_up_after", q.GiveUpAfter, "every unknown outcome would go to a person at once; for that, leave the inquiry out") &&
		sound && q.GiveUpAfter < q.Settle {
		v.failFrom(path+".give_up_after", path+".settle", "%s is less than settle (%s): it would be given up before \"not found\" can prove anything",
			spanText(q.GiveUpAfter), spanText(q.Settle))
	}
}

// settleTime checks settle and reports whether it is sound.
func (v *validator) settleTime(path string, k *Kind, d *Dependency) bool {
	settle := k.Inquiry.Settle
	if settle == 0 && k.Idempotency == jobs.IdempotencyNone {
		v.fail(path, "required for class none: how long a request may still take effect after its attempt ended; at least the timeout, and the dependency's own longest processing time")
		return false
	}
	if !v.positive(path, settle, "a request may still take effect after its attempt ended") {
		return false
	}
	if d != nil && settle < d.Timeout {
		v.fail(path, "%s is less than the timeout of %s (%s): what is under way would be taken for not applied", spanText(settle), d.Name, spanText(d.Timeout))
		return false
	}
	return true
}

// inquiryPath checks that the path asks about one operation, by what is known of it.
func (v *validator) inquiryPath(path string, k *Kind) {
	template := k.Inquiry.Path
	if err := inquiryPath.check(template); err != nil {
		v.fail(path, "%v", err)
		return
	}
	if !placeholder.MatchString(template) {
		v.fail(path, "%q asks the same for every operation: it must use at least one of %s", template, inquiryPath.words)
	}
	for _, name := range placeholders(template, "result.") {
		if what := "{result." + name + "}"; slices.Contains(k.Inquiry.Results.Names(), name) && !slices.Contains(k.Results.Names(), name) {
			v.fail(path, "%s is learnt from the inquiry itself, which could never be made: ask by what is known before", what)
		} else {
			v.resultName(path, what, name, k)
		}
	}
}

// resultName refuses the name of a result that k does not keep; what is how it is
// written.
func (v *validator) resultName(path, what, name string, k *Kind) {
	names := k.ResultNames()
	switch {
	case len(names) == 0:
		v.fail(path, "%s: kind %s keeps no result: say what in operations.%s.result.%s", what, k.Name, k.Name, name)
	case !slices.Contains(names, name):
		v.fail(path, "%s: kind %s keeps no result %q%s", what, k.Name, name, orNearest(name, names))
	}
}
