package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/budget"
	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

// maxFirsts is how many first attempts one request may tell of: more is a mistake.
const maxFirsts = 1_000_000

func (d *door) registerDependencies(api huma.API) {
	order := func(id, method, action, summary, tell string, more ...problemKind) route {
		return route{id: id, method: method, path: "/v1/dependencies/{dependency}/" + action, tag: "dependencies", summary: summary, tell: tell,
			rule: rule{role: config.RoleOperate, takes: jsonType, maxBody: maxOrder}, problems: append(more, notFound)}
	}
	serve(d, api, route{id: "list-dependencies", method: http.MethodGet, path: "/v1/dependencies", tag: "dependencies",
		summary: "Show the gate of every dependency", rule: rule{role: config.RoleRead}}, d.gates)
	serve(d, api, route{id: "get-dependency", method: http.MethodGet, path: "/v1/dependencies/{dependency}", tag: "dependencies",
		summary: "Show a dependency's gate: what may leave, what holds the rest, and until when",
		rule:    rule{role: config.RoleRead}, problems: []problemKind{notFound}}, d.gate)
	serve(d, api, order("pause", http.MethodPost, "pause", "Stop calls to a dependency",
		"Attempts and inquiries stop; deadlines run on: doomed is how many waiting operations will miss theirs."), d.pause)
	serve(d, api, order("resume", http.MethodPost, "resume", "Let calls to a dependency, or under a paused credential, go on", "", notInState), d.resume)
	serve(d, api, order("override", http.MethodPut, "override", "Replace limits of a dependency's gate for a while",
		"It ends by itself, and replaces an earlier override whole: what is not given again is as configured."), d.override)
	clearing := order("clear-override", http.MethodDelete, "override", "End an override before its time", "")
	clearing.rule.takes = ""
	serve(d, api, clearing, d.clear)
	firsts := order("first-attempts", http.MethodPost, "first-attempts", "Tell what a request path sent by itself, and how it ended",
		"First attempts fill the retry budget, and their results feed the breaker. Gather them and tell every second or so; the answer says whether to send at all. "+
			"With process and seq a report may be repeated after an answer that was lost: it counts once.")
	firsts.rule.role = config.RoleSubmit
	serve(d, api, firsts, d.firstAttempts)
}

// DependencyPath names one dependency.
type DependencyPath struct {
	Dependency string `path:"dependency" doc:"name of the dependency"`
}

// known makes sure that there is such a dependency: a typo would pause nothing and say
// so to nobody.
func (d *door) known(ctx context.Context, p DependencyPath) (jobs.Dependency, error) {
	if err := jobs.CheckName(p.Dependency); err != nil {
		return "", invalid.at("path.dependency", err)
	}
	dep := jobs.Dependency(p.Dependency)
	deps, err := d.kinds.dependencies(ctx)
	if err != nil {
		return "", err
	}
	if !slices.Contains(deps, dep) {
		return "", notFound.because("no dependency %q: %s known", dep, listed(deps))
	}
	return dep, nil
}

// listed says which of something there are: bank, payrail are.
func listed[T ~string](names []T) string {
	if len(names) == 0 {
		return "none is"
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = string(name)
	}
	return strings.Join(out, ", ") + " are"
}

// Gates are the gates of all dependencies.
type Gates struct {
	Items []wire.Gate `json:"items" nullable:"false"`
}

func (d *door) gates(ctx context.Context, _ *struct{}) (*body[Gates], error) {
	deps, err := d.kinds.dependencies(ctx)
	if err != nil {
		return nil, err
	}
	items := make([]wire.Gate, len(deps))
	for i, dep := range deps {
		state, err := d.Ledger.Gate(ctx, dep)
		if err != nil {
			return nil, err
		}
		items[i] = wire.GateOf(state)
	}
	return &body[Gates]{Gates{items}}, nil
}

func (d *door) gate(ctx context.Context, in *DependencyPath) (*body[wire.Gate], error) {
	dep, err := d.known(ctx, *in)
	if err != nil {
		return nil, err
	}
	state, err := d.Ledger.Gate(ctx, dep)
	if err != nil {
		return nil, err
	}
	return &body[wire.Gate]{wire.GateOf(state)}, nil
}

// PauseState says how a dependency is held.
type PauseState struct {
	Dependency jobs.Dependency `json:"dependency"`
	Credential *string         `json:"credential" doc:"null: all of the dependency"`
	Paused     bool            `json:"paused"`
	Until      *jobs.Instant   `json:"until" doc:"null: until it is resumed"`
	Doomed     int             `json:"doomed" doc:"waiting operations whose deadline falls inside the pause"`
}

type pauseInput struct {
	DependencyPath
	Body struct {
		Order
		For string `json:"for,omitempty" doc:"resume by itself after this span, such as 8h; until it is resumed, if it is not given"`
	}
}

