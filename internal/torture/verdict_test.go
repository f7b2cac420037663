package torture

import (
	"slices"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/sandbox"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

// sent is a request of a worker that took 100 ms.
func sent(attempt string, when time.Duration, status, before int) *arrival {
	return &arrival{ref: "k", attempt: attempt, key: "charge:k", at: at(when), ended: at(when + 100*time.Millisecond), status: status, before: before}
}

func attempt(n int, by string, outcome jobs.Outcome, class jobs.Class) jobs.Event {
	took := int64(100)
	return jobs.Event{Event: "attempt", N: n, By: by, Outcome: outcome, Class: class, At: jobs.At(noon), DurationMS: &took}
}

// goodCase is an order that was sent once and succeeded, with nothing wrong.
func goodCase(kind jobs.Kind) *caseFile {
	id := jobs.ID{Kind: kind, Key: "k"}
	return &caseFile{
		order: &order{id: id, accepted: true}, indexes: []string{"done"}, effects: 1,
		arrivals: []*arrival{sent("1", 0, 201, 0)},
		detail: &ledger.Detail{Operation: jobs.Operation{Kind: kind, Key: "k", State: jobs.Succeeded, Applied: jobs.AppliedYes,
			DeadlineAt: jobs.At(at(time.Minute)), Timeline: []jobs.Event{attempt(1, byWorker, jobs.OutcomeSucceeded, jobs.Class2xx)}}},
	}
}

func judgeCase(c *caseFile) *verdict {
	e := evidence{cases: []*caseFile{c}, recoverWithin: 7 * time.Second, entries: []sandbox.Entry{{Route: "charges", Reference: "k"}}}
	if c.detail != nil {
		e.counts = []ledger.Count{{Kind: c.id.Kind, State: c.detail.State, N: 1}}
	}
	return judge(e)
}

// brokenIn lists the promises that are broken.
func brokenIn(v *verdict) []string {
	var names []string
	for _, p := range v.promises {
		if len(p.broken) > 0 {
			names = append(names, p.name)
		}
	}
	return names
}

func TestNothingWrongBreaksNoPromise(t *testing.T) {
	t.Parallel()
	for kind := range classOf {
		if names := brokenIn(judgeCase(goodCase(kind))); len(names) > 0 {
			t.Errorf("%s: broken %q", kind, names)
		}
	}
}

// Each promise has at least one way to be broken that the judge finds.
func TestJudgeFindsEachBreach(t *testing.T) {
	t.Parallel()
	unknown := attempt(1, byWorker, jobs.OutcomeUnknown, jobs.ClassReset)
	second := attempt(2, byWorker, jobs.OutcomeSucceeded, jobs.Class2xx)
	for _, c := range []struct {
		name   string
		kind   jobs.Kind
		change func(*caseFile)
		want   []string
	}{
		{"two effects of class none", kindNone, func(c *caseFile) { c.effects = 2 }, []string{p1None}},
		{"two effects of a conditional one", kindConditional, func(c *caseFile) { c.effects = 2 }, []string{p1Cond}},
		{"two effects of a keyed one", kindKeyed, func(c *caseFile) { c.effects = 2 }, []string{p1Keyed}},
		{"class none sent after it took effect", kindNone, func(c *caseFile) {
			c.arrivals = append(c.arrivals, sent("2", time.Second, 400, 1))
			c.arrivals[0].status = 400
			c.detail.Timeline = []jobs.Event{attempt(1, byWorker, jobs.OutcomeRefused, jobs.Class4xx), second}
		}, []string{p1None}},
		{"class none sent after a request without an answer", kindNone, func(c *caseFile) {
			c.arrivals = []*arrival{sent("1", 0, 0, 0), sent("2", time.Minute/2, 201, 0)}
			c.detail.Timeline = []jobs.Event{unknown, second}
		}, []string{p1None}},
		{"the same after one inquiry", kindNone, func(c *caseFile) {
			c.arrivals = []*arrival{sent("1", 0, 0, 0), sent("2", time.Minute/2, 201, 0)}
			c.readings = []reading{{at: at(5 * time.Second), ended: at(5 * time.Second), status: 200}}
			c.detail.Timeline, c.detail.Inquiries = []jobs.Event{unknown, second}, 2
		}, []string{p1None}},
		{"the same after two inquiries, the second too soon", kindNone, func(c *caseFile) {
			c.arrivals = []*arrival{sent("1", 0, 0, 0), sent("2", time.Minute/2, 201, 0)}
			c.readings = []reading{{at: at(5 * time.Second), ended: at(5 * time.Second), status: 200}, {at: at(6 * time.Second), ended: at(6 * time.Second), status: 200}}
			c.detail.Timeline, c.detail.Inquiries = []jobs.Event{unknown, second}, 2
		}, []string{p1None}},
		{"the same after it was twice not found", kindNone, func(c *caseFile) {
			c.arrivals = []*arrival{sent("1", 0, 0, 0), sent("2", time.Minute/2, 201, 0)}
			c.readings = []reading{{at: at(5 * time.Second), ended: at(5 * time.Second), status: 200}, {at: at(10 * time.Second), ended: at(10 * time.Second), status: 200}}
			c.detail.Timeline, c.detail.Inquiries = []jobs.Event{unknown, second}, 2
		}, nil},
		{"a conditional one sent after an unknown report", kindConditional, func(c *caseFile) {
			c.arrivals = []*arrival{sent("2", 0, 201, 0)}
			c.detail.Timeline = []jobs.Event{attempt(1, "request_path", jobs.OutcomeUnknown, jobs.ClassTimeout), second}
		}, []string{p1Cond}},
		{"another key", kindKeyed, func(c *caseFile) { c.arrivals[0].key = "k" }, []string{p1Keyed}},
		{"other bytes", kindKeyed, func(c *caseFile) {
			c.arrivals = append(c.arrivals, sent("2", time.Second, 201, 1))
			c.arrivals[1].digest[0] = 1
			c.detail.Timeline = []jobs.Event{unknown, second}
		}, []string{p1Keyed}},
		{"accepted and gone", kindKeyed, func(c *caseFile) { c.detail, c.indexes = nil, nil }, []string{p2Once}},
		{"in two indexes", kindKeyed, func(c *caseFile) { c.indexes = []string{"dead", "done"} }, []string{p2Once, p2Counts}},
		{"in the wrong index", kindKeyed, func(c *caseFile) { c.indexes = []string{"dead"} }, []string{p2Once}},
		{"not at rest", kindKeyed, func(c *caseFile) { c.detail.State, c.indexes = jobs.Waiting, []string{"waiting"} }, []string{p2Once}},
		{"late", kindKeyed, func(c *caseFile) { c.detail.DeadlineAt = jobs.At(at(-time.Millisecond)) }, []string{p3}},
		{"one attempt sent twice", kindKeyed, func(c *caseFile) { c.arrivals = append(c.arrivals, sent("1", time.Second, 201, 1)) }, []string{wire}},
		{"not written ahead", kindKeyed, func(c *caseFile) { c.arrivals = append(c.arrivals, sent("2", time.Second, 201, 1)) }, []string{wire}},
		{"recorded and never sent", kindKeyed, func(c *caseFile) { c.detail.Timeline = []jobs.Event{unknown, second}; c.arrivals[0].attempt = "2" }, []string{wire}},
		{"recorded as not sent, and sent", kindKeyed, func(c *caseFile) {
			c.detail.Timeline = []jobs.Event{attempt(1, byWorker, jobs.OutcomeNotSent, jobs.ClassConnect)}
		}, []string{wire}},
		{"its worker died before the send", kindKeyed, func(c *caseFile) {
			c.detail.Timeline = []jobs.Event{attempt(1, byWorker, jobs.OutcomeUnknown, jobs.ClassWorkerLost), second}
			c.arrivals[0].attempt = "2"
		}, nil},
		{"applied without effect", kindKeyed, func(c *caseFile) { c.effects = 0 }, []string{word}},
		{"not applied with effect", kindKeyed, func(c *caseFile) { c.detail.Applied = jobs.AppliedNo }, []string{word}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := goodCase(c.kind)
			c.change(file)
			if got := brokenIn(judgeCase(file)); !slices.Equal(got, c.want) {
				t.Errorf("broken: %q, want %q", got, c.want)
			}
		})
	}
}

