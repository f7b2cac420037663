package analysis

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// Record is the retry decision record of a configuration: what it decides, and what
// that leads to at the load. Its JSON is only ever extended. Spans are whole
// milliseconds, null where there is none.
type Record struct {
	Load     LoadRecord   `json:"load"`
	Kinds    []KindRecord `json:"kinds"`    // by name
	Findings []Finding    `json:"findings"` // as [Findings] returns them; none: empty
}

// LoadRecord is the load of a record.
type LoadRecord struct {
	PerSecond        *float64 `json:"per_second"` // null: each dependency's own, see SlotSection
	Failing          float64  `json:"failing"`
	Processes        int      `json:"processes"`
	ResendsInRequest int      `json:"resends_in_request"`
	OutageMS         int64    `json:"outage_ms"`
}

// KindRecord is the record of one kind.
type KindRecord struct {
	Kind          jobs.Kind            `json:"kind"`
	Dependency    jobs.Dependency      `json:"dependency"`
	Policy        PolicySection        `json:"policy"`
	Failures      FailureSection       `json:"failures"`
	Idempotency   IdempotencySection   `json:"idempotency"`
	Slots         SlotSection          `json:"slots"`
	Observability ObservabilitySection `json:"observability"`
}

// PolicySection says when there is another attempt.
type PolicySection struct {
	Formula       string        `json:"formula"`
	MaxAttempts   int           `json:"max_attempts"`
	BackoffBaseMS int64         `json:"backoff_base_ms"`
	BackoffCapMS  int64         `json:"backoff_cap_ms"`
	TimeoutMS     int64         `json:"timeout_ms"`
	MinResponseMS int64         `json:"min_response_ms"`
	DeadlineMS    int64         `json:"deadline_ms"`
	Delays        []Delay       `json:"delays"` // none: nothing is retried
	MeanSpanMS    int64         `json:"mean_span_ms"`
	LongestSpanMS int64         `json:"longest_span_ms"`
	Budget        BudgetRecord  `json:"budget"`
	Breaker       BreakerRecord `json:"breaker"`
	Drain         DrainRecord   `json:"drain"`
}

// BudgetRecord is what calls beyond the first may draw on, worked out for the load.
type BudgetRecord struct {
	Ratio          float64 `json:"ratio"`
	Cap            int64   `json:"cap"`
	FloorPerSecond float64 `json:"floor_per_second"`
	FirstPerHour   float64 `json:"first_attempts_per_hour"`
	ExtraPerHour   float64 `json:"extra_calls_per_hour"` // at most, probes and drain lane aside
	CallsPerFirst  float64 `json:"calls_per_first"`      // at most, over that hour
}

// BreakerRecord is when a dependency is left alone.
type BreakerRecord struct {
	WindowMS         int64   `json:"window_ms"`
	MinCalls         int     `json:"min_calls"`
	FailureRate      float64 `json:"failure_rate"`
	Consecutive      int     `json:"consecutive"`
	SlowCallMS       int64   `json:"slow_call_ms"`
	OpenMS           int64   `json:"open_ms"`
	MaxOpenMS        int64   `json:"max_open_ms"`
	Probes           int     `json:"probes"`
	RampMS           int64   `json:"ramp_ms"`
	OpensWhenDownMS  *int64  `json:"opens_when_down_ms"`    // after every call began to time out; null: never, at that load
	OpensAtFailingMS *int64  `json:"opens_when_failing_ms"` // after the load's share did; null: by chance only
}

// DrainRecord is how the backlog of the load's outage leaves.
type DrainRecord struct {
	MaxPerSecond float64 `json:"max_per_second"`
	Backlog      float64 `json:"backlog"`
	PerSecond    float64 `json:"per_second"` // all together: budget and lane, within the rate
	DrainsInMS   *int64  `json:"drains_in_ms"`
}

// IdempotencySection says what keeps an effect from happening twice.
type IdempotencySection struct {
	Class          jobs.Idempotency `json:"class"`
	Mechanism      string           `json:"mechanism"`
	KeyHeader      string           `json:"key_header"`     // "": none is sent
	KeyWindowMS    *int64           `json:"key_window_ms"`  // null: the class does not rest on a key
	SafeWindowMS   *int64           `json:"safe_window_ms"` // the same less the margin
	WindowSuffices *bool            `json:"window_suffices"`
	Inquiry        *InquiryRecord   `json:"inquiry"`
	Unknown        string           `json:"unknown"`       // what a timeout leads to
	UnknownLate    string           `json:"unknown_later"` // the same when a resend is no longer safe
}

