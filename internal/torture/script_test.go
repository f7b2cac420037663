package torture

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// action is one thing that the script does.
type action string

const (
	killWorker action = "kill worker"        // kill -9, and a new one in its place
	stopWorker action = "stop worker"        // SIGTERM, and a new one: a deploy
	freeze     action = "freeze worker"      // SIGSTOP for span, which is longer than a claim's lease
	killRedis  action = "kill redis"         // kill -9, away for span
	cutLink    action = "cut link"           // connections to Redis reset, none possible for span
	slowLink   action = "slow link"          // answers of Redis late for span
	muteLink   action = "mute link"          // commands go through, answers are lost, for span
	gateFault  action = "gateway misbehaves" // fault for span
	cutTail    action = "cut the AOF's tail"
)

// step is an action at an instant of the run.
type step struct {
	at     time.Duration
	do     action
	worker int           // of worker and link actions
	span   time.Duration // 0: done at once
	fault  string        // JSON of gateFault
}

func (s step) String() string {
	return fmt.Sprintf("%6.2fs %s worker=%d span=%s %s", s.at.Seconds(), s.do, s.worker, s.span, s.fault)
}

const (
	// everyFault is the mean time between two faults of processes and links.
	everyFault = 1800 * time.Millisecond
	// everyMood is the mean time between two faults of the gateway.
	everyMood = 2500 * time.Millisecond
	// frozenFor is longer than the claim's lease (timeout + 4 s) and than its recovery.
	frozenFor = timeout + 5*time.Second + 500*time.Millisecond
	// everyTail is the time between two cuts of the tail.
	everyTail = 30 * time.Second
)

// actionWeights say how often each fault comes, of 100.
var actionWeights = []struct {
	do     action
	weight int
}{{killWorker, 66}, {killRedis, 10}, {stopWorker, 4}, {freeze, 8}, {cutLink, 4}, {slowLink, 4}, {muteLink, 4}}

// calm is how the gateway is between two faults: slow enough that a worker that dies
// has calls under way.
const calm = `{"mode":"slow","latency":"200ms"}`

// moods are the faults of the gateway: lost replies, slow and dropped calls, and
// what else makes an outcome unknown.
var moods = []string{
	`{"mode":"lost_replies","share":0.4,"read_lag":"500ms"}`,
	`{"mode":"slow","latency":"700ms","read_lag":"1s"}`,
	`{"mode":"slow","latency":"1500ms"}`, // beyond the timeout: slots fill up, and deadlines pass
	`{"mode":"down","share":0.5}`,
	`{"mode":"flaky","share":0.5,"latency":"600ms","read_lag":"300ms"}`,
	`{"mode":"refuse","share":0.6}`,
	`{"mode":"decline","share":0.2}`,
	`{"mode":"garbage","share":0.3}`,
	`{"mode":"rate_limit","per_second":20}`,
}

// drawScript draws what is done within span. A worker that dies takes what it had
// been handed with it until a lease of 30 s ends, so the last faults decide how long
// the rest takes.
func drawScript(seed uint64, span time.Duration, tails bool) []step {
	r := rand.New(rand.NewPCG(seed, 1))
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(r.Int64N(int64(to-from))) }
	// A short script has a few of each; later it is left to chance.
	first := []action{killWorker, killRedis, freeze, muteLink, killWorker, cutLink}
	r.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	var steps []step
	for at := between(500*time.Millisecond, time.Second); at < span; at += between(everyFault/2, everyFault*3/2) {
		s := step{at: at, do: drawAction(r), worker: r.IntN(workers)}
		if len(steps) < len(first) {
			s.do = first[len(steps)]
		}
		switch s.do {
		case killRedis:
			s.span = between(0, 2*time.Second)
		case freeze:
			s.span = frozenFor + between(0, time.Second)
		case cutLink, slowLink, muteLink:
			s.span = between(200*time.Millisecond, 2*time.Second)
		}
		steps = append(steps, s)
	}
	for at := between(0, everyMood); at < span; at += between(everyMood/2, everyMood*3/2) {
		steps = append(steps, step{at: at, do: gateFault, fault: moods[r.IntN(len(moods))], span: between(500*time.Millisecond, 2*time.Second)})
	}
	if tails {
		for at := everyTail / 2; at < span; at += everyTail {
			steps = append(steps, step{at: at, do: cutTail, span: between(time.Second, 3*time.Second)})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return steps
}

func drawAction(r *rand.Rand) action {
	n := r.IntN(100)
	for _, a := range actionWeights {
		if n -= a.weight; n < 0 {
			return a.do
		}
	}
	panic("torture: the weights of the actions are less than 100")
}

func TestScriptIsDrawnFromItsSeed(t *testing.T) {
	t.Parallel()
	const span = 10 * time.Minute
	one := drawScript(7, span, true)
	if !reflect.DeepEqual(one, drawScript(7, span, true)) {
		t.Error("the same seed drew another script")
	}
	if reflect.DeepEqual(one, drawScript(8, span, true)) {
		t.Error("another seed drew the same script")
	}
	kills, seen := 0, map[action]int{}
	for _, s := range one {
		seen[s.do]++
		if s.do == killWorker || s.do == killRedis {
			kills++
		}
		if s.do == freeze && s.span <= timeout+5*time.Second {
			t.Errorf("%s: ends before the frozen worker's claims are recovered", s)
		}
	}
	if kills < 200 {
		t.Errorf("ten minutes have %d kills, want at least 200", kills)
	}
	for _, a := range []action{stopWorker, freeze, cutLink, slowLink, muteLink, gateFault, cutTail} {
		if seen[a] == 0 {
			t.Errorf("ten minutes have no %q", a)
		}
	}
}
