package httpapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

func (d *door) registerSubmit(api huma.API) {
	registry := api.OpenAPI().Components.Schemas
	submission := registry.Schema(typeOf[jobs.Submission](), true, "")
	op := d.operation(route{id: "submit", method: http.MethodPost, path: "/v1/operations", tag: "operations",
		summary: "Hand one operation over",
		tell: "201: accepted. 200: known already; its present state is told, and a repeated request changes nothing. " +
			"After an answer that is lost, and after 503, the same request again is safe.",
		rule: rule{role: config.RoleSubmit, takes: jsonType, maxBody: maxSubmission, decodes: true}, status: http.StatusCreated,
		problems: []problemKind{conflict, backlogFull, notFit}})
	// Its body is read by hand: strictly, and sent on byte for byte.
	op.SkipValidateBody = true
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{jsonType: {Schema: submission}}}
	receipt := registry.Schema(typeOf[jobs.Receipt](), true, "")
	op.Responses = map[string]*huma.Response{"200": {Description: "Known already", Content: map[string]*huma.MediaType{jsonType: {Schema: receipt}}}}
	huma.Register(api, op, func(ctx context.Context, _ *struct{}) (*answered[jobs.Receipt], error) {
		out, err := d.submit(ctx)
		if err != nil {
			return nil, d.problem(ctx, err)
		}
		return out, nil
	})
	d.registerImport(api, submission)
}

func (d *door) submit(ctx context.Context) (*answered[jobs.Receipt], error) {
	if p := d.fit(); p != nil {
		return nil, p
	}
	sub, err := wire.DecodeSubmission(bodyOf(ctx))
	if err != nil {
		return nil, err
	}
	it, err := d.prepare(ctx, sub)
	if err != nil {
		return nil, err
	}
	receipts, err := d.storeFor(it.spec).Submit(ctx, terms.Submit(it.spec, callerOf(ctx).name), []ledger.Entry{it.entry})
	if err != nil {
		return nil, err
	}
	r := whole(receipts[0])
	if p := receiptProblem(r); p != nil {
		if r.Later {
			p = d.rooms.full(ctx, p, it.spec)
		}
		return nil, p
	}
	status := http.StatusCreated
	if r.Answer == jobs.Duplicate {
		status = http.StatusOK
	}
	return &answered[jobs.Receipt]{status, r}, nil
}

// fit says why nothing may be taken in now; nil: it may.
func (d *door) fit() *Problem {
	if reasons := d.FitFunc(); len(reasons) > 0 {
		return notFit.because("%s", strings.Join(reasons, "; "))
	}
	return nil
}

// storeFor is the ledger that waits for as many replicas as a kind demands.
func (d *door) storeFor(spec jobs.KindSpec) *ledger.Ledger {
	return d.Ledger.WaitingFor(spec.WaitReplicas)
}

// item is a submission that is ready to be written.
type item struct {
	sub   *jobs.Submission
	spec  jobs.KindSpec
	entry ledger.Entry
}

// prepare checks a submission and fixes when its first attempt here is due: at once, or
// a backoff after what the request path sent.
func (d *door) prepare(ctx context.Context, sub *jobs.Submission) (item, error) {
	spec, err := d.kinds.spec(ctx, sub.Kind, "body.kind")
	if err != nil {
		return item{}, err
	}
	entry, err := ledger.Prepare(sub, spec)
	if err != nil {
		return item{}, err
	}
	a := sub.Attempted
	if a == nil {
		return item{sub, spec, entry}, nil
	}
	if a.Outcome == jobs.OutcomeUnknown && spec.BaseURL == "" {
		return item{}, &ledger.FieldError{Field: "attempted", Err: fmt.Errorf("where kind %s is sent to is not known here: start a worker with it, which publishes it", spec.Kind)}
	}
	backoff := policy.Backoff{Base: terms.MS(spec.BackoffBaseMS), Cap: terms.MS(spec.BackoffCapMS)}
	entry.Delay = backoff.Delay(max(a.Attempts, 1), rand.Float64)
	if at, err := time.Parse(time.RFC3339, a.FirstSentAt); err == nil {
		now, err := d.clock.now(ctx)
		if err != nil {
			return item{}, err
		}
		if w := wire.FutureWarning("first_sent_at", at, now); w != "" {
			entry.Warnings = append(entry.Warnings, w)
		}
	}
	return item{sub, spec, entry}, nil
}

// whole is a receipt whose lists are there, if empty.
func whole(r jobs.Receipt) jobs.Receipt {
	if r.Differs == nil {
		r.Differs = []string{}
	}
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	return r
}

// receiptProblem is what stands against a submission; nil: it was taken.
func receiptProblem(r jobs.Receipt) *Problem {
	why := "refused"
	if r.Error != nil {
		why = *r.Error
	}
	var p *Problem
	switch {
	case r.Answer == jobs.Conflict:
		p = conflict.because("%s is known with another %s", r.Operation, strings.Join(r.Differs, ", "))
	case r.Answer == jobs.Unsure:
		p = unsure.because("%s is written, but not yet on the replicas asked for: submit the same again", r.Operation)
	case r.Later:
		p = backlogFull.because("%s: %s", r.Operation, why)
	case r.Barred:
		p = notInState.because("%s: %s", r.Operation, why)
	case r.Answer == jobs.Refused:
		p = invalid.because("%s: %s", r.Operation, why)
	default:
		return nil
	}
	p.Receipt = &r
	return p
}
