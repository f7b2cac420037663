package cli

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/remote"
)

// orderBody is why something is changed; who changes it, the token says.
type orderBody struct {
	Note string `json:"note"`
}

func (s *atServer) pause(ctx context.Context, dep jobs.Dependency, span time.Duration, order operator.Order) (paused, error) {
	body := struct {
		orderBody
		For string `json:"for,omitempty"`
	}{orderBody: orderBody{order.Note}}
	if span > 0 {
		body.For = span.String()
	}
	var out paused
	err := s.post(ctx, &out, body, "dependencies", string(dep), "pause")
	return out, ifOpen(err, openPause)
}

func (s *atServer) resume(ctx context.Context, dep jobs.Dependency, credential string, order operator.Order) (paused, error) {
	body := struct {
		orderBody
		Credential string `json:"credential,omitempty"`
	}{orderBody{order.Note}, credential}
	var out paused
	err := s.post(ctx, &out, body, "dependencies", string(dep), "resume")
	if credential != "" {
		return out, ifOpen(err, openRelease)
	}
	return out, ifOpen(err, openResume)
}

func (s *atServer) override(ctx context.Context, dep jobs.Dependency, values map[string]int64, span time.Duration, order operator.Order) (overrideAnswer, error) {
	body := struct {
		orderBody
		Limits map[string]float64 `json:"limits"`
		For    string             `json:"for"`
	}{orderBody{order.Note}, map[string]float64{}, span.String()}
	for _, k := range knobs {
		if v, ok := values[k.name]; ok {
			body.Limits[k.name] = k.shown(v)
		}
	}
	var out overrideAnswer
	_, err := s.client.Ask(ctx, remote.Request{Method: http.MethodPut, Path: []string{"dependencies", string(dep), "override"}, Body: body}, &out)
	return out, ifOpen(asWord(err), openOverride)
}

func (s *atServer) clearOverride(ctx context.Context, dep jobs.Dependency, order operator.Order) (overrideAnswer, error) {
	var out overrideAnswer
	_, err := s.client.Ask(ctx, remote.Request{Method: http.MethodDelete, Path: []string{"dependencies", string(dep), "override"}, Query: url.Values{"note": {order.Note}}}, &out)
	return out, ifOpen(asWord(err), openClear)
}

// firstAttempts gives the report a number of its own, so that whatever resends it on the
// way, it counts once.
func (s *atServer) firstAttempts(ctx context.Context, dep jobs.Dependency, f ledger.Firsts) (firstsAnswer, error) {
	body := struct {
		OK       int64  `json:"ok,omitempty"`
		Failed   int64  `json:"failed,omitempty"`
		TimedOut int64  `json:"timed_out,omitempty"`
		Process  string `json:"process"`
		Seq      int64  `json:"seq"`
	}{f.OK, f.Failed, f.TimedOut, f.Process, f.Seq}
	var out firstsAnswer
	err := s.post(ctx, &out, body, "dependencies", string(dep), "first-attempts")
	if err != nil && (codeOf(err) == exitAgain || !unchanged(err)) {
		return out, firstsNote(err)
	}
	return out, err
}

func (s *atServer) stopBatch(ctx context.Context, id string, order operator.Order) (operator.Stopped, error) {
	var done struct {
		Left    int               `json:"left"`
		Over    bool              `json:"over"`
		Items   []operator.Result `json:"items"`
		Problem *remote.Problem   `json:"problem"`
	}
	err := s.postUpTo(ctx, maxReportBytes, &done, orderBody{order.Note}, "batches", id, "stop")
	if noSuchBatch(err) {
		return operator.Stopped{}, noBatch(s, id)
	}
	out := operator.Stopped{Report: operator.Report{Action: "stop", Batch: id, Results: done.Items}, Left: done.Left, Over: done.Over}
	out.Failed = s.failed(done.Problem, nil)
	return out, ifOpen(err, openStop)
}

func (s *atServer) reconcilable(ctx context.Context, named []namedAt, fromFile bool) ([]jobs.ID, []operator.Fault, error) {
	known, err := s.kinds(ctx)
	if err != nil {
		return nil, nil, err
	}
	return ofKnownKinds(named, fromFile && len(known) > 0, func(kind jobs.Kind) bool { return known[kind].Kind != "" }, s.unknownKind)
}

func (s *atServer) reconcile(ctx context.Context, ids []jobs.ID, firstSent time.Time, order operator.Order) (operator.Report, error) {
	return s.inParts(ctx, "reconcile", len(ids), order, func(from, to int) any {
		body := struct {
			orderBody
			Operations  []jobs.ID `json:"operations"`
			FirstSentAt string    `json:"first_sent_at,omitempty"`
		}{orderBody: orderBody{order.Note}, Operations: ids[from:to]}
		if !firstSent.IsZero() {
			body.FirstSentAt = firstSent.Format(time.RFC3339Nano)
		}
		return body
	}, "operations:reconcile")
}

func (s *atServer) resolve(ctx context.Context, found []operator.Finding, order operator.Order) (operator.Report, error) {
	type finding struct {
		Operation jobs.ID           `json:"operation"`
		Verdict   ledger.Resolution `json:"verdict"`
		Ref       string            `json:"ref,omitempty"`
	}
	return s.inParts(ctx, "resolve", len(found), order, func(from, to int) any {
		body := struct {
			orderBody
			Findings []finding `json:"findings"`
		}{orderBody: orderBody{order.Note}}
		for _, f := range found[from:to] {
			body.Findings = append(body.Findings, finding{f.ID, f.Verdict, f.Ref})
		}
		return body
	}, "operations:resolve")
}

