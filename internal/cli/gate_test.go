package cli

import (
	"testing"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

// gated are payrail's terms with every limit of the gate.
func (b *testBundle) gated() ledger.Terms {
	t := terms.Of(b.specs["charge"])
	t.Gate = budget.Params{RatioMilli: 100, Cap: 100, FloorMilliPerSecond: 500, DrainMilliPerSecond: 10_000, RateMilliPerSecond: 25_000, MaxInFlight: 40, Slots: 10,
		Breaker: budget.Breaker{WindowMS: 10_000, MinCalls: 20, FailureRateMilli: 500, Consecutive: 5, OpenMS: 5000, MaxOpenMS: 60_000, Probes: 3, RampMS: 60_000}}
	return t
}

// asWorker lets a worker ask what may leave, with all of payrail's limits.
func (b *testBundle) asWorker(slots int) {
	b.t.Helper()
	kinds := []jobs.Kind{"charge", "payout", "void"}
	if _, _, err := b.ledger.Sweep(b.t.Context(), b.gated(), kinds); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.ledger.Release(b.t.Context(), b.gated(), kinds, slots); err != nil {
		b.t.Fatal(err)
	}
}

// refuse lets a worker meet three answers that refuse the credential m1.
func (b *testBundle) refuse() {
	b.t.Helper()
	for _, key := range []string{"m1-a", "m1-b", "m1-c"} {
		sub := submission("charge", key, 1)
		sub.Credential = "m1"
		b.submit(sub)
		res := ended(jobs.ReasonMisconfigured, jobs.Class4xx, "status 401")
		res.Said = ledger.Said{Sign: budget.SignDeclined, Denied: true}
		b.attempt("charge/"+key, res)
	}
}

func TestGoldenGate(t *testing.T) {
	t.Parallel()
	w := newGoldenWorld(t)
	override := []string{"gate", "override", "payrail", "--ratio", "0.25", "--floor", "2.5/s", "--rate", "0", "--max-in-flight", "7", "--for", "30m", "--note", "they confirmed headroom"}
	fail := line("first-attempts payrail --failed 3 --timed-out 2")
	text := w.transcript(line("gate bank"), line("gate bank -o json"))

	w.submit(submission("charge", "again", 1), submission("charge", "soon", 1))
	w.attempt("charge/again", timedOut(ledger.StepRetry))
	w.refuse()
	w.tick(time.Minute)
	w.asWorker(0)
	text += w.transcript(line("gate"), line("gate payrail"), line("gate payrail -o json"), line("first-attempts payrail --ok 30"), override, line("gate payrail"),
		[]string{"gate", "override", "payrail", "--cap", "1", "--drain", "0", "--for", "24h", "--note", "careful", "-o", "json"})
	// The program draws how long the breaker stays open; here it is the whole of it.
	if _, err := w.ledger.FirstAttempts(t.Context(), "payrail", budget.Params{}, ledger.Firsts{Process: "shop", Seq: 1, Failed: 50, Jitter: 1000}); err != nil {
		t.Fatal(err)
	}
	text += w.transcript(fail, append(fail, "-o", "json"), line("gate"), line("gate payrail"), line("budget -o csv"), line("stats"))
	w.tick(5 * time.Second)
	w.asWorker(1)
	text += w.transcript(line("gate payrail"), []string{"pause", "payrail", "--for", "1h", "--note", "their maintenance"}, line("gate payrail -o jsonl"), line("gate payrail"),
		line("first-attempts payrail --ok 1"), line("first-attempts payrail --ok 1 -o json"), []string{"gate", "clear", "payrail", "--note", "calm again"}, []string{"gate", "clear", "payrail", "--note", "sure", "-o", "json"},
		[]string{"resume", "payrail", "--credential", "m1", "--note", "rotated"}, []string{"resume", "payrail", "--credential", "m1", "--note", "rotated"}, line("audit payrail --limit 7"))
	golden(t, "gate", text)
}

// gateNow reads payrail's gate as JSON.
func (b *testBundle) gateNow() wire.Gate {
	b.t.Helper()
	return into[wire.Gate](b.t, b.must(exitOK, "gate", "payrail", "-o", "json"))
}

func TestAnOverrideEndsByItself(t *testing.T) {
	t.Parallel()
	w := newGoldenWorld(t)
	w.asWorker(0)
	w.must(exitOK, "gate", "override", "payrail", "--cap", "7", "--for", "30m", "--note", "x")
	w.tick(30*time.Minute - time.Millisecond)
	if v := w.gateNow(); v.Override == nil || *v.Cap != 7 || *v.Tokens > 7 || *v.Ratio != 0.1 {
		t.Fatalf("a moment before its end: %+v", v)
	}
	w.tick(time.Millisecond)
	if v := w.gateNow(); v.Override != nil || *v.Cap != 100 {
		t.Fatalf("at its end: %+v", v)
	}
	says(t, w.must(exitOK, "gate", "clear", "payrail", "--note", "x").stdout, "no override was in force")
}

func TestAnOverrideReplacesTheEarlierOneWhole(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		b.asWorker(0)
		b.must(exitOK, "gate", "override", "payrail", "--cap", "7", "--ratio", "0.5", "--for", "30m", "--note", "first")
		got := b.must(exitOK, "gate", "override", "payrail", "--ratio", "0.2", "--for", "1h", "--note", "second", "--by", "bob@desk")
		says(t, got.stdout, "payrail: ratio 0.2 until", "replaced: ratio 0.5, cap 7 until", "by ann@desk: first")
		v := b.gateNow()
		if *v.Ratio != 0.2 || *v.Cap != 100 || v.Override.By != "bob@desk" || v.Override.Values["cap"] != nil {
			t.Errorf("%+v", v)
		}
		says(t, b.must(exitOK, "stats").stderr, "an override of payrail is in force: ratio 0.2 until")
		says(t, b.must(exitOK, "gate", "clear", "payrail", "--note", "done").stdout, "as configured again", "ended: ratio 0.2")
		if v := b.gateNow(); v.Override != nil || *v.Ratio != 0.1 {
			t.Errorf("it is still in force: %+v", v)
		}
	})
}

