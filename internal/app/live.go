package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"

	"redrive/internal/attempt"
	"redrive/internal/config"
	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// live asks the inquiries of a configuration whose secrets are resolved. A gateway
// only reads them, and nothing is written here.
type live struct {
	*check
	client  *gateway.Client
	headers attempt.HeaderFunc
}

// live asks each inquiry for an operation that cannot exist, and that of known for it.
func (k *check) live(ctx context.Context, known *jobs.ID) {
	l := &live{check: k, client: gateway.New(gateway.Options{UserAgent: "redrive/" + build().version}),
		headers: attempt.Headers(k.c, k.program.getenv)}
	asked := false
	for _, name := range slices.Sorted(maps.Keys(k.c.Kinds)) {
		if kind := k.c.Kinds[name]; kind.Inquiry != nil {
			asked = true
			for _, credential := range credentialsOf(k.c.Dependencies[kind.Dependency]) {
				l.stranger(ctx, kind, credential)
			}
		}
	}
	if !asked {
		k.warn("no kind has an inquiry: there is nothing to ask")
	}
	if known != nil {
		l.known(ctx, *known)
	}
}

// credentialsOf lists the credentials that an inquiry may be made under. The one
// without a name is left out where only the named ones carry anything.
func credentialsOf(d *config.Dependency) []string {
	names := slices.Sorted(maps.Keys(d.Credentials))
	if len(d.Headers) > 0 || len(names) == 0 {
		names = append(names, jobs.DefaultCredential)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}

// stranger asks for an operation that nobody can have submitted: whatever a path may
// use is the same random text. Any answer but "not found" means that the inquiry
// would take one operation for another, or never finds out.
func (l *live) stranger(ctx context.Context, kind *config.Kind, credential string) {
	made := "redrive-check-" + rand.Text()
	o := jobs.Operation{Kind: kind.Name, Key: jobs.Key(made), IdempotencyKey: made, Credential: credential}
	params, results := kind.Inquiry.Needs()
	path, err := jobs.RenderInquiryPath(kind.Inquiry.Path, o.Key, made, allTo(params, made), allTo(results, made))
	if err != nil {
		l.wrong("%s: %s", inquiryOf(kind), err)
		return
	}
	says, text := l.ask(ctx, kind, o, path)
	about := fmt.Sprintf("%s%s: asked for %s, which cannot exist: %s", inquiryOf(kind), under(credential), made, text)
	if says != jobs.InquiryNotFound {
		l.wrong("%s; want not_found", about)
		return
	}
	l.ok("%s", about)
}

// known asks for an operation that the gateway should know, with what the ledger
// holds of it if it is there.
func (l *live) known(ctx context.Context, id jobs.ID) {
	kind := l.c.Kinds[id.Kind]
	switch {
	case kind == nil:
		l.wrong("--known %s: this configuration has no kind %s", id, id.Kind)
		return
	case kind.Inquiry == nil:
		l.wrong("--known %s: kind %s has no inquiry", id, id.Kind)
		return
	}
	o, params, from, err := l.operation(ctx, kind, id)
	if err != nil {
		l.wrong("--known %s: %s", id, ledger.Explain(err))
		return
	}
	path, err := jobs.RenderInquiryPath(kind.Inquiry.Path, id.Key, o.IdempotencyKey, params, o.Result)
	if err != nil {
		l.wrong("--known %s (%s): %s", id, from, err)
		return
	}
	says, text := l.ask(ctx, kind, o, path)
	about := fmt.Sprintf("%s%s: asked for %s (%s): %s", inquiryOf(kind), under(o.Credential), id, from, text)
	switch says {
	case jobs.InquiryNothing:
		l.wrong("%s", about)
	case jobs.InquiryNotFound:
		l.wrong("%s; if the gateway does know it, the inquiry looks in the wrong place, and what took effect would count as not applied", about)
	default:
		l.ok("%s", about)
	}
}

// operation reads what an inquiry needs of an operation, and says where from.
func (l *live) operation(ctx context.Context, kind *config.Kind, id jobs.ID) (o jobs.Operation, params map[string]string, from string, err error) {
	rdb, _, err := l.program.connect(l.c, ledger.ConnectOptions{})
	if err != nil {
		return o, nil, "", err
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	d, err := ledger.New(rdb, l.c.Redis.Namespace).Get(ctx, kind.Dependency, id, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		o = jobs.Operation{Kind: id.Kind, Key: id.Key, IdempotencyKey: string(id.Kind) + ":" + string(id.Key), Credential: jobs.DefaultCredential}
		return o, nil, "not in the ledger", nil
	}
	if err != nil {
		return o, nil, "", err
	}
	return d.Operation, d.Request.Params, "from the ledger", nil
}

// ask makes one inquiry and says in words what came of it. The answer itself is not
// shown: it may hold what is nobody's business.
func (l *live) ask(ctx context.Context, kind *config.Kind, o jobs.Operation, path string) (jobs.InquiryAnswer, string) {
	d := l.c.Dependencies[kind.Dependency]
	header, err := l.headers(d.Name, o.Credential)
	if err != nil {
		return jobs.InquiryNothing, err.Error()
	}
	q := gateway.Question{Method: kind.Inquiry.Method, Path: path, BaseURL: d.BaseURL, Header: header, Timeout: d.Timeout}
	if o.CorrelationID != nil {
		q.CorrelationID = *o.CorrelationID
	}
	a := l.client.Ask(ctx, q)
	says, rule, err := kind.Inquiry.Read.Read(a.Sample)
	switch {
	case says != jobs.InquiryNothing:
		return says, fmt.Sprintf("status %d, the rule %s fired", a.Sample.Status, rule)
	case a.Err != "":
		return says, fmt.Sprintf("%s (%s)", err, a.Err)
	default:
		return says, fmt.Sprintf("status %d: %s", a.Sample.Status, err)
	}
}

// allTo maps each name to value.
func allTo(names []string, value string) map[string]string {
	m := make(map[string]string, len(names))
	for _, name := range names {
		m[name] = value
	}
	return m
}

func inquiryOf(kind *config.Kind) string { return "operations." + string(kind.Name) + ".inquiry" }

func under(credential string) string {
	if credential == jobs.DefaultCredential {
		return ""
	}
	return " under credential " + credential
}
