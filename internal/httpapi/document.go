package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
)

// registerDocument serves the OpenAPI document, last: it tells of what is registered.
// It is written when it is asked for first, as it rarely is.
func (d *door) registerDocument(api huma.API) {
	doc := api.OpenAPI()
	finish(doc)
	for _, form := range []struct {
		suffix, gives string
		write         func() ([]byte, error)
	}{{"json", jsonType, doc.MarshalJSON}, {"yaml", yamlType, doc.YAML}} {
		op := d.operation(route{id: "openapi-" + form.suffix, method: http.MethodGet, path: "/v1/openapi." + form.suffix, rule: rule{gives: form.gives}})
		op.Hidden = true
		written := sync.OnceValues(form.write)
		huma.Register(api, op, func(ctx context.Context, _ *struct{}) (*document, error) {
			text, err := written()
			if err != nil {
				return nil, d.problem(ctx, fmt.Errorf("write the OpenAPI document: %w", err))
			}
			return &document{form.gives, text}, nil
		})
	}
}

type document struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// unmarshal reads a body that was checked, in words of ours: those of package json name
// types of Go.
func unmarshal(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		return errors.New("it cannot be read")
	case wrong.Type.Kind() == reflect.Float64:
		return errors.New("a number is out of range")
	}
	// Other types have been compared with the schema, to which 5.0 and 5e0 are whole numbers.
	return fmt.Errorf("%s: want a whole number in range, written in digits alone", wrong.Field)
}

// words are the closed lists of the wire.
var words = map[reflect.Type][]any{
	typeOf[jobs.State]():       anys(jobs.States),
	typeOf[jobs.Reason]():      anys(jobs.Reasons),
	typeOf[jobs.Outcome]():     anys(jobs.Outcomes),
	typeOf[jobs.Step]():        anys(jobs.ReportedSteps),
	typeOf[jobs.Class]():       anys(jobs.Classes),
	typeOf[jobs.Verdict]():     anys(jobs.Verdicts),
	typeOf[jobs.Idempotency](): anys(jobs.Idempotencies),
	typeOf[jobs.Applied]():     {jobs.AppliedYes, jobs.AppliedNo, jobs.AppliedUnknown},
	typeOf[jobs.Flag]():        anys(jobs.Flags),
	typeOf[jobs.Answer]():      anys(jobs.Answers),
	typeOf[jobs.Hold]():        append(anys(jobs.Holds), jobs.HoldRolledBack),
	typeOf[ledger.Phase]():     anys(ledger.Phases),
	typeOf[budget.State]():     {budget.Closed, budget.Open, budget.HalfOpen},
}

// asked are the types that clients send, beside the bodies of actions.
var asked = []reflect.Type{typeOf[jobs.Submission](), typeOf[jobs.Attempted](), typeOf[Order](), typeOf[operator.FilterWords](), typeOf[Finding]()}

// stateless are the answers that may be about no operation: one that was not taken, or that
// is nowhere. Their state is then "".
var stateless = []reflect.Type{typeOf[jobs.Receipt](), typeOf[Line](), typeOf[BulkItem]()}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// finish says in the document what huma does not read off Go's types: which values may
// be null, which words a list has, and what an instant looks like.
func finish(doc *huma.OpenAPI) {
	registry := doc.Components.Schemas
	for name, schema := range registry.Map() {
		t := registry.TypeFromRef("#/components/schemas/" + name)
		if t == nil {
			continue
		}
		ofRequest := slices.Contains(asked, t) || strings.HasSuffix(name, "InputBody")
		finishFields(schema, t, ofRequest)
		if !ofRequest {
			schema.AdditionalProperties = nil // answers are only ever extended
		}
	}
	for _, path := range doc.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Put, path.Delete} {
			if op != nil {
				finishOperation(op)
			}
		}
	}
	doc.Tags = []*huma.Tag{{Name: "operations"}, {Name: "dead letters"}, {Name: "batches"}, {Name: "namespace"}, {Name: "dependencies"}, {Name: "events"}}
}

// finishFields finishes what a type has. Of requests nothing may be null: what is not given
// is left out.
func finishFields(schema *huma.Schema, t reflect.Type, ofRequest bool) {
	for _, f := range reflect.VisibleFields(t) {
		tag := strings.Split(f.Tag.Get("json"), ",")
		p := schema.Properties[tag[0]]
		if p == nil || f.Anonymous {
			continue
		}
		base, pointer := f.Type, f.Type.Kind() == reflect.Pointer
		if pointer {
			base = base.Elem()
		}
		optional := slices.Contains(tag, "omitempty")
		p.Enum = append(p.Enum, words[base]...)
		if base == typeOf[jobs.Reason]() && t == typeOf[jobs.Attempted]() {
			p.Enum = anys(jobs.ReportedReasons)
		}
		if base == typeOf[jobs.State]() && slices.Contains(stateless, t) {
			p.Enum = append(p.Enum, "")
		}
		if base.Kind() == reflect.Slice && p.Items != nil {
			p.Items.Enum = append(p.Items.Enum, words[base.Elem()]...)
			p.Nullable = p.Nullable && !optional && !ofRequest
		}
		if base == typeOf[jobs.Instant]() {
			p.Format = "date-time"
		}
		if (!pointer && base.Kind() != reflect.Map) || optional || ofRequest {
			continue
		}
		if p.Ref != "" {
			schema.Properties[tag[0]] = &huma.Schema{Description: p.Description, AnyOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}}}
			continue
		}
		p.Nullable = true
		if p.Enum != nil {
			p.Enum = append(p.Enum, nil)
		}
	}
}

// finishOperation describes each error by the problems that have its status.
func finishOperation(op *huma.Operation) {
	for _, p := range op.Parameters {
		if p.Schema.Type == huma.TypeArray {
			p.Schema.Nullable = false
		}
	}
	if done := op.Responses["200"]; slices.Contains([]string{"cancel", "reconcile", "requeue-dead-letters", "discard-dead-letters", "cancel-operations", "reconcile-operations", "resolve-operations"}, op.OperationID) {
		op.Responses["202"] = &huma.Response{Description: "Pending", Content: done.Content}
	}
	for status, response := range op.Responses {
		if response.Content[problemType] == nil {
			continue
		}
		var texts []string
		for _, k := range problemKinds {
			if strconv.Itoa(k.status) == status {
				texts = append(texts, k.name+": "+k.title)
			}
		}
		response.Description = strings.Join(texts, "; or ")
	}
}