func TestAnOverrideThatStarvesTheBudgetIsWarnedOf(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		override := func(dep string, flags ...string) printed {
			t.Helper()
			return b.must(exitOK, append([]string{"gate", "override", dep, "--for", "1h", "--note", "x"}, flags...)...)
		}
		b.asWorker(0)
		says(t, override("payrail", "--ratio", "0", "--floor", "0").stderr, "only the drain lane")
		says(t, override("payrail", "--ratio", "0", "--floor", "0", "--drain", "0").stderr, "nothing will be retried")
		hides(t, override("payrail", "--ratio", "0").stderr, "warning") // the configured floor goes on
		hides(t, override("bank", "--ratio", "0").stderr, "warning")    // nobody knows its floor
		says(t, override("bank", "--ratio", "0", "--floor", "0").stderr, "nothing will be retried")
	})
}

func TestAGateWithoutParametersShowsWhatIsKnown(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.must(exitOK, "gate", "override", "bank", "--cap", "7", "--for", "1h", "--note", "x")
		b.must(exitOK, "pause", "bank", "--note", "x")
		v := into[wire.Gate](t, b.must(exitOK, "gate", "bank", "-o", "json"))
		if v.Known || v.Tokens != nil || v.Ratio != nil || v.Forecast != nil || v.Ramp != nil || v.Breaker.Enabled != nil {
			t.Errorf("it claims to know what nobody said: %+v", v)
		}
		if v.Cap == nil || *v.Cap != 7 || v.Paused == nil || v.Paused.Until != nil || *v.Backlog.HeldBy != jobs.HoldPaused {
			t.Errorf("it hides what is known: %+v", v)
		}
		says(t, b.must(exitOK, "gate", "bank").stdout, "no worker has said yet", "until it is resumed, by ann@desk")
		says(t, b.must(exitOK, "gate").stderr, "bank: no worker has said yet", "payrail: no worker has said yet")
	})
}

func TestTheGateShowsRampParkingAndRollback(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000).UTC()
	b := &testBundle{specs: map[jobs.Kind]jobs.KindSpec{"charge": testSpecs()[0]}}
	p := b.gated().Gate
	g := budget.Gate{Known: true, State: budget.Closed, SinceMS: now.UnixMilli() - 15_000, Opened: 2, UntilMS: 5, ParkedUntilMS: now.UnixMilli() + 1000, RolledAtMS: 7,
		Bins: []budget.Bin{{AtMS: now.UnixMilli(), Firsts: 100, Spent: 5, Calls: 3, Failed: 2, Throttled: 1}}}
	s := ledger.GateState{Dependency: "payrail", ReadAt: now, Gate: g, Params: p, InForce: p, InFlight: 2, Backlog: 9, Forecast: budget.Forecast{ETA: budget.Never, Misses: 4}}
	v := wire.GateOf(s)
	if v.Ramp.Percent != 25 || !v.Ramp.Until.Equal(now.Add(45*time.Second)) || *v.InFlight.Most != 10 {
		t.Errorf("ramp %+v, in flight %+v", v.Ramp, v.InFlight)
	}
	if v.Breaker.Opened != 2 || v.Breaker.Until != nil {
		t.Errorf("breaker %+v", v.Breaker)
	}
	if want := (0.5 + 10*0.1) * 0.25; *v.Window.FillPerSecond != want || v.Window.SpentPerSecond != 0.5 {
		t.Errorf("window %+v, want a fill of %v", v.Window, want)
	}
	if !v.ParkedUntil.Equal(now.Add(time.Second)) || v.RolledBackAt == nil || *v.Backlog.HeldBy != jobs.HoldPaused {
		t.Errorf("parked until %v, rolled back at %v, held by %v", v.ParkedUntil, v.RolledBackAt, *v.Backlog.HeldBy)
	}
	if v.Forecast.ETA != nil || v.Forecast.Misses != 4 {
		t.Errorf("forecast %+v", v.Forecast)
	}
	s.Gate.SinceMS -= 45_000
	if v := wire.GateOf(s); v.Ramp.Percent != 100 || v.Ramp.Until != nil || v.Breaker.Opened != 0 {
		t.Errorf("when the ramp is over: %+v, %+v", v.Ramp, v.Breaker)
	}
	s.Params.Breaker = budget.Breaker{}
	if v := wire.GateOf(s); *v.Breaker.Enabled {
		t.Error("a breaker without parameters is told to be one")
	}
}

