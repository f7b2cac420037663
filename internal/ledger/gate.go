package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// Said is what a call's end says of its dependency. The zero value says nothing.
type Said struct {
	Sign   budget.Sign   // "": nothing
	Hint   time.Duration // the Retry-After of a 429 or 503; 0: none
	Denied bool          // the answer refused the credential
	Jitter int64         // 0 to 1000, drawn anew for each call: of the open time and the parking
}

func (s Said) args(a *luascript.Args, generation int64) *luascript.Args {
	if s.Sign != "" {
		a.Str("sign", string(s.Sign)).Int("generation", generation).Int("jitter", s.Jitter)
	}
	if s.Hint > 0 {
		a.Int("hint", ceilMS(s.Hint))
	}
	return a.Flag("denied", s.Denied)
}

// News is what one call changed of the gate, told to one caller alone: for the log.
type News struct {
	Changes []string // in order: the breaker's new states, "parked", "repaired" (its hash was missing or garbled)
	Why     string   // why it is open: failure_rate, consecutive or probe; "" when it is not
	Until   time.Time
}

func news(text string) News {
	f := strings.Fields(text)
	if len(f) < 3 {
		return News{}
	}
	n := News{Changes: strings.Split(f[0], ","), Why: dash(f[1])}
	if at := number(f[2]); at > 0 {
		n.Until = time.UnixMilli(at).UTC()
	}
	return n
}

// GateState is a dependency's gate at one instant, read without touching it.
type GateState struct {
	Dependency jobs.Dependency
	ReadAt     time.Time // by Redis' clock
	Gate       budget.Gate
	Params     budget.Params // as a worker last said them; the zero value: none ever did
	InForce    budget.Params // Params under the override

	OverrideBy, OverrideNote string
	OverrideSince            time.Time

	PausedBy, PausedNote string
	PausedSince          time.Time
	PausedCredentials    map[string]time.Time // since when

	Backlog  int64 // due operations that wait for a token or the drain lane
	Firsts   int64 // due first attempts that are no backlog
	Aside    int64 // due operations whose credential is paused
	InFlight int64 // released, attempting, or being asked about
	Forecast budget.Forecast
}

// Hold is why the backlog, and why first attempts that are none, do not leave; none
// when nothing of the gate holds them.
func (s GateState) Hold() (backlog, firsts jobs.Hold) {
	b, f := s.Gate.Hold(s.Backlog, s.InFlight, s.ReadAt.UnixMilli(), s.Params)
	return jobs.Hold(b), jobs.Hold(f)
}

// HeldBy counts what is due by why it has not left. What nothing of the gate holds, or
// what is paid for, waits for a slot; what stands aside waits for its credential.
func (s GateState) HeldBy() map[jobs.Hold]int64 {
	held := map[jobs.Hold]int64{jobs.HoldPaused: s.Aside}
	backlog, firsts := s.Hold()
	unpaid := s.Backlog
	if backlog == jobs.HoldBudget || backlog == jobs.HoldLane {
		unpaid -= min(s.Gate.Retries()+s.Gate.Lane(), s.Backlog)
	}
	for _, lane := range []struct {
		hold jobs.Hold
		n    int64
	}{{backlog, unpaid}, {jobs.HoldNone, s.Backlog - unpaid}, {firsts, s.Firsts}} {
		if lane.hold == jobs.HoldNone {
			lane.hold = jobs.HoldSlots
		}
		held[lane.hold] += lane.n
	}
	return held
}

// Ramp is how much of fill, cap and in-flight the gate lets through, in thousandths:
// 1000 unless its breaker closed a short while ago.
func (s GateState) Ramp() int64 {
	g := s.Gate
	g.Override = budget.Override{} // it replaces limits, never the ramp
	// A limit of 1000 calls grows with the ramp as all limits do.
	return g.InFlight(s.ReadAt.UnixMilli(), budget.Params{MaxInFlight: 1000, Breaker: s.Params.Breaker})
}

// Gate reads a dependency's gate. It costs the same however many operations wait.
func (l *Ledger) Gate(ctx context.Context, dep jobs.Dependency) (GateState, error) {
	pipe := l.rdb.Pipeline()
	fields, now, seq := pipe.HGetAll(ctx, l.key(dep, "gate")), pipe.Time(ctx), pipe.Exists(ctx, l.key(dep, "seq"))
	credentials := pipe.HGetAll(ctx, l.key(dep, "credentials"))
	count := func(index string) *redis.IntCmd { return pipe.ZCard(ctx, l.key(dep, index)) }
	backlog, firsts, aside, claims := count("due:retry"), count("due:first"), count("aside"), count("claims")
	released, promised, asking := count("released:first"), count("released:retry"), count("asking")
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return GateState{}, fmt.Errorf("read the gate of %s: %w", dep, err)
	}
	s := GateState{Dependency: dep, ReadAt: now.Val().UTC(), Backlog: backlog.Val(), Firsts: firsts.Val(), Aside: aside.Val(),
		InFlight: claims.Val() + released.Val() + promised.Val() + asking.Val(), PausedCredentials: map[string]time.Time{}}
	f, at := fields.Val(), now.Val().UnixMilli()
	s.Params, _ = budget.ParseParams(f["params"]) // garbage is as good as nothing: a worker writes it anew
	s.Gate = budget.Read(f, seq.Val() > 0).At(at, s.Params)
	s.InForce = s.Params.With(s.Gate.Override, at)
	if s.Gate.Override.UntilMS > at {
		s.OverrideBy, s.OverrideNote, s.OverrideSince = f["override_by"], f["override_note"], time.UnixMilli(number(f["override_since"])).UTC()
	}
	if s.Gate.Paused(at) {
		s.PausedBy, s.PausedNote, s.PausedSince = f["hold_by"], f["hold_note"], time.UnixMilli(number(f["hold_since"])).UTC()
	}
	for name, since := range credentials.Val() {
		s.PausedCredentials[name] = time.UnixMilli(number(since)).UTC()
	}
	var err error
	s.Forecast, err = l.forecast(ctx, s)
	return s, err
}