// InquiryRecord is how the dependency is asked.
type InquiryRecord struct {
	Request       string `json:"request"`
	SettleMS      int64  `json:"settle_ms"`
	NotFound      bool   `json:"not_found"`       // it can learn that nothing arrived
	AfterNotFound string `json:"after_not_found"` // resend or dead
	FailedMeans   string `json:"failed_means"`    // final or not_applied
	GiveUpAfterMS int64  `json:"give_up_after_ms"`
}

// SlotSection is what calls that time out do to slots.
type SlotSection struct {
	PerSecond   float64    `json:"per_second"`
	From        string     `json:"per_second_from"` // stated, half of rate.per_second or assumed
	Failing     float64    `json:"failing"`
	Worker      PoolRecord `json:"worker"`       // Redrive's: no attempt waits in a slot
	RequestPath PoolRecord `json:"request_path"` // one that sends again in its slot, as often as the load says
}

// PoolRecord is a [Pool] and what follows.
type PoolRecord struct {
	Slots       int      `json:"slots"`
	Sends       int      `json:"sends"` // by one operation in one slot
	HoldMS      int64    `json:"hold_ms"`
	WantedSlots float64  `json:"wanted_slots"`
	ExhaustionS *float64 `json:"exhaustion_s"` // null: no call fails
	FillsInMS   *int64   `json:"fills_in_ms"`  // null: never
	Bears       *float64 `json:"bears_per_second"`
}

// Build returns the record of c, which [config.Config.Validate] accepts, at a load that is
// valid.
func Build(c *config.Config, l Load) *Record {
	r := &Record{Load: LoadRecord{Failing: l.Failing, Processes: l.Processes, ResendsInRequest: l.ResendsInRequest, OutageMS: l.Outage.Milliseconds()},
		Kinds: []KindRecord{}, Findings: Findings(c, l)}
	if l.PerSecond > 0 {
		r.Load.PerSecond = &l.PerSecond
	}
	for _, name := range slices.Sorted(maps.Keys(c.Kinds)) {
		k := c.Kinds[name]
		d := c.Dependencies[k.Dependency]
		r.Kinds = append(r.Kinds, KindRecord{
			Kind: name, Dependency: d.Name,
			Policy:        policySection(k, d, l),
			Failures:      failureSection(k, d),
			Idempotency:   idempotencySection(k, d),
			Slots:         slotSection(d, l),
			Observability: observabilitySection(d),
		})
	}
	return r
}

// formula is what package policy does: [policy.Backoff] and [policy.Wait].
var formula = fmt.Sprintf("wait before retry n = %s + uniform(0, min(cap, base x 2^(n-1))), from the end of the attempt; after a hint of the other side max(hint, that) + uniform(0, min(hint/2, %s))",
	span(policy.MinDelay), span(policy.MaxExtra))

func policySection(k *config.Kind, d *config.Dependency, l Load) PolicySection {
	perSecond, _ := l.at(d)
	first := perSecond * time.Hour.Seconds()
	extra := extraCalls(d.Budget, perSecond, time.Hour)
	b := d.Breaker
	return PolicySection{
		Formula: formula, MaxAttempts: k.MaxAttempts, BackoffBaseMS: k.Backoff.Base.Milliseconds(), BackoffCapMS: k.Backoff.Cap.Milliseconds(),
		TimeoutMS: d.Timeout.Milliseconds(), MinResponseMS: d.MinResponse.Milliseconds(), DeadlineMS: k.Deadline.Milliseconds(),
		Delays: delays(k), MeanSpanMS: meanSpan(k).Milliseconds(), LongestSpanMS: longestSpan(k, d).Milliseconds(),
		Budget: BudgetRecord{Ratio: float64(d.Budget.RatioMilli) / 1000, Cap: d.Budget.Cap, FloorPerSecond: float64(d.Budget.FloorMilliPerSecond) / 1000,
			FirstPerHour: first, ExtraPerHour: extra, CallsPerFirst: (first + extra) / first},
		Breaker: BreakerRecord{WindowMS: b.Window.Milliseconds(), MinCalls: b.MinCalls, FailureRate: float64(b.FailureRateMilli) / 1000, Consecutive: b.Consecutive,
			SlowCallMS: b.SlowCall.Milliseconds(), OpenMS: b.Open.Milliseconds(), MaxOpenMS: b.MaxOpen.Milliseconds(), Probes: b.Probes, RampMS: b.Ramp.Milliseconds(),
			OpensWhenDownMS: msIf(opensAfter(d, perSecond, 1)), OpensAtFailingMS: msIf(opensAfter(d, perSecond, l.Failing))},
		Drain: DrainRecord{MaxPerSecond: float64(d.Drain.MaxMilliPerSecond) / 1000, Backlog: perSecond * l.Outage.Seconds(),
			PerSecond: drainPerSecond(d, perSecond), DrainsInMS: msIf(drainsIn(d, perSecond, l.Outage))},
	}
}

