package gate

import (
	"math"
	"reflect"
	"testing"
)

// counts are the numbers of instances that are compared.
var counts = []int{1, 10, 100, 1000}

// publishedBuckets is what Brooker's simulator brings for a bucket per instance of size
// 5, 100 operations a second, everything failing for 60 s.
var publishedBuckets = map[int]string{1: "1.10", 10: "1.11", 100: "1.17", 1000: "1.72"}

// bound is what the budget alone lets through at most, per operation.
func bound(r Result) float64 {
	p, first := budgetAlone(), float64(r.First)
	floor := float64(p.FloorMilliPerSecond) / 1000 * float64(len(r.Seconds))
	return 1 + float64(p.RatioMilli)/1000 + (float64(p.Cap)+floor)/first
}

func TestOneBudgetBoundsTheCallsOfAnyNumberOfInstances(t *testing.T) {
	t.Parallel()
	one, tenSeconds := instances("budget", 1).Amplification(), rates("budget", 1, 1).Amplification()
	for _, n := range counts {
		for _, c := range []struct {
			r   Result
			one float64
		}{{instances("budget", n), one}, {rates("budget", n, 1), tenSeconds}} {
			got := c.r.Amplification()
			if most := bound(c.r); got > most {
				t.Errorf("%d instances: %.4f calls per operation, the bound is %.4f", n, got, most)
			}
			if got < 1.09 {
				t.Errorf("%d instances: %.4f calls per operation: the budget is not spent", n, got)
			}
			if math.Abs(got-c.one) > 0.01*c.one {
				t.Errorf("%d instances: %.4f calls per operation, one instance: %.4f", n, got, c.one)
			}
		}
	}
}

func TestBucketsPerInstanceLetMoreThroughTheMoreInstancesThereAre(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]float64{1: 1.10, 10: 1.11, 100: 1.17, 1000: 1.72} {
		if got := instances("own buckets", n).Amplification(); math.Abs(got-want) > 0.02 {
			t.Errorf("%d instances: %.3f calls per operation, published is %.2f", n, got, want)
		}
	}
}

// The generator brings what is published for it, so that our figures stand beside it.
func TestTheGeneratorIsThePublishedOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rate, none, retries, retriesOK, buckets, bucketsOK float64 }{
		{0.05, .955, 1.052, 1.000, 1.052, 1.000},
		{0.10, .897, 1.107, 1.000, 1.103, .991},
		{0.20, .793, 1.258, .999, 1.135, .900},
		{0.50, .500, 1.861, .939, 1.142, .572},
		{1.0, 0, 4, 0, 1.143, 0},
	} {
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 0.03 {
				t.Errorf("failure rate %.2f, %s: %.3f, published is %.3f", c.rate, what, got, want)
			}
		}
		near("none, success", rates("none", 100, c.rate).Success(), c.none)
		near("3 retries", rates("3 retries", 100, c.rate).Amplification(), c.retries)
		near("3 retries, success", rates("3 retries", 100, c.rate).Success(), c.retriesOK)
		near("buckets", rates("own buckets", 100, c.rate).Amplification(), c.buckets)
		near("buckets, success", rates("own buckets", 100, c.rate).Success(), c.bucketsOK)
	}
}

func TestWhatFewFailuresLeaveIsRedelivered(t *testing.T) {
	t.Parallel()
	for _, n := range counts {
		if r := rates("budget", n, 0.05); r.Success() < 0.999 {
			t.Errorf("%d instances: success %.4f at a failure rate of 5 %%", n, r.Success())
		}
	}
}

func TestTheBreakerSparesADependencyThatFailsEverything(t *testing.T) {
	t.Parallel()
	r := rates("gate", 100, 1)
	if r.Opened == 0 || r.Calls > r.Arrived/5 {
		t.Errorf("it opened %d times, and of %d operations %d calls were made", r.Opened, r.Arrived, r.Calls)
	}
	if r.Backlog != r.Arrived {
		t.Errorf("of %d operations %d wait", r.Arrived, r.Backlog)
	}
}

