package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/operator"
)

func (d *door) registerBulk(api huma.API) {
	act := func(id, path, tag, summary, tell string) route {
		return route{id: id, method: http.MethodPost, path: path, tag: tag, summary: summary, tell: tell,
			rule: rule{role: config.RoleOperate, takes: jsonType, maxBody: maxNamed}, problems: []problemKind{busy, notInState}}
	}
	const goesOn = "It is written to the audit and as a batch before anything is changed. An action that takes longer than two seconds goes on " +
		"in the worker (202, with its batch: see /v1/batches); should the worker end, the same request goes on with the rest."
	const choose = "Choose by operations or by filter. " + goesOn
	serve(d, api, act("cancel-operations", "/v1/operations:cancel", "operations", "Stop many operations for good",
		choose+" A filter chooses among operations on their way, unless it names states."), d.cancelMany)
	reconcile := act("reconcile-operations", "/v1/operations:reconcile", "operations", "Have the dependencies asked what became of many operations", goesOn+
		" Those that only the dependency knows are taken in without a request; nothing is done if somebody must be asked about a kind that nobody knows.")
	reconcile.problems = append(reconcile.problems, notFit, backlogFull)
	serve(d, api, reconcile, d.reconcileMany)
	serve(d, api, act("resolve-operations", "/v1/operations:resolve", "operations", "Say what a person found out about many operations",
		"A finding is about one operation, so there is no filter. "+goesOn), d.resolveMany)
	serve(d, api, act("requeue-dead-letters", "/v1/dead-letters/requeue", "dead letters", "Send dead letters on their way again",
		choose+" One that may have taken effect is refused, unless a resend is safe. With dry_run nothing is changed. With canary so many go first, and the rest only if all of them succeeded."), d.requeue)
	serve(d, api, act("discard-dead-letters", "/v1/dead-letters/discard", "dead letters", "Give dead letters up: they become cancelled",
		choose+" One that may have taken effect is refused."), d.discard)
	serve(d, api, route{id: "list-batches", method: http.MethodGet, path: "/v1/batches", tag: "batches",
		summary: "List bulk actions, newest first", rule: rule{role: config.RoleRead}}, d.batches)
	serve(d, api, route{id: "get-batch", method: http.MethodGet, path: "/v1/batches/{batch}", tag: "batches",
		summary: "Tell what became of the operations of a bulk action so far", rule: rule{role: config.RoleRead}, problems: []problemKind{notFound}}, d.batch)
	serve(d, api, route{id: "get-batch-outcome", method: http.MethodGet, path: "/v1/batches/{batch}/outcome", tag: "batches",
		summary: "Tell what a bulk action came to, operation by operation",
		tell:    "Only the worker that did it knows, of its last few, and once it is over: else 404, and the batch has the counts.",
		rule:    rule{role: config.RoleRead}, problems: []problemKind{notFound}}, d.outcome)
	stop := act("stop-batch", "/v1/batches/{batch}/stop", "batches", "Put back what a requeue sent on its way and was not sent since", "It may be repeated.")
	stop.problems = append(stop.problems, notFound)
	serve(d, api, stop, d.stopBatch)
}

type requeueInput struct {
	Body struct {
		Order
		Choice
		MoreAttempts *int   `json:"more_attempts,omitempty" minimum:"1" maximum:"1000" doc:"granted on top, to 1000 in all; not given: as many as leave 3"`
		Deadline     string `json:"deadline,omitempty" doc:"a span from when each is due, or RFC 3339; not given: each keeps its own"`
		Rate         string `json:"rate,omitempty" doc:"so many become due per span, such as 5/s, 300/m or 1000/h; not given: all at once"`
		Canary       *int   `json:"canary,omitempty" minimum:"1" doc:"so many first"`
		CanaryWait   string `json:"canary_wait,omitempty" doc:"for what becomes of them, such as 5m, which is the default"`
		DryRun       bool   `json:"dry_run,omitempty" doc:"change nothing, say what would happen"`
	}
}

