package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/gateway"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

// judgeBy is what answers to attempts of a kind are judged by, now.
func (c *conveyor) judgeBy(k *kind) attempt.Terms {
	return attempt.Terms{MaxAttempts: k.maxAttempts, Backoff: k.backoff, MinResponse: c.d.terms.MinResponse, SlowCall: c.d.slowCall,
		HasInquiry: k.inquiry != nil, Rules: c.d.rules, Results: k.results, Paused: c.paused.Load()}
}

// read says what an answer means and what comes next.
func (c *conveyor) read(k *kind, g *ledger.Grant, answer gateway.Answer, startedAt time.Time) ledger.Result {
	c.countReplay(k, answer)
	res, errs := c.judgeBy(k).Judge(g, answer, startedAt, c.r.random)
	c.complain(g, errs)
	return res
}

// complain logs that an expression could not be evaluated, once for each in this
// process: a rule that misses a key of many answers would fill the log. A
// [policy.RuleError] names the rule and never holds a value of the answer.
func (c *conveyor) complain(g *ledger.Grant, errs []error) {
	for _, err := range errs {
		message := "result left out"
		what := message
		var re *policy.RuleError
		if errors.As(err, &re) && re.Index >= 0 {
			message, what = "rule cannot be evaluated and does not match", fmt.Sprint("rule ", re.Index)
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