// forecast says when the backlog will have left, and how much of it will be too late,
// at the rate of this moment. Deadlines are counted at some instants only, so that it
// costs the same however much waits.
func (l *Ledger) forecast(ctx context.Context, s GateState) (budget.Forecast, error) {
	pace := s.Gate.Pace(s.ReadAt.UnixMilli(), s.Params)
	eta := pace.ETA(s.Backlog)
	if s.Backlog == 0 {
		return budget.Forecast{}, nil
	}
	at := s.ReadAt.UnixMilli()
	horizons := budget.Horizons(eta)
	pipe := l.rdb.Pipeline()
	counts := make([]*redis.IntCmd, len(horizons))
	for i, h := range horizons {
		counts[i] = pipe.ZCount(ctx, l.key(s.Dependency, "due:retry"), "-inf", fmt.Sprint(at+h.Milliseconds()))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return budget.Forecast{}, fmt.Errorf("read the deadlines of %s: %w", s.Dependency, err)
	}
	due := make([]int64, len(horizons))
	for i, c := range counts {
		due[i] = c.Val()
	}
	return budget.NewForecast(s.Backlog, pace, horizons, due), nil
}

// Firsts is what a request path sent itself since it last told of it, by how it ended.
type Firsts struct {
	Process              string // unique while it lives
	Seq                  int64  // grows with each call: one that was taken before counts once
	OK, Failed, TimedOut int64
	Jitter               int64 // as in [Said]
}

// FirstsTaken is the gate as a request path finds it.
type FirstsTaken struct {
	Taken      bool // false: this call was taken before
	State      budget.State
	Generation int64
	Hold       jobs.Hold     // why nothing may leave; none when the breaker is not open
	Wait       time.Duration // how long that lasts at least
	News       News
}

// FirstAttempts counts first attempts of the request path: they fill the budget, and
// their results feed the breaker. Params of the gate count only where no worker has
// ever said its own.
func (l *Ledger) FirstAttempts(ctx context.Context, dep jobs.Dependency, spare budget.Params, f Firsts) (FirstsTaken, error) {
	args := spare.SpareArgs(new(luascript.Args)).Str("process", f.Process).Int("seq", f.Seq).Int("ok", f.OK).Int("failed", f.Failed).
		Int("timed_out", f.TimedOut).Int("jitter", f.Jitter)
	r, err := firstsScript.Run(ctx, l.rdb, l.slot(dep), args)
	if err != nil {
		return FirstsTaken{}, err
	}
	if len(r) < 7 {
		return FirstsTaken{}, unexpected("first_attempts", r)
	}
	return FirstsTaken{Taken: r[0] == "1", State: budget.State(r[1]), Generation: r.Int(2), Hold: jobs.Hold(r[4]), Wait: ms(r.Int(5)), News: news(r[6])}, nil
}

// MaxOverride is how long an override may last at most.
const MaxOverride = 24 * time.Hour

// Override replaces parameters of a dependency's gate (by the names in
// [budget.Overridable]) for span, above 0 and at most [MaxOverride]. It replaces an
// earlier one whole, and ends by itself.
func (l *Ledger) Override(ctx context.Context, dep jobs.Dependency, values map[string]int64, span time.Duration, who Actor) (until time.Time, err error) {
	switch {
	case len(values) == 0:
		return time.Time{}, errors.New("an override of nothing")
	case span <= 0 || span > MaxOverride:
		return time.Time{}, fmt.Errorf("an override lasts up to %s, not %s", MaxOverride, span)
	}
	_, text, _ := strings.Cut(budget.Override{Values: values}.Text(), " ")
	r, err := overrideScript.Run(ctx, l.rdb, l.slot(dep), who.args().Str("action", "override").Str("values", text).Int("span", ceilMS(span)))
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(r.Int(0)).UTC(), nil
}

// ClearOverride ends an override before its time; false when there was none.
func (l *Ledger) ClearOverride(ctx context.Context, dep jobs.Dependency, who Actor) (bool, error) {
	r, err := overrideScript.Run(ctx, l.rdb, l.slot(dep), who.args().Str("action", "clear"))
	return r.At(1) == "1", err
}

// ResumeCredential lets one paused credential go on.
func (l *Ledger) ResumeCredential(ctx context.Context, dep jobs.Dependency, credential string, who Actor) error {
	_, err := pauseScript.Run(ctx, l.rdb, l.slot(dep), who.args().Str("action", "resume").Str("credential", credential))
	return err
}
