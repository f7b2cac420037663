package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// read says what an answer means and what comes next: by the rules of the
// dependency, else by the table. Of a success it takes the kind's results.
func (c *conveyor) read(k *kind, g *ledger.Grant, answer gateway.Answer, startedAt time.Time) ledger.Result {
	c.countReplay(k, answer)
	cl, _, ruled, errs := c.d.rules.Classify(answer.Sample, g.Idempotency)
	c.complain(g, "rule cannot be evaluated and does not match", errs)
	if !ruled {
		cl = policy.Classify(answer.Sample, g.Idempotency)
	}
	res := c.decide(k, g, cl, answer, startedAt)
	if res.Outcome == jobs.OutcomeSucceeded {
		res.Values, errs = k.results.Read(answer.Sample)
		c.complain(g, "result left out", errs)
	}
	res.Said = c.d.said(cl, answer, true, c.r.random)
	return res
}

// complain logs that an expression could not be evaluated, once for each in this
// process: a rule that misses a key of many answers would fill the log. A
// [policy.RuleError] names the rule and never holds a value of the answer.
func (c *conveyor) complain(g *ledger.Grant, message string, errs []error) {
	for _, err := range errs {
		what := message
		var re *policy.RuleError
		if errors.As(err, &re) && re.Index >= 0 {
			what = fmt.Sprint("rule ", re.Index)
		} else if re != nil {
			what = fmt.Sprintf("result %s of %s", re.Field, g.ID.Kind)
		}
		if _, before := c.d.told.LoadOrStore(what, true); before {
			continue
		}
		c.r.o.Log.LogAttrs(context.Background(), slog.LevelWarn, message,
			append(about(c.d.name, g.ID, g.Attempt, g.Request.CorrelationID), slog.Any("err", err))...)
	}
}
