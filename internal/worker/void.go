package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
)

var errNoVoidKind = errors.New("the configuration does not know the kind of the void")

// voids submits what undoes a success that came too late, for the dependencies whose
// kinds ask for it.
func (r *run) voids(ctx context.Context) {
	for name, d := range r.plan.dependencies {
		if !slices.ContainsFunc(d.known, func(k jobs.Kind) bool { return d.kinds[k].void != nil }) {
			continue
		}
		ids, err := r.o.Ledger.Voids(ctx, name)
		if err != nil {
			r.failed(ctx, "outbox not read", name, err)
			return
		}
		for _, id := range ids {
			if k := d.kinds[id.Kind]; k != nil && k.void != nil {
				r.void(ctx, name, id, k.void)
			}
		}
	}
}

// voidRetry is how long a void that could not be submitted waits.
const voidRetry = time.Minute

func (r *run) void(ctx context.Context, dep jobs.Dependency, id jobs.ID, v *jobs.VoidSpec) {
	receipt, err := r.submitVoid(ctx, dep, id, v)
	switch {
	case err == nil && (receipt.Answer == jobs.Accepted || receipt.Answer == jobs.Duplicate):
		r.o.Log.LogAttrs(ctx, slog.LevelWarn, "late success is being voided", append(about(dep, id, 0, ""), slog.String("by", receipt.Operation.String()))...)
		err = r.o.Ledger.Voided(ctx, dep, id, receipt.Operation)
	default:
		attrs := append(about(dep, id, 0, ""), slog.String("answer", string(receipt.Answer)), slog.Any("err", err))
		if receipt.Error != nil {
			attrs = append(attrs, slog.String("reason", *receipt.Error))
		}
		r.o.Log.LogAttrs(ctx, slog.LevelError, "late success could not be voided yet", attrs...)
		err = r.o.Ledger.VoidLater(ctx, dep, id, voidRetry)
	}
	if err != nil {
		r.failed(ctx, "outbox not written", dep, err)
	}
}

// submitVoid hands in the operation that undoes another. Its key is made of that one's
// name, so that handing it in again is a duplicate.
func (r *run) submitVoid(ctx context.Context, dep jobs.Dependency, id jobs.ID, v *jobs.VoidSpec) (jobs.Receipt, error) {
	at := slices.IndexFunc(r.plan.specs, func(s jobs.KindSpec) bool { return s.Kind == v.Kind })
	if at < 0 {
		return jobs.Receipt{}, errNoVoidKind
	}
	spec := r.plan.specs[at]
	of, err := r.o.Ledger.Get(ctx, dep, id, nil)
	if err != nil {
		return jobs.Receipt{}, err
	}
	s, err := voidOf(id, v, spec, of)
	if err != nil {
		return jobs.Receipt{}, err
	}
	entry, err := ledger.Prepare(s, spec)
	if err != nil {
		return jobs.Receipt{}, err
	}
	terms := ledger.SubmitTerms{Terms: r.plan.termsOf(spec.Dependency), By: jobs.ByRedrive, MaxBacklog: spec.MaxBacklog, ClaimLease: policy.ClaimLease(time.Duration(spec.TimeoutMS) * time.Millisecond)}
	receipts, err := r.o.Ledger.Submit(ctx, terms, []ledger.Entry{entry})
	if err != nil {
		return jobs.Receipt{}, err
	}
	return receipts[0], nil
}

// voidOf is the submission that undoes an operation: its params, named in its body as
// well where the kind sends one.
func voidOf(id jobs.ID, v *jobs.VoidSpec, spec jobs.KindSpec, of *ledger.Detail) (*jobs.Submission, error) {
	s := &jobs.Submission{Kind: v.Kind, Key: voidKey(id), Params: map[string]string{}}
	if of.CorrelationID != nil {
		s.CorrelationID = *of.CorrelationID
	}
	if of.Traceparent != nil {
		s.Traceparent = *of.Traceparent
	}
	for name, from := range v.Params {
		var value string
		source, field, _ := strings.Cut(from, ".")
		switch source {
		case "key":
			value = string(id.Key)
		case "params":
			value = of.Request.Params[field]
		case "result":
			value = of.Result[field]
		}
		if value == "" {
			return nil, fmt.Errorf("void of %s: param %s: there is no %s", id, name, from)
		}
		s.Params[name] = value
	}
	switch spec.Method {
	case "POST", "PUT", "PATCH":
		body, err := json.Marshal(s.Params)
		if err != nil {
			return nil, fmt.Errorf("void of %s: %w", id, err)
		}
		s.Body = body
	}
	return s, nil
}

// voidKey is made of the name of the operation that is undone, cut where it would be
// longer than a key may be.
func voidKey(id jobs.ID) jobs.Key {
	name := string(id.Kind) + ":" + string(id.Key)
	if len(name) <= jobs.MaxKeyBytes {
		return jobs.Key(name)
	}
	sum := sha256.Sum256([]byte(name))
	return jobs.Key(name[:jobs.MaxKeyBytes-33] + "~" + hex.EncodeToString(sum[:16]))
}
