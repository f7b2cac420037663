package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/wire"
)

// maxDoings entries of a dependency's audit are read for a timeline, newest first: what
// people did to one operation stands among what they did to all.
const maxDoings = 50_000

// maxNoteBytes bounds a note, which stays in the audit for a year.
const maxNoteBytes = 1000

func (d *door) registerOperations(api huma.API) {
	serve(d, api, route{id: "list", method: http.MethodGet, path: "/v1/operations", tag: "operations",
		summary: "List operations, newest first by when they entered their state",
		rule:    rule{role: config.RoleRead}}, d.list)
	serve(d, api, route{id: "get", method: http.MethodGet, path: "/v1/operations/{kind}/{key}", tag: "operations",
		summary: "Show one operation with its timeline",
		tell:    "With reveal=true the token needs the role operate too, and the look is written to the audit before anything is shown.",
		rule:    rule{role: config.RoleRead}, problems: []problemKind{notFound}}, d.get)
	serve(d, api, route{id: "timeline", method: http.MethodGet, path: "/v1/operations/{kind}/{key}/timeline", tag: "operations",
		summary: "Tell all that happened to one operation",
		rule:    rule{role: config.RoleRead}, problems: []problemKind{notFound}}, d.timeline)
	serve(d, api, route{id: "cancel", method: http.MethodPost, path: "/v1/operations/{kind}/{key}/cancel", tag: "operations",
		summary: "Stop an operation for good",
		tell: "One that is being sent is stopped when that ends (pending). One that may have taken effect keeps the wish: it is asked about first (pending) or, " +
			"where nobody can be asked, is a dead letter (unsafe) that a person must resolve.",
		rule: rule{role: config.RoleOperate, takes: jsonType, maxBody: maxOrder}, problems: []problemKind{notFound, notInState, unsure}}, d.cancel)
	serve(d, api, route{id: "reconcile", method: http.MethodPost, path: "/v1/operations/{kind}/{key}/reconcile", tag: "operations",
		summary: "Have the dependency asked what became of an operation",
		tell: "It may be one that only the dependency knows: it is asked about and nothing is sent for it; it ends succeeded or, where it was not applied, cancelled, " +
			"and its key is free again.",
		rule:     rule{role: config.RoleOperate, takes: jsonType, maxBody: maxOrder},
		problems: []problemKind{notInState, notFit, backlogFull, unsure}}, d.reconcile)
	serve(d, api, route{id: "resolve", method: http.MethodPost, path: "/v1/operations/{kind}/{key}/resolve", tag: "operations",
		summary:  "Say what a person found out about an operation that may have taken effect",
		rule:     rule{role: config.RoleOperate, takes: jsonType, maxBody: maxOrder},
		problems: []problemKind{notFound, notInState, unsure}}, d.resolve)
}

// OperationPath names one operation.
type OperationPath struct {
	Kind string `path:"kind" doc:"kind of the operation"`
	Key  string `path:"key" doc:"its key, percent-encoded where it has a slash or another byte that a path cannot have"`
}

func (p OperationPath) id() (jobs.ID, error) {
	if err := jobs.CheckName(p.Kind); err != nil {
		return jobs.ID{}, invalid.at("path.kind", err)
	}
	if err := jobs.CheckKey(p.Key); err != nil {
		return jobs.ID{}, invalid.at("path.key", err)
	}
	return jobs.ID{Kind: jobs.Kind(p.Kind), Key: jobs.Key(p.Key)}, nil
}

type getInput struct {
	OperationPath
	Reveal bool `query:"reveal" doc:"show request and answers too"`
}

func (d *door) get(ctx context.Context, in *getInput) (*body[wire.OperationView], error) {
	who := callerOf(ctx)
	if in.Reveal && !who.may(config.RoleOperate) {
		return nil, forbidden.because("token %s has not the role %s, which reveal=true needs", who.name, config.RoleOperate)
	}
	detail, spec, err := d.find(ctx, in.OperationPath)
	if err != nil {
		return nil, err
	}
	if in.Reveal { // before anything is shown: who cannot be written down sees nothing
		if err := d.Ledger.Note(ctx, detail.Dependency, detail.ID().String(), wire.ActionReveal, ledger.Actor{By: who.name}); err != nil {
			return nil, err
		}
	}
	cut, err := d.tellDoings(ctx, detail)
	if err != nil {
		return nil, err
	}
	now, err := d.Ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	among, err := d.Ledger.ChainOf(ctx, detail, spec)
	if err != nil {
		return nil, err
	}
	view := wire.ViewOf(detail, spec, among, in.Reveal, now)
	view.Cut = cut
	return &body[wire.OperationView]{view}, nil
}

// find reads one operation. spec is its kind; nil if nobody knows it.
func (d *door) find(ctx context.Context, p OperationPath) (*ledger.Detail, *jobs.KindSpec, error) {
	id, err := p.id()
	if err != nil {
		return nil, nil, err
	}
	place, spec, err := d.kinds.place(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	detail, err := d.Ledger.Get(ctx, place.Dependency, id, spec)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil, notFound.because("%s: %s", id, ledger.ErrNotFound)
	}
	return detail, spec, err
}

// tellDoings puts what people did into a timeline, and reports whether some of it may be
// missing.
func (d *door) tellDoings(ctx context.Context, detail *ledger.Detail) (cut bool, err error) {
	var since time.Time
	if detail.CreatedAt != nil {
		since = detail.CreatedAt.Time
	}
	doings, cut, err := d.Ledger.Doings(ctx, detail.Dependency, detail.ID(), since, maxDoings)
	if err == nil {
		detail.Timeline = wire.Timeline(detail.Timeline, doings)
	}
	return cut, err
}

