package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/wire"
)

// maxCounted dead letters are counted by one request: what is counted is held in memory.
const maxCounted = 20_000

func (d *door) registerDeadLetters(api huma.API) {
	serve(d, api, route{id: "list-dead-letters", method: http.MethodGet, path: "/v1/dead-letters", tag: "dead letters",
		summary: "List dead letters, newest first", rule: rule{role: config.RoleRead}}, d.listDead)
	serve(d, api, route{id: "count-dead-letters", method: http.MethodGet, path: "/v1/dead-letters/stats", tag: "dead letters",
		summary: "Count dead letters by kind, reason and class, and add up their columns", rule: rule{role: config.RoleRead}}, d.countDead)
	serve(d, api, route{id: "export-dead-letters", method: http.MethodGet, path: "/v1/dead-letters/export", tag: "dead letters",
		summary: "Write dead letters out with their payload, to be imported elsewhere",
		tell: "Each page is written to the audit before anything is shown. Into the same namespace they are duplicates, into another they go on there, " +
			"and none that may have taken effect is resent unless that is safe.",
		rule: rule{role: config.RoleRead, also: config.RoleOperate, places: d.exports}, problems: []problemKind{redisRefuses, busy}}, d.exportDead)
}

// FilterQuery chooses operations. Lists are comma-separated and choose any of theirs.
type FilterQuery struct {
	Dependency []string `query:"dependency" doc:"of these dependencies"`
	Kind       []string `query:"kind" doc:"of these kinds"`
	Reason     []string `query:"reason" doc:"dead for these reasons"`
	Class      []string `query:"class" doc:"whose last attempt met these response classes"`
	Flag       []string `query:"flag" doc:"with one of these flags"`
	Credential []string `query:"credential" doc:"under these credentials"`
	Batch      []string `query:"batch" doc:"last requeued by these bulk actions"`
	Key        string   `query:"key" doc:"whose key matches this glob"`
	Error      string   `query:"error" doc:"whose last error contains this text, in any case"`
	Unknown    bool     `query:"unknown" doc:"only those that may have taken effect"`
	Since      string   `query:"since" doc:"that entered their state at or after this time: RFC 3339, 09:00 (today, UTC) or 2h (ago)"`
	Until      string   `query:"until" doc:"that entered their state before this time"`
}

// PageQuery chooses a page.
type PageQuery struct {
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"1000" doc:"how many at most"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

func (q FilterQuery) words() operator.FilterWords {
	return operator.FilterWords{Dependencies: q.Dependency, Kinds: q.Kind, Reasons: q.Reason, Classes: q.Class, Flags: q.Flag,
		Credentials: q.Credential, Batches: q.Batch, Key: q.Key, ErrorText: q.Error, Unknown: q.Unknown, Since: q.Since, Until: q.Until}
}

type listInput struct {
	FilterQuery
	State []string `query:"state" doc:"in these states"`
	PageQuery
}

type deadInput struct {
	FilterQuery
	PageQuery
}

// Page is one page of a list.
type Page struct {
	Items      []jobs.Operation `json:"items" nullable:"false"`
	NextCursor string           `json:"next_cursor" doc:"go on with it, also after a page that is not full; empty: nothing more"`
}

func (d *door) list(ctx context.Context, in *listInput) (*body[Page], error) {
	w := in.words()
	w.States = in.State
	return d.page(ctx, w, in.PageQuery)
}

func (d *door) listDead(ctx context.Context, in *deadInput) (*body[Page], error) {
	w := in.words()
	w.States = []string{string(jobs.Dead)}
	return d.page(ctx, w, in.PageQuery)
}

func (d *door) page(ctx context.Context, w operator.FilterWords, q PageQuery) (*body[Page], error) {
	w.Limit, w.Cursor = q.Limit, q.Cursor
	found, err := d.matching(ctx, w, maxLookedAt)
	if err != nil {
		return nil, err
	}
	items := make([]jobs.Operation, len(found.Items))
	for i, o := range found.Items {
		items[i] = wire.Hidden(o)
		items[i].Timeline = nil
	}
	return &body[Page]{Page{items, found.NextCursor}}, nil
}

// maxLookedAt is how many operations of each state are looked at for one page, so that a
// filter that hardly anything matches takes no longer than a page that is full.
const maxLookedAt = 10_000

// matching is one page of what matches. most: see [ledger.Filter].
func (d *door) matching(ctx context.Context, w operator.FilterWords, most int) (ledger.Page, error) {
	if _, err := w.Filter(time.Now()); err != nil { // what is wrong in itself does not need Redis to be refused
		return ledger.Page{}, err
	}
	now, err := d.clock.now(ctx)
	if err != nil {
		return ledger.Page{}, err
	}
	filter, err := w.Filter(now)
	if err != nil {
		return ledger.Page{}, err
	}
	known, err := d.kinds.all(ctx)
	if err != nil {
		return ledger.Page{}, err
	}
	filter.Most = most
	return d.Ledger.List(ctx, filter, known)
}

// DeadCounts counts dead letters.
type DeadCounts struct {
	Operations int               `json:"operations"`
	Complete   bool              `json:"complete" doc:"false: there are more than are counted in one request, and these are the newest; narrow the filter"`
	Groups     []*operator.Group `json:"groups" nullable:"false"`
}

func (d *door) countDead(ctx context.Context, in *FilterQuery) (*body[DeadCounts], error) {
	w := in.words()
	w.States, w.Limit = []string{string(jobs.Dead)}, maxCounted
	found, err := d.matching(ctx, w, 0)
	if err != nil {
		return nil, err
	}
	ops := make([]*jobs.Operation, len(found.Items))
	for i := range found.Items {
		ops[i] = &found.Items[i]
	}
	groups := operator.Groups(ops)
	if groups == nil {
		groups = []*operator.Group{}
	}
	return &body[DeadCounts]{DeadCounts{len(ops), found.NextCursor == "", groups}}, nil
}