func TestAMetastableDependencyComesBackWithTheGateAndNotWithFixedRetries(t *testing.T) {
	t.Parallel()
	for _, load := range []float64{70, 85} {
		for _, sd := range seeds {
			fixed := metastable("3 retries", load, sd)
			if late := fixed.Span(30, MetastableSeconds); late.Good*100 > late.Arrived {
				t.Errorf("load %v, seed %d: with fixed retries %d of %d succeed long after the server is back", load, sd, late.Good, late.Arrived)
			}
			if late := fixed.Span(50, MetastableSeconds); late.Calls < 35*late.Arrived/10 {
				t.Errorf("load %v, seed %d: with fixed retries only %d calls for %d operations", load, sd, late.Calls, late.Arrived)
			}
			if back := metastable("none", load, sd).BackAfter(ServerOutTo); back < 0 || back > 15 {
				t.Errorf("load %v, seed %d: without retries it is back after %d s", load, sd, back)
			}
			if back := metastable("gate", load, sd).BackAfter(ServerOutTo); back < 0 || back > 15 {
				t.Errorf("load %v, seed %d: with the gate it is back after %d s", load, sd, back)
			}
		}
	}
}

func TestANightDrainsWhatAnOutageLeft(t *testing.T) {
	t.Parallel()
	r := night("night: gate", nightOutage)
	outTo := NightOutFrom + nightOutage
	if took := len(r.Seconds) - outTo; !r.Finished || took > 5400*nightOutage/fullOutage+120 || took > 5400 {
		t.Errorf("drained %v after %d s", r.Finished, took)
	}
	if peak := r.Peak(outTo); peak > NightLoad {
		t.Errorf("%d calls in a second, more than by day", peak)
	}
	if held := r.Span(0, outTo).Backlog; held < NightLoad*nightOutage-NightLoad {
		t.Errorf("only %d operations waited at the end of the outage", held)
	}
	if r.Arrived-r.Good > 5 { // some first attempts are under way when the run ends
		t.Errorf("of %d operations %d succeeded", r.Arrived, r.Good)
	}
}

func TestADependencyThatSuffersFromLoadRecoversWithTheGate(t *testing.T) {
	t.Parallel()
	r := recovery("recovery: gate", recoveryLimit)
	if took := len(r.Seconds) - RecoveryOutTo; !r.Finished || took > 2500 {
		t.Errorf("drained %v after %d s", r.Finished, took)
	}
	if peak := r.Peak(RecoveryOutTo); peak > RecoveryCapacity {
		t.Errorf("%d calls in a second, it bears %d", peak, RecoveryCapacity)
	}
	if r.Wasted > 500 {
		t.Errorf("%d calls were wasted", r.Wasted)
	}
}

func TestADependencyThatSuffersFromLoadStaysDownWithBackoffAlone(t *testing.T) {
	t.Parallel()
	r := recovery("full jitter 60 s", naiveWatch)
	end := RecoveryOutTo + naiveWatch
	late := r.Span(end-10, end)
	if r.Finished || late.Calls < 10*late.Arrived || late.Good*2 > late.Arrived {
		t.Errorf("%d s after the outage: %+v", naiveWatch, late)
	}
	if r.Backlog < r.Span(0, RecoveryOutTo).Backlog {
		t.Errorf("the backlog shrank to %d", r.Backlog)
	}
}

func TestTheSameSeedBringsTheSameNumbers(t *testing.T) {
	t.Parallel()
	p := play{"metastable", "gate", 5, 70, 42}
	if !reflect.DeepEqual(p.run(), p.run()) {
		t.Error("two runs differ")
	}
	other := p
	other.seed = 43
	if reflect.DeepEqual(p.run(), other.run()) {
		t.Error("two seeds bring the same")
	}
}