func (d *door) requeue(ctx context.Context, in *requeueInput) (*answered[BulkDone], error) {
	words := operator.RequeueWords{MoreAttempts: in.Body.MoreAttempts, Deadline: in.Body.Deadline, Rate: in.Body.Rate, Canary: in.Body.Canary}
	if text := in.Body.CanaryWait; text != "" {
		wait, err := spanOf("body.canary_wait", text, config.MaxDuration)
		if err != nil {
			return nil, err
		}
		words.CanaryWait = &wait
	}
	plan, err := words.Plan()
	if err != nil {
		return nil, inBody("body.", err)
	}
	return d.act(ctx, "requeue", in.Body.Order, func(ctx context.Context) (bulk, error) {
		o, err := d.operator(ctx)
		if err != nil {
			return bulk{}, err
		}
		set, more, err := d.chooseDead(ctx, o, in.Body.Choice)
		if err != nil {
			return bulk{}, err
		}
		if err := o.CheckPlan(ctx, plan); err != nil {
			return bulk{}, inBody("body.", err)
		}
		out := bulk{chosen: set.Len(), more: more}
		if !in.Body.DryRun {
			out.do = func(ctx context.Context, order operator.Order) (operator.Report, error) {
				return o.Requeue(ctx, set, plan, order)
			}
			return out, nil
		}
		dry, err := o.DryRun(ctx, set, plan)
		out.dry = &dry
		return out, err
	})
}

type endInput struct {
	Body struct {
		Order
		Choice
		DryRun bool `json:"dry_run,omitempty" doc:"change nothing: chosen says how many there are"`
	}
}

func (d *door) discard(ctx context.Context, in *endInput) (*answered[BulkDone], error) {
	return d.end(ctx, "discard", in, d.chooseDead, (*operator.Operator).Discard)
}

func (d *door) cancelMany(ctx context.Context, in *endInput) (*answered[BulkDone], error) {
	return d.end(ctx, "cancel", in, func(ctx context.Context, o *operator.Operator, c Choice) (operator.Set, bool, error) {
		return d.choose(ctx, o, c, operator.OpenStates)
	}, (*operator.Operator).Cancel)
}

// chooseFunc fixes the set of an action; more: more match than one request takes.
type chooseFunc func(context.Context, *operator.Operator, Choice) (set operator.Set, more bool, err error)

// endFunc is [operator.Operator.Cancel] or [operator.Operator.Discard].
type endFunc func(*operator.Operator, context.Context, operator.Set, operator.Order) (operator.Report, error)

func (d *door) end(ctx context.Context, name string, in *endInput, choose chooseFunc, end endFunc) (*answered[BulkDone], error) {
	return d.act(ctx, name, in.Body.Order, func(ctx context.Context) (bulk, error) {
		o, err := d.operator(ctx)
		if err != nil {
			return bulk{}, err
		}
		set, more, err := choose(ctx, o, in.Body.Choice)
		out := bulk{chosen: set.Len(), more: more}
		if !in.Body.DryRun {
			out.do = func(ctx context.Context, order operator.Order) (operator.Report, error) {
				return end(o, ctx, set, order)
			}
		}
		return out, err
	})
}

type reconcileManyInput struct {
	Body struct {
		Order
		Operations  []string `json:"operations" minItems:"1" maxItems:"1000" nullable:"false" doc:"by name, KIND/KEY"`
		FirstSentAt string   `json:"first_sent_at,omitempty" format:"date-time" doc:"of those that are not in the ledger: when they were first sent; now, if it is not known"`
	}
}

func (d *door) reconcileMany(ctx context.Context, in *reconcileManyInput) (*answered[BulkDone], error) {
	firstSent, err := instantOf("body.first_sent_at", in.Body.FirstSentAt)
	if err != nil {
		return nil, err
	}
	ids, err := named("body.operations[%d]", in.Body.Operations)
	if err != nil {
		return nil, err
	}
	if p := d.fit(); p != nil { // what is not in the ledger is taken in
		return nil, p
	}
	return d.act(ctx, "reconcile", in.Body.Order, func(ctx context.Context) (bulk, error) {
		o, err := d.operator(ctx)
		if err != nil {
			return bulk{}, err
		}
		for i, name := range in.Body.Operations { // before anything is done
			if id, err := jobs.ParseID(name); err == nil && !o.Knows(id.Kind) {
				return bulk{}, invalid.at(fmt.Sprintf("body.operations[%d]", i), unknownKindError{id.Kind, slices.Sorted(maps.Keys(o.Known()))})
			}
		}
		return bulk{chosen: len(ids), do: func(ctx context.Context, order operator.Order) (operator.Report, error) {
			return o.Reconcile(ctx, ids, firstSent, order)
		}}, nil
	})
}

// instantOf reads an instant; zero where it is not given.
func instantOf(location, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, invalid.at(location, errors.New("not an RFC 3339 instant such as 2026-11-30T09:14:00Z"))
	}
	return t, nil
}
