package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/config"
	"redrive/internal/wire"
)

// registerNamespace serves what is known of the namespace as a whole.
func (d *door) registerNamespace(api huma.API) {
	serve(d, api, route{id: "list-kinds", method: http.MethodGet, path: "/v1/kinds", tag: "namespace",
		summary: "Tell which kinds can be submitted, and how", tell: "Where they are sent to is not told."}, d.listKinds)
	serve(d, api, route{id: "stats", method: http.MethodGet, path: "/v1/stats", tag: "namespace",
		summary: "Count operations by state, kind and dependency", tell: "Warnings say what keeps operations from leaving.",
		rule: rule{role: config.RoleRead}}, d.stats)
	serve(d, api, route{id: "audit", method: http.MethodGet, path: "/v1/audit", tag: "namespace",
		summary: "Tell who did what, when and why: the newest entries, oldest first", rule: rule{role: config.RoleRead}, problems: []problemKind{notFound}}, d.audit)
}

// KindList are all kinds, by name.
type KindList struct {
	Items []wire.Kind `json:"items" nullable:"false"`
}

func (d *door) listKinds(ctx context.Context, _ *struct{}) (*body[KindList], error) {
	known, err := d.kinds.all(ctx)
	if err != nil {
		return nil, err
	}
	return &body[KindList]{KindList{wire.Kinds(known)}}, nil
}

func (d *door) stats(ctx context.Context, _ *struct{}) (*body[wire.Stats], error) {
	deps, err := d.kinds.dependencies(ctx)
	if err != nil {
		return nil, err
	}
	live, err := d.Ledger.Workers(ctx)
	if err != nil {
		return nil, err
	}
	out := wire.NewStats()
	for _, dep := range deps {
		snapshot, err := d.Ledger.Snapshot(ctx, dep)
		if err != nil {
			return nil, err
		}
		gate, err := d.Ledger.Gate(ctx, dep)
		if err != nil {
			return nil, err
		}
		out.Add(snapshot, gate, live)
	}
	return &body[wire.Stats]{out}, nil
}
