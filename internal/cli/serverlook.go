package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/remote"
	"redrive/internal/wire"
)

// How much a server tells at once.
const (
	maxPage        = 1000
	maxExportPage  = 100
	maxBatchesTold = 200
	maxAuditTold   = 10_000
)

// whenText is a time as the server reads it: what is meant by this machine's day is told
// as an instant, and how long ago is left to the clock that counts.
func whenText(text string) string {
	if strings.Contains(text, ":") && !strings.Contains(text, "T") {
		if t, err := operator.ParseWhen(operator.FieldSince, text, time.Now()); err == nil {
			return t.Format(time.RFC3339)
		}
	}
	return text
}

// filterOf is a filter as the server reads it.
func filterOf(w *operator.FilterWords) *operator.FilterWords {
	out := *w
	out.Since, out.Until = whenText(w.Since), whenText(w.Until)
	return &out
}

// queryOf is a filter as a query.
func queryOf(w *operator.FilterWords) url.Values {
	w = filterOf(w)
	q := url.Values{}
	add := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	add("dependency", strings.Join(w.Dependencies, ","))
	add("kind", strings.Join(w.Kinds, ","))
	add("state", strings.Join(w.States, ","))
	add("reason", strings.Join(w.Reasons, ","))
	add("class", strings.Join(w.Classes, ","))
	add("flag", strings.Join(w.Flags, ","))
	add("credential", strings.Join(w.Credentials, ","))
	add("batch", strings.Join(w.Batches, ","))
	add("key", w.Key)
	add("error", w.ErrorText)
	if w.Unknown {
		add("unknown", "true")
	}
	add("since", w.Since)
	add("until", w.Until)
	return q
}

// warnUnknown tells of names that the worker does not know: likely a typo. Whoever may
// not ask which there are is not warned.
func (s *atServer) warnUnknown(ctx context.Context, w *operator.FilterWords) {
	if len(w.Kinds) == 0 && len(w.Dependencies) == 0 {
		return
	}
	known, err := s.kinds(ctx)
	if err != nil {
		return // what the command asks tells of it
	}
	for _, kind := range w.Kinds {
		if _, ok := known[jobs.Kind(kind)]; !ok {
			s.p.say("warning: no kind %q is known %s", kind, s.where())
		}
	}
	for _, dep := range w.Dependencies {
		if !slices.ContainsFunc(slices.Collect(maps.Values(known)), func(k wire.Kind) bool { return string(k.Dependency) == dep }) {
			s.p.say("warning: no dependency %q is known %s", dep, s.where())
		}
	}
}

func (s *atServer) list(ctx context.Context, w *operator.FilterWords) (page, error) {
	s.warnUnknown(ctx, w)
	out := page{NextCursor: w.Cursor}
	for first := true; first || out.NextCursor != "" && (w.Limit == 0 || len(out.Items) < w.Limit); first = false {
		q := queryOf(w)
		most := maxPage
		if w.Limit > 0 {
			most = min(most, w.Limit-len(out.Items))
		}
		q.Set("limit", strconv.Itoa(most))
		if out.NextCursor != "" {
			q.Set("cursor", out.NextCursor)
		}
		var part page
		if err := s.getUpTo(ctx, max(most, 16)*maxListedBytes, &part, q, "operations"); err != nil {
			return out, err
		}
		if out.NextCursor != "" && out.NextCursor == part.NextCursor {
			return out, s.client.Strange("its list goes on in a circle")
		}
		out.Items, out.NextCursor = append(out.Items, part.Items...), part.NextCursor
	}
	return out, nil
}

func (s *atServer) countDead(ctx context.Context, w *operator.FilterWords) (deadGroups, error) {
	s.warnUnknown(ctx, w)
	var out struct {
		deadGroups
		Complete bool `json:"complete"`
	}
	if err := s.getUpTo(ctx, maxConfiguredBytes, &out, queryOf(w), "dead-letters", "stats"); err != nil {
		return deadGroups{}, err
	}
	if !out.Complete {
		s.p.say("warning: there are more; a server counts the newest %d: narrow the filter", out.Operations)
	}
	return out.deadGroups, nil
}

func (s *atServer) show(ctx context.Context, name string, reveal bool) ([]shown, error) {
	known, err := s.kinds(ctx)
	if err != nil {
		return nil, err
	}
	query, most := map[string][]string{}, maxOneBytes
	if reveal {
		most = maxRevealedBytes
		query["reveal"] = []string{"true"}
	}
	var ids []jobs.ID
	if id, err := jobs.ParseID(name); err == nil {
		ids = []jobs.ID{id}
	} else {
		for _, kind := range slices.Sorted(maps.Keys(known)) {
			ids = append(ids, jobs.ID{Kind: kind, Key: jobs.Key(name)})
		}
	}
	var out []shown
	for _, id := range ids {
		var item shown
		err := s.getUpTo(ctx, most, &item.OperationView, query, "operations", string(id.Kind), string(id.Key))
		switch {
		case remote.Is(err, remote.NotFound):
			continue
		case err != nil:
			return nil, err
		}
		if kind, ok := known[id.Kind]; ok {
			item.kind = &kind
		}
		out = append(out, item)
	}
	if len(ids) == 0 {
		return nil, s.unknownKind("")
	}
	if len(out) == 0 {
		return nil, notFound(s, name)
	}
	return out, nil
}

