package config

import (
	"time"

	"redrive/internal/jobs"
)

// NewAttempts bounds how often one payment is tried under different names: operations
// that were submitted as new attempts of each other are one chain.
type NewAttempts struct {
	Limit      int           // operations of one chain within Within, the first one included; 1 (none may follow within it) to [jobs.MaxChain]; default 10
	Within     time.Duration // the window, which slides; above 0, at most 8784 h; default 720 h
	AfterNever jobs.AfterNever
}

// maxWithin is the longest window: a year of 366 days. Redis keeps what is counted as long.
const maxWithin = 8784 * time.Hour

// defaultNewAttempts are what holds for a kind that says nothing.
func defaultNewAttempts() NewAttempts {
	d := jobs.DefaultNewAttempts
	return NewAttempts{Limit: d.Limit, Within: time.Duration(d.WithinMS) * time.Millisecond, AfterNever: d.AfterNever}
}

// newAttempts reads what is written into n, which holds the defaults.
func (d *decoder) newAttempts(o *object, n *NewAttempts) {
	v, ok := o.take("new_attempts")
	if !ok {
		return
	}
	a := v.object("limit: 10, within: 720h, after_never: refuse")
	integer(a, "limit", &n.Limit)
	a.span("within", &n.Within)
	word(a, "after_never", "after_never", &n.AfterNever, jobs.AfterNevers)
	a.done()
}

// newAttempts checks the bounds of new attempts.
func (v *validator) newAttempts(path string, n NewAttempts) {
	v.between(path+".limit", int64(n.Limit), 1, jobs.MaxChain, "not even a first attempt could be made; 1 lets no other follow within the window")
	if v.positive(path+".within", n.Within, "nothing would ever be counted") {
		v.spanUpTo(path+".within", n.Within, maxWithin)
	}
	v.word(path+".after_never", "after_never", string(n.AfterNever), words(jobs.AfterNevers))
}

// spec is what is published of it.
func (n NewAttempts) spec() jobs.NewAttempts {
	return jobs.NewAttempts{Limit: n.Limit, WithinMS: ms(n.Within), AfterNever: n.AfterNever}
}