func (d *door) pause(ctx context.Context, in *pauseInput) (*body[PauseState], error) {
	who, err := in.Body.actor(ctx)
	if err != nil {
		return nil, err
	}
	span, err := spanOf("body.for", in.Body.For, config.MaxDuration)
	if err != nil {
		return nil, err
	}
	dep, err := d.known(ctx, in.DependencyPath)
	if err != nil {
		return nil, err
	}
	state, err := d.Ledger.Pause(ctx, dep, span, who)
	if err != nil {
		return nil, err
	}
	out := PauseState{Dependency: dep, Paused: true, Doomed: state.Doomed}
	if !state.Until.IsZero() {
		out.Until = jobs.At(state.Until)
	}
	return &body[PauseState]{out}, nil
}

// spanOf reads a span above 0 of whole milliseconds; 0 where it is not given.
func spanOf(location, text string, most time.Duration) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	span, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, invalid.at(location, errors.New("not a span such as 30m or 8h"))
	case span < time.Millisecond || span > most:
		return 0, invalid.at(location, fmt.Errorf("not from 1ms to %s", most))
	}
	return span, nil
}

type resumeInput struct {
	DependencyPath
	Body struct {
		Order
		Credential string `json:"credential,omitempty" doc:"only the operations under this credential"`
	}
}

func (d *door) resume(ctx context.Context, in *resumeInput) (*body[PauseState], error) {
	who, err := in.Body.actor(ctx)
	if err != nil {
		return nil, err
	}
	dep, err := d.known(ctx, in.DependencyPath)
	if err != nil {
		return nil, err
	}
	name := in.Body.Credential
	if name == "" {
		return &body[PauseState]{PauseState{Dependency: dep}}, d.Ledger.Resume(ctx, dep, who)
	}
	if err := jobs.CheckName(name); err != nil {
		return nil, invalid.at("body.credential", err)
	}
	if name == jobs.DefaultCredential {
		return nil, invalid.at("body.credential", errors.New("that is the dependency's own, which pauses all of it: resume it without credential"))
	}
	state, err := d.Ledger.Gate(ctx, dep)
	if err != nil {
		return nil, err
	}
	if _, paused := state.PausedCredentials[name]; !paused {
		return nil, notInState.because("credential %q of %s is not paused: %s", name, dep, listed(slices.Sorted(maps.Keys(state.PausedCredentials))))
	}
	return &body[PauseState]{PauseState{Dependency: dep, Credential: &name}}, d.Ledger.ResumeCredential(ctx, dep, name, who)
}

// OverrideChange is what an override, or its end, came to.
type OverrideChange struct {
	Dependency jobs.Dependency `json:"dependency"`
	Override   *wire.Override  `json:"override" doc:"in force now"`
	Replaced   *wire.Override  `json:"replaced" doc:"in force before"`
	Warnings   []string        `json:"warnings" nullable:"false" doc:"what the override leads to, for people"`
}

type overrideInput struct {
	DependencyPath
	Body struct {
		Order
		Limits map[string]float64 `json:"limits" minProperties:"1" doc:"ratio (0 to 1), cap (1 to 1000000), floor (0 to 10000 per second), rate (0 to 1000000 per second, 0: no limit), drain (0 to 10000 per second, 0: shut), max_in_flight (0 to 1000000, 0: no limit)"`
		For    string             `json:"for" doc:"it ends after this span, such as 30m: from 1s to 24h"`
	}
}