// Timeline is all that happened to one operation.
type Timeline struct {
	Items []jobs.Event `json:"items" nullable:"false"`
	Cut   bool         `json:"cut" doc:"what people did long ago may be missing"`
}

func (d *door) timeline(ctx context.Context, in *OperationPath) (*body[Timeline], error) {
	detail, _, err := d.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	cut, err := d.tellDoings(ctx, detail)
	if err != nil {
		return nil, err
	}
	items := wire.Hidden(detail.Operation).Timeline
	if items == nil {
		items = []jobs.Event{}
	}
	return &body[Timeline]{Timeline{items, cut}}, nil
}

// Done is what came of an action on one operation.
type Done struct {
	Operation jobs.ID    `json:"operation"`
	Result    string     `json:"result" enum:"done,pending,unsafe" doc:"pending: done when the attempt under way ends, or when its outcome is known; unsafe: a dead letter now, for a person to resolve"`
	State     jobs.State `json:"state"`
	Detail    string     `json:"detail"`
}

// Order is why somebody changes something.
type Order struct {
	Note string `json:"note" minLength:"1" maxLength:"1000" doc:"why, for the audit"`
}

// actor is who gives an order.
func (o Order) actor(ctx context.Context) (ledger.Actor, error) {
	switch {
	case strings.TrimSpace(o.Note) == "":
		return ledger.Actor{}, invalid.at("body.note", errors.New("it says why, and stays in the audit: it must not be blank"))
	case len(o.Note) > maxNoteBytes:
		return ledger.Actor{}, invalid.at("body.note", errors.New("more than 1000 bytes"))
	}
	return ledger.Actor{By: callerOf(ctx).name, Note: o.Note}, nil
}

// target is where an operation is that something is done to, and what its kind is; of one
// that nobody knows nothing, so that its record is kept for ever.
func (d *door) target(ctx context.Context, id jobs.ID) (ledger.Place, jobs.KindSpec, error) {
	place, spec, err := d.kinds.place(ctx, id)
	if err != nil || spec == nil {
		return place, jobs.KindSpec{}, err
	}
	return place, *spec, nil
}

type cancelInput struct {
	OperationPath
	Body Order
}

func (d *door) cancel(ctx context.Context, in *cancelInput) (*answered[Done], error) {
	who, err := in.Body.actor(ctx)
	if err != nil {
		return nil, err
	}
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	place, of, err := d.target(ctx, id)
	if err != nil {
		return nil, err
	}
	done, err := d.storeFor(of).Cancel(ctx, place.Dependency, id, of.Retention, who)
	if err != nil {
		return nil, err
	}
	out, err := doneOf(id, done)
	if err != nil {
		return nil, err
	}
	if done.Verdict == ledger.DoneOK && done.State == jobs.Unresolved {
		out.Body.Result, out.Status = "pending", http.StatusAccepted
	}
	if done.Verdict == ledger.DoneOK && done.State == jobs.Dead {
		out.Body.Result = "unsafe"
	}
	return out, nil
}

// doneOf tells what came of an action, or what stands against it.
func doneOf(id jobs.ID, done ledger.Done) (*answered[Done], error) {
	var p *Problem
	switch {
	case done.Verdict == ledger.DoneMissing:
		p = notFound.because("%s: %s", id, ledger.ErrNotFound)
	case done.Verdict == ledger.DoneRefused && done.State == "": // of what is not in the ledger
		p = notInState.because("%s: %s", id, done.Detail)
	case done.Verdict == ledger.DoneRefused:
		p = notInState.because("%s is %s: %s", id, done.State, done.Detail)
	case done.Unsure:
		p = unsure.because("%s is %s, but not yet on the replicas asked for: a failover now could undo it, so look again once the replicas are back", id, done.State)
	}
	if p != nil {
		p.State = done.State
		return nil, p
	}
	out := &answered[Done]{http.StatusOK, Done{id, "done", done.State, done.Detail}}
	if done.Verdict == ledger.DonePending {
		out.Status, out.Body.Result = http.StatusAccepted, "pending"
	}
	return out, nil
}

type reconcileInput struct {
	OperationPath
	Body struct {
		Order
		FirstSentAt string `json:"first_sent_at,omitempty" format:"date-time" doc:"of what is not in the ledger: when it was first sent; now, if it is not known"`
	}
}

func (d *door) reconcile(ctx context.Context, in *reconcileInput) (*answered[Done], error) {
	who, err := in.Body.actor(ctx)
	if err != nil {
		return nil, err
	}
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	firstSent, err := instantOf("body.first_sent_at", in.Body.FirstSentAt)
	if err != nil {
		return nil, err
	}
	if p := d.fit(); p != nil { // what is not in the ledger is taken in
		return nil, p
	}
	spec, err := d.kinds.spec(ctx, id.Kind, "path.kind")
	if err != nil {
		return nil, err
	}
	done, err := d.storeFor(spec).Reconcile(ctx, spec, id, firstSent, who)
	if errors.Is(err, ledger.ErrBacklogFull) {
		return nil, d.rooms.full(ctx, backlogFull.because("%s", err), spec)
	}
	if err != nil {
		return nil, err
	}
	out, err := doneOf(id, done)
	if err != nil {
		return nil, err
	}
	if done.Verdict == ledger.DoneOK { // the ledger tells the state that it had
		out.Body.State = jobs.Unresolved
		if done.State == "" && done.Detail == "" {
			out.Body.Detail = "not in the ledger: it is asked about, and nothing is sent for it"
		}
	}
	return out, nil
}