func TestStrangersAndSlowRecoveryAreFound(t *testing.T) {
	t.Parallel()
	c := goodCase(kindKeyed)
	lost := attempt(1, byWorker, jobs.OutcomeUnknown, jobs.ClassWorkerLost)
	took := int64(10_000)
	lost.DurationMS = &took
	c.detail.Timeline[0] = lost
	e := evidence{cases: []*caseFile{c}, counts: []ledger.Count{{State: jobs.Succeeded, N: 1}}, kills: []time.Time{at(time.Second)}, recoverWithin: 7 * time.Second}
	if got := brokenIn(judge(e)); !slices.Equal(got, []string{recovered}) {
		t.Errorf("closed 9 s after the kill: broken %q", got)
	}
	e.outages = []outage{{at(2 * time.Second), at(3 * time.Second)}}
	if got := brokenIn(judge(e)); len(got) > 0 {
		t.Errorf("the same while Redis was away: broken %q", got)
	}
	e.entries = []sandbox.Entry{{Route: "charges", Reference: "whose"}}
	e.strays = []string{"charge/whose in dead"}
	if v := judge(e); !slices.Equal(brokenIn(v), []string{p2Counts}) || v.broken() != 2 {
		t.Errorf("strangers: broken %q", brokenIn(v))
	}
}