func (d *door) override(ctx context.Context, in *overrideInput) (*body[OverrideChange], error) {
	who, err := in.Body.actor(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := wire.StoredLimits(in.Body.Limits)
	if wrong := new(wire.Error); errors.As(err, &wrong) {
		return nil, invalid.at("body.limits."+wrong.Field, wrong.Err)
	}
	if err != nil {
		return nil, err
	}
	span, err := spanOf("body.for", in.Body.For, ledger.MaxOverride)
	if err != nil {
		return nil, err
	}
	if span < time.Second {
		return nil, invalid.at("body.for", fmt.Errorf("not from 1s to %s", ledger.MaxOverride))
	}
	dep, err := d.known(ctx, in.DependencyPath)
	if err != nil {
		return nil, err
	}
	before, err := d.Ledger.Gate(ctx, dep)
	if err != nil {
		return nil, err
	}
	if _, err := d.Ledger.Override(ctx, dep, stored, span, who); err != nil {
		return nil, err
	}
	after, err := d.Ledger.Gate(ctx, dep)
	if err != nil {
		return nil, fmt.Errorf("the override is in force: %w", err)
	}
	return &body[OverrideChange]{OverrideChange{dep, wire.OverrideOf(after), wire.OverrideOf(before), wire.Starved(after)}}, nil
}

type clearInput struct {
	DependencyPath
	Note string `query:"note" required:"true" minLength:"1" maxLength:"1000" doc:"why, for the audit"`
}

func (d *door) clear(ctx context.Context, in *clearInput) (*body[OverrideChange], error) {
	who, err := Order{in.Note}.actor(ctx)
	if err != nil {
		return nil, err
	}
	dep, err := d.known(ctx, in.DependencyPath)
	if err != nil {
		return nil, err
	}
	before, err := d.Ledger.Gate(ctx, dep)
	if err != nil {
		return nil, err
	}
	_, err = d.Ledger.ClearOverride(ctx, dep, who)
	return &body[OverrideChange]{OverrideChange{Dependency: dep, Replaced: wire.OverrideOf(before), Warnings: []string{}}}, err
}

// FirstsTaken is the gate as a request path finds it.
type FirstsTaken struct {
	Dependency jobs.Dependency `json:"dependency"`
	Counted    int64           `json:"counted" doc:"0 for a report that was counted before"`
	Breaker    budget.State    `json:"breaker"`
	HeldBy     *jobs.Hold      `json:"held_by" doc:"why nothing should be sent now; null: nothing holds"`
	Until      *jobs.Instant   `json:"until" doc:"until when that lasts at least; null: nothing holds, or until it is resumed"`
}

type firstsInput struct {
	DependencyPath
	Body struct {
		OK       int64  `json:"ok,omitempty" minimum:"0" maximum:"1000000" doc:"that the dependency answered, also by declining"`
		Failed   int64  `json:"failed,omitempty" minimum:"0" maximum:"1000000" doc:"that failed: no connection, reset, 5xx, 429"`
		TimedOut int64  `json:"timed_out,omitempty" minimum:"0" maximum:"1000000" doc:"without an answer in time"`
		Process  string `json:"process,omitempty" maxLength:"64" pattern:"^[A-Za-z0-9._-]+$" doc:"who reports: unique while it lives; with seq"`
		Seq      int64  `json:"seq,omitempty" minimum:"1" maximum:"9007199254740991" doc:"grows with each report of the process"`
	}
}

func (d *door) firstAttempts(ctx context.Context, in *firstsInput) (*body[FirstsTaken], error) {
	f := ledger.Firsts{OK: in.Body.OK, Failed: in.Body.Failed, TimedOut: in.Body.TimedOut, Jitter: mathrand.Int64N(1001)}
	switch sum := f.OK + f.Failed + f.TimedOut; {
	case sum == 0:
		return nil, invalid.at("body", errors.New("nothing to count: give ok, failed or timed_out"))
	case sum > maxFirsts:
		return nil, invalid.at("body", fmt.Errorf("%d first attempts at once, at most %d are taken", sum, maxFirsts))
	case (in.Body.Process == "") != (in.Body.Seq == 0):
		return nil, invalid.at("body", errors.New("process and seq belong together"))
	}
	// Two tokens may have chosen the same name for a process of theirs.
	f.Process, f.Seq = callerOf(ctx).name+"-"+in.Body.Process, in.Body.Seq
	if in.Body.Process == "" {
		f.Process, f.Seq = "api-"+rand.Text(), 1
	}
	dep, err := d.known(ctx, in.DependencyPath)
	if err != nil {
		return nil, err
	}
	known, err := d.kinds.all(ctx)
	if err != nil {
		return nil, err
	}
	taken, err := d.Ledger.FirstAttempts(ctx, dep, spareGate(known, dep), f)
	if err != nil {
		return nil, err
	}
	out := FirstsTaken{Dependency: dep, Breaker: taken.State}
	if taken.Taken {
		out.Counted = f.OK + f.Failed + f.TimedOut
	}
	if taken.Hold == jobs.HoldNone {
		return &body[FirstsTaken]{out}, nil
	}
	out.HeldBy = &taken.Hold
	// The answer says when to ask again, which is not when a pause ends.
	state, err := d.Ledger.Gate(ctx, dep)
	if err != nil {
		return nil, fmt.Errorf("it was counted: %w", err)
	}
	switch now := state.ReadAt.UnixMilli(); taken.Hold {
	case jobs.HoldBreaker:
		out.Until = jobs.AtMS(cmp.Or(state.Gate.UntilMS, now)) // 0: it ended in between
	case jobs.HoldRateHint:
		out.Until = jobs.AtMS(max(state.Gate.ParkedUntilMS, now))
	default:
		out.Until = jobs.AtMS(state.Gate.HeldUntilMS)
	}
	return &body[FirstsTaken]{out}, nil
}

// spareGate is what is known of a dependency's gate where no worker ever said more.
func spareGate(known map[jobs.Kind]jobs.KindSpec, dep jobs.Dependency) budget.Params {
	for _, kind := range slices.Sorted(maps.Keys(known)) {
		if spec := known[kind]; spec.Dependency == dep {
			return terms.Of(spec).Gate
		}
	}
	return budget.Params{}
}
