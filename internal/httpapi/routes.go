package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
)

// Bounds on bodies that are read whole.
const (
	maxSubmission = 2 * jobs.MaxBodyBytes // a body of the greatest size, in base64 or with escapes, and the rest
	maxOrder      = 16 << 10              // of what changes something by name
)

func humaConfig(version string) huma.Config {
	json := huma.DefaultJSONFormat
	json.Unmarshal = unmarshal
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	schemas.RegisterTypeAlias(typeOf[operator.Total](), typeOf[string]()) // a decimal, as text
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "Redrive", Version: version,
				Description: "Redelivers failed operations: when the other side can bear it, never twice, never too late. docs/api.md tells roles, problems and limits."},
			Servers: []*huma.Server{{URL: "/"}},
			Components: &huma.Components{
				Schemas: schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", Description: "a token of the configuration; without any, the API is served on loopback alone"},
				},
			},
			Security: []map[string][]string{{"token": {}}},
		},
		Formats:                      map[string]huma.Format{jsonType: json, "json": json},
		DefaultFormat:                jsonType,
		RejectUnknownQueryParameters: true,
	}
}

// route is one path and method of the API.
type route struct {
	id, method, path string
	summary, tell    string
	tag              string
	rule             rule
	status           int // of success; 0: 200
	problems         []problemKind
}

// operation is how huma knows the route.
func (d *door) operation(t route) huma.Operation {
	if t.rule.places == nil {
		t.rule.places = d.requests
	}
	if t.rule.gives == "" {
		t.rule.gives = jsonType
	}
	op := huma.Operation{OperationID: t.id, Method: t.method, Path: t.path, Summary: t.summary, Tags: []string{t.tag}, DefaultStatus: t.status,
		BodyReadTimeout: -1, MaxBodyBytes: -1, // the guard has read the body by then
		Middlewares: huma.Middlewares{d.guard(t.rule)}, Description: t.rule.needs()}
	if t.tell != "" {
		op.Description += "\n\n" + t.tell
	}
	always := []problemKind{malformed, unauthorized, forbidden, badMethod, notAcceptable, wrongHost, invalid, internalProblem, redisAway}
	if t.rule.takes != "" {
		always = append(always, tooSlow, tooLarge, badMediaType, redisRefuses)
	}
	for _, k := range append(always, t.problems...) {
		op.Errors = append(op.Errors, k.status)
	}
	return op
}

// serve registers a route. handle's error is told as a [Problem].
func serve[I, O any](d *door, api huma.API, t route, handle func(context.Context, *I) (*O, error)) {
	huma.Register(api, d.operation(t), func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, d.problem(ctx, err)
		}
		return out, nil
	})
}

// handle registers a route that reads its parameters and writes its answer itself.
func (d *door) handle(api huma.API, t route, responses map[string]*huma.Response, body *huma.RequestBody, params []*huma.Param, handler http.HandlerFunc) {
	op := d.operation(t)
	op.Responses, op.RequestBody, op.Parameters = responses, body, params
	op.SkipValidateParams = true // handler does
	huma.Register(api, op, func(context.Context, *struct{}) (*streamed, error) {
		return &streamed{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			handler(w, r.WithContext(c.Context()))
		}}, nil
	})
}

type streamed struct {
	Body func(huma.Context)
}

// body is an answer of JSON.
type body[T any] struct {
	Body T
}

// answered is an answer of JSON with its status.
type answered[T any] struct {
	Status int
	Body   T
}

func (d *door) register(api huma.API) {
	d.registerSubmit(api)
	d.registerOperations(api)
	d.registerDeadLetters(api)
	d.registerBulk(api)
	d.registerNamespace(api)
	d.registerDependencies(api)
	d.registerEvents(api)
	d.registerDocument(api)
}

// problem says what an error means to the client, and tells the log of what it does not
// know.
func (d *door) problem(ctx context.Context, err error) *Problem {
	if d.ranOut(ctx, err) {
		return lateOf(ctx)
	}
	p, unknown := problemOf(err)
	if looks, _ := ctx.Value(looksKey{}).(bool); looks && fromRedis(err) && p.Type == problemURN+redisAway.name {
		p = redisAway.because("%s", ledger.Explain(err)) // there is no change that may have been made
	}
	if unknown {
		d.log.ErrorContext(ctx, "a request met an error that nobody expected", "err", err)
	}
	return p
}

// ranOut reports whether err tells that the request took too long.
func (d *door) ranOut(ctx context.Context, err error) bool {
	return lateOf(ctx) != nil && cutOff(err) && d.answers(ctx)
}

// answers reports whether Redis does, to tell a request that asks too much of it from one
// that nobody could answer.
func (d *door) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
	defer cancel()
	_, err := d.Ledger.Now(ctx)
	return err == nil
}