func TestEachHoldOfTheGateIsExplained(t *testing.T) {
	t.Parallel()
	for _, h := range jobs.Holds {
		if holdTexts[h] == "" && h != jobs.HoldSlots { // slots are a worker's, not the gate's
			t.Errorf("%s is not", h)
		}
	}
}

func TestFirstAttemptsFillTheBudgetAndOpenTheBreaker(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.asWorker(0)
		tell := func(flags ...string) firstsAnswer {
			t.Helper()
			return into[firstsAnswer](t, b.must(exitOK, append([]string{"first-attempts", "payrail", "-o", "json"}, flags...)...))
		}
		before := *b.gateNow().Tokens
		tell("--ok", "40")
		a := tell("--ok", "40") // a new fact: it counts again
		if a.Counted != 40 || a.Breaker != budget.Closed || a.HeldBy != nil || a.Until != nil {
			t.Errorf("%+v", a)
		}
		if v := b.gateNow(); v.Window.FirstAttempts != 80 || *v.Tokens < before+8 || *v.Tokens > before+8+60*0.5 {
			t.Errorf("%v tokens, then %v after %d first attempts", before, *v.Tokens, v.Window.FirstAttempts)
		}
		a = tell("--failed", "60", "--timed-out", "40")
		v := b.gateNow()
		if a.Breaker != budget.Open || a.HeldBy == nil || *a.HeldBy != jobs.HoldBreaker || a.Until == nil || !a.Until.After(v.ReadAt.Add(-time.Minute)) {
			t.Fatalf("%+v", a)
		}
		says(t, b.must(exitOK, "stats").stderr, "the breaker of payrail is open until")
		b.must(exitOK, "pause", "payrail", "--note", "x")
		if a := tell("--ok", "1"); a.HeldBy == nil || *a.HeldBy != jobs.HoldPaused || a.Until != nil {
			t.Errorf("%+v", a)
		}
		says(t, b.must(exitOK, "first-attempts", "payrail", "--ok", "1").stdout, "send nothing until it is resumed")
	})
}

func TestACredentialThatWasRefusedIsToldAndResumedAlone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		b.refuse()
		st := into[wire.Stats](t, b.must(exitOK, "stats", "-o", "json"))
		if c := st.Dependencies["payrail"].Credentials; len(c) != 1 || c[0].Name != "m1" || c[0].Since == nil {
			t.Fatalf("%+v", c)
		}
		says(t, b.must(exitOK, "stats").stderr, "credential m1 of payrail is paused since", "enqueue resume payrail --credential m1")
		says(t, b.must(exitConflict, "resume", "payrail", "--credential", "m2", "--note", "x").stderr, `"m2"`, "m1 are")
		got := into[paused](t, b.must(exitOK, "resume", "payrail", "--credential", "m1", "--note", "rotated", "-o", "json"))
		if got.Credential == nil || *got.Credential != "m1" || got.Paused {
			t.Errorf("%+v", got)
		}
		st = into[wire.Stats](t, b.must(exitOK, "stats", "-o", "json"))
		if c := st.Dependencies["payrail"].Credentials; len(c) != 0 {
			t.Errorf("still paused: %+v", c)
		}
	})
}

func TestDependenciesAreCompleted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		for _, words := range []string{"pause", "resume", "gate", "budget", "gate override", "gate clear", "first-attempts", "watch", "audit"} {
			says(t, b.must(exitOK, append(append([]string{"__complete"}, line(words)...), "")...).stdout, "bank\npayrail\n")
		}
		got := b.must(exitOK, "__complete", "watch", "bank", "")
		says(t, got.stdout, "payrail")
		hides(t, got.stdout, "bank")
		hides(t, b.must(exitOK, "__complete", "pause", "bank", "").stdout, "payrail")
		b.env["REDRIVE_REDIS_URL"] = "redis://127.0.0.1:1"
		hides(t, b.must(exitOK, "__complete", "pause", "").stdout, "payrail")
	})
}