func (s *atServer) export(ctx context.Context, w *operator.FilterWords, take func(*jobs.Submission) error, left func(string)) error {
	s.warnUnknown(ctx, w)
	for cursor, first := "", true; first || cursor != ""; first = false {
		q := queryOf(w)
		q.Set("limit", strconv.Itoa(maxExportPage))
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		var part struct {
			Items []jobs.Submission `json:"items"`
			Left  []struct {
				Why string `json:"why"`
			} `json:"left_out"`
			NextCursor string `json:"next_cursor"`
		}
		if err := s.getUpTo(ctx, maxExportPage*maxExportedBytes, &part, q, "dead-letters", "export"); err != nil {
			return err
		}
		for _, l := range part.Left {
			left(l.Why)
		}
		for i := range part.Items {
			if err := take(&part.Items[i]); err != nil {
				return err
			}
		}
		if cursor != "" && cursor == part.NextCursor {
			return s.client.Strange("its export goes on in a circle")
		}
		cursor = part.NextCursor
	}
	return nil
}

func (s *atServer) gates(ctx context.Context, names []string) ([]wire.Gate, error) {
	if len(names) > 0 {
		out := make([]wire.Gate, len(names))
		for i, name := range names {
			if err := jobs.CheckName(name); err != nil {
				return nil, usagef("dependency: %w", err)
			}
			if err := s.get(ctx, &out[i], nil, "dependencies", name); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	var all items[wire.Gate]
	if err := s.getUpTo(ctx, maxConfiguredBytes, &all, nil, "dependencies"); err != nil {
		return nil, err
	}
	if len(all.Items) == 0 {
		return nil, &failure{exitNotFound, errors.New("no dependency is known yet " + s.where())}
	}
	return all.Items, nil
}

func (s *atServer) stats(ctx context.Context) (wire.Stats, error) {
	var out wire.Stats
	err := s.getUpTo(ctx, maxConfiguredBytes, &out, nil, "stats")
	return out, err
}

func (s *atServer) audit(ctx context.Context, about, since string, limit int64) ([]ledger.AuditEntry, error) {
	if limit > maxAuditTold {
		return nil, usagef("--limit %d: a server tells at most %d entries; narrow them by --since", limit, maxAuditTold)
	}
	q := url.Values{"limit": {strconv.FormatInt(limit, 10)}}
	if since != "" {
		q.Set("since", whenText(since))
	}
	if strings.Contains(about, "/") {
		q.Set("operation", about)
	} else if about != "" {
		q.Set("dependency", about)
	}
	var out items[ledger.AuditEntry]
	err := s.getUpTo(ctx, max(int(limit), 32)*maxEntryBytes, &out, q, "audit")
	return out.Items, err
}

func (s *atServer) batches(ctx context.Context, since string, limit int) ([]*operator.Batch, error) {
	if limit > maxBatchesTold {
		return nil, usagef("--limit %d: a server tells at most %d batches; narrow them by --since", limit, maxBatchesTold)
	}
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if since != "" {
		q.Set("since", whenText(since))
	}
	var out items[*operator.Batch]
	err := s.getUpTo(ctx, max(limit, 32)*maxEntryBytes, &out, q, "batches")
	return out.Items, err
}

func (s *atServer) batch(ctx context.Context, id string) (*operator.BatchProgress, error) {
	var out operator.BatchProgress
	err := s.get(ctx, &out, nil, "batches", id)
	if noSuchBatch(err) {
		return nil, noBatch(s, id)
	}
	return &out, err
}

// noSuchBatch reports whether a server knows no batch of a name, or says that there can
// be none of it.
func noSuchBatch(err error) bool {
	var p *remote.Problem
	return remote.Is(err, remote.NotFound) || remote.Is(err, remote.Invalid) && errors.As(err, &p) && len(p.Errors) == 1 && p.Errors[0].Location == "path.batch"
}

func (s *atServer) follow(ctx context.Context, names []string, each func([]ledger.Change) error) error {
	if _, err := s.gates(ctx, names); err != nil { // a typo would never show anything
		return err
	}
	query := map[string][]string{}
	if len(names) == 1 {
		query["dependency"] = names
	}
	return s.client.Follow(ctx, remote.Request{Method: "GET", Path: []string{"events"}, Query: query}, func(data []byte) error {
		var c ledger.Change
		if err := json.Unmarshal(data, &c); err != nil {
			return s.client.Strange(fmt.Sprintf("it sends an event that is no change: %s", err))
		}
		if len(names) > 0 && !slices.Contains(names, string(c.Dependency)) {
			return nil
		}
		return each([]ledger.Change{c})
	})
}