// choose asks how many a filter chooses. The set itself is fixed by the action, a moment
// later; where a person is asked in between, what enters its state after the count is
// left out.
func (s *atServer) choose(ctx context.Context, c choice) (chosen, error) {
	if c.names != nil {
		return &serverSet{s: s, choice: c, n: len(c.names)}, nil
	}
	s.warnUnknown(ctx, c.words)
	set := &serverSet{s: s, choice: c, filter: filterOf(c.words)}
	if !s.p.flags.yes && set.filter.Until == "" {
		now, err := s.now(ctx)
		if err != nil {
			return nil, err
		}
		set.filter.Until = now.Add(2 * time.Second).UTC().Format(time.RFC3339) // the clock is told in seconds: none that was there is left out
	}
	body := set.body("counted before it is done", 0, 0)
	body.DryRun = true
	route := "discard" // counts dead letters, whatever is done to them
	if c.verb == "cancel" {
		route = "cancel"
	}
	var found bulkDone
	if err := s.postUpTo(ctx, maxReportBytes, &found, body, bulkRoutes[route]...); err != nil {
		return nil, err
	}
	set.n = found.Chosen
	return set, nil
}

// bulkRoutes are where bulk actions on chosen operations are asked for.
var bulkRoutes = map[string][]string{
	"cancel": {"operations:cancel"}, "discard": {"dead-letters", "discard"}, "requeue": {"dead-letters", "requeue"},
}

// serverSet is a set that the server fixes when it acts.
type serverSet struct {
	s      *atServer
	choice choice
	filter *operator.FilterWords // nil: the names choose
	n      int
}

// bulkBody is the order of a bulk action.
type bulkBody struct {
	orderBody
	Operations   []jobs.ID             `json:"operations,omitempty"`
	Filter       *operator.FilterWords `json:"filter,omitempty"`
	MoreAttempts *int                  `json:"more_attempts,omitempty"`
	Deadline     string                `json:"deadline,omitempty"`
	Rate         string                `json:"rate,omitempty"`
	Canary       *int                  `json:"canary,omitempty"`
	CanaryWait   string                `json:"canary_wait,omitempty"`
	DryRun       bool                  `json:"dry_run,omitempty"`
}

func (c *serverSet) body(note string, from, to int) bulkBody {
	out := bulkBody{orderBody: orderBody{note}, Filter: c.filter}
	if c.filter == nil {
		out.Operations = c.choice.names[from:to]
	}
	return out
}

func (b *bulkBody) take(w operator.RequeueWords) {
	b.MoreAttempts, b.Deadline, b.Rate, b.Canary = w.MoreAttempts, w.Deadline, w.Rate, w.Canary
	if w.CanaryWait != nil {
		b.CanaryWait = w.CanaryWait.String()
	}
}

func (c *serverSet) count() int { return c.n }

// check leaves it to the server, which checks before it changes anything.
func (c *serverSet) check(context.Context, operator.RequeueWords) error { return nil }

func (c *serverSet) dryRun(ctx context.Context, w operator.RequeueWords) (operator.DryRun, error) {
	if c.n > maxNamed && c.filter == nil {
		return operator.DryRun{}, usagef("a server looks at %d named operations at once: name fewer, or use --all-matching", maxNamed)
	}
	body := c.body("dry run", 0, c.n)
	body.take(w)
	body.DryRun = true
	var done bulkDone
	if err := c.s.postUpTo(ctx, maxReportBytes, &done, body, bulkRoutes["requeue"]...); err != nil {
		return operator.DryRun{}, err
	}
	if done.DryRun == nil {
		return operator.DryRun{}, c.s.client.Strange("its answer to a dry run tells of none")
	}
	if done.More {
		c.s.p.say("warning: there are more; a server looks at the newest %d", done.Chosen)
	}
	return *done.DryRun, nil
}

func (c *serverSet) requeue(ctx context.Context, w operator.RequeueWords, order operator.Order) (operator.Report, error) {
	return c.act(ctx, "requeue", order, func(b *bulkBody) { b.take(w) })
}

func (c *serverSet) cancel(ctx context.Context, order operator.Order) (operator.Report, error) {
	return c.act(ctx, "cancel", order, nil)
}

func (c *serverSet) discard(ctx context.Context, order operator.Order) (operator.Report, error) {
	return c.act(ctx, "discard", order, nil)
}

// act acts on names in parts, and on what a filter chooses as far as one request goes.
func (c *serverSet) act(ctx context.Context, verb string, order operator.Order, with func(*bulkBody)) (operator.Report, error) {
	build := func(from, to int) any {
		body := c.body(order.Note, from, to)
		if with != nil {
			with(&body)
		}
		if from > 0 { // the first of them were the canaries
			body.Canary, body.CanaryWait = nil, ""
		}
		return body
	}
	if c.filter == nil {
		return c.s.inParts(ctx, verb, len(c.choice.names), order, build, bulkRoutes[verb]...)
	}
	all := parts{report: operator.Report{Action: verb}}
	more, err := c.s.part(ctx, &all, verb, order, build(0, 0), bulkRoutes[verb]...)
	if err == nil && more {
		c.s.p.say("warning: a server takes %d at once, the newest, and more match: the same command again goes on with them", c.n)
	}
	return all.end(c.s.p, err)
}