func msIf(d time.Duration, ok bool) *int64 {
	if !ok {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

func slotSection(d *config.Dependency, l Load) SlotSection {
	perSecond, from := l.at(d)
	return SlotSection{PerSecond: perSecond, From: from, Failing: l.Failing,
		Worker: poolRecord(l.workerPool(d), 1), RequestPath: poolRecord(l.requestPool(d), l.ResendsInRequest+1)}
}

func poolRecord(p Pool, sends int) PoolRecord {
	r := PoolRecord{Slots: p.Slots, Sends: sends, HoldMS: p.Hold.Milliseconds(), WantedSlots: p.Wanted(), FillsInMS: msIf(p.FillsIn())}
	if p.Wanted() > 0 {
		figure, bears := p.Exhaustion(), p.Bears()
		r.ExhaustionS, r.Bears = &figure, &bears
	}
	return r
}

func idempotencySection(k *config.Kind, d *config.Dependency) IdempotencySection {
	s := IdempotencySection{Class: k.Idempotency, Mechanism: mechanism(k), KeyHeader: k.IdempotencyKey.Header,
		Unknown: becomes(k, d, resendSafe(k, d)), UnknownLate: becomes(k, d, 0)}
	if k.Idempotency == jobs.IdempotencyNatural {
		s.UnknownLate = s.Unknown // no key, no window that could be over
	}
	if k.Idempotency == jobs.IdempotencyKeyed {
		safe := safeWindow(k, d)
		suffices := safe >= min(longestSpan(k, d), k.Deadline)
		s.KeyWindowMS, s.SafeWindowMS, s.WindowSuffices = msIf(k.IdempotencyKey.Window, true), msIf(safe, true), &suffices
	}
	if q := k.Inquiry; q != nil {
		r := &InquiryRecord{Request: q.Method + " " + q.Path, SettleMS: q.Settle.Milliseconds(), NotFound: q.Read.Tells(jobs.InquiryNotFound),
			AfterNotFound: "resend", FailedMeans: "final", GiveUpAfterMS: q.GiveUpAfter.Milliseconds()}
		if q.AfterNotFoundDead {
			r.AfterNotFound = "dead"
		}
		if q.FailedNotApplied {
			r.FailedMeans = "not_applied"
		}
		s.Inquiry = r
	}
	return s
}

// mechanism says what makes a second send harmless, or that nothing does.
func mechanism(k *config.Kind) string {
	switch k.Idempotency {
	case jobs.IdempotencyNatural:
		return "the operation itself: a second one leaves the effect as it is"
	case jobs.IdempotencyKeyed:
		return "the header " + k.IdempotencyKey.Header + " carries the operation's key, by default KIND:KEY; every send bears the same key and the same bytes"
	case jobs.IdempotencyConditional:
		return "the gateway rejects a duplicate recognisably, which proves the success of the first; what is unknown is never resent"
	default:
		return "none: what may have acted is never resent"
	}
}

// resendSafe is for how long after its first send a resend of k is safe.
func resendSafe(k *config.Kind, d *config.Dependency) time.Duration {
	switch k.Idempotency {
	case jobs.IdempotencyNatural:
		return policy.Forever
	case jobs.IdempotencyKeyed:
		return safeWindow(k, d)
	default:
		return 0
	}
}
