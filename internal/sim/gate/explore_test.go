package gate

import (
	"fmt"
	"testing"
	"time"
)

func TestX(t *testing.T) {
	p := Defaults()
	p.Breaker.MinCalls, p.Breaker.Consecutive, p.DrainMilliPerSecond = 0, 0, 0
	t0 := time.Now()
	lap := func(s string) { fmt.Println("--", s, time.Since(t0)); t0 = time.Now() }
	line := func(n string, r Result) { fmt.Printf("%-20s load %.4f good %.4f first %d backlog %d opened %d\n", n, float64(r.Calls)/float64(r.Arrived), float64(r.Good)/float64(r.Arrived), r.First, r.Backlog, r.Opened) }
	for _, f := range []float64{.05, .1, .2, .5, 1} {
		fmt.Println(f)
		line("none", Brooker(1, Retries(0), 100, 1000, 10, f))
		line("3", Brooker(1, Retries(3), 100, 1000, 10, f))
		line("bucket", Brooker(1, Buckets(5), 100, 1000, 10, f))
		for _, n := range []int{1, 10, 100, 1000} {
			line(fmt.Sprint("ours ", n), Brooker(1, Redrive(Fleet{Workers: n, Slots: 10, Params: p}), n, 1000, 10, f))
		}
		line("breaker", Brooker(1, Redrive(Fleet{Workers: 5, Slots: 10, Params: Defaults()}), 100, 1000, 10, f))
	}
	lap("a")
	for _, n := range []int{1, 10, 100, 1000} {
		line(fmt.Sprint("bucket ", n), Brooker(1, Buckets(5), n, 100, 60, 1))
		line(fmt.Sprint("ours ", n), Brooker(1, Redrive(Fleet{Workers: n, Slots: 10, Params: p}), n, 100, 60, 1))
	}
	lap("a2")
	for _, l := range []float64{70, 85} {
		for _, seed := range []uint64{42, 7, 99} {
			for name, s := range map[string]Strategy{"none": Retries(0), "3": Retries(3), "bucket": Buckets(10), "ours": Redrive(Fleet{Workers: 5, Slots: 10, Params: Defaults()})} {
				r := Metastable(seed, s, l)
				fmt.Print(l, " ", seed, " ", name, " opened ", r.Opened, ": ")
				for i := 0; i < 60; i += 5 {
					g, a := 0, 0
					for _, x := range r.Seconds[i : i+5] {
						g += x.Good
						a += x.Arrived
					}
					fmt.Printf("%.2f ", float64(g)/float64(a))
				}
				fmt.Println(r.Seconds[59])
			}
		}
	}
	lap("b")
	peak := func(r Result, from int) (n int) {
		for _, s := range r.Seconds[from:] {
			n = max(n, s.Calls)
		}
		return n
	}
	np := Defaults()
	np.DrainMilliPerSecond = 85_000
	r := Night(1, Redrive(Fleet{Workers: 2, Slots: 20, Params: np}))
	fmt.Println("night ours", r.Finished, len(r.Seconds)-NightOutTo, peak(r, NightOutTo), r.Wasted, r.Opened, r.Backlog)
	lap("c ours")
	np.DrainMilliPerSecond = 0
	np.Breaker.RampMS = 0
	r = Night(1, Redrive(Fleet{Workers: 2, Slots: 20, Params: np}))
	fmt.Println("night ratio+1", r.Finished, len(r.Seconds)-NightOutTo, peak(r, NightOutTo), r.Wasted, r.Opened, r.Backlog)
	lap("c ratio+1")
	rp := Defaults()
	rp.DrainMilliPerSecond = 18_000
	r = Recovery(1, Redrive(Fleet{Workers: 5, Slots: 10, Params: rp}), 6000)
	fmt.Println("recovery ours", r.Finished, len(r.Seconds)-RecoveryOutTo, peak(r, RecoveryOutTo), r.Wasted, r.Opened, r.Backlog)
	lap("d ours")
	r = Recovery(1, FullJitter(60), 1200)
	fmt.Println("recovery naive60", r.Finished, len(r.Seconds)-RecoveryOutTo, peak(r, RecoveryOutTo), r.Wasted, r.Backlog, r.Seconds[len(r.Seconds)-1])
	lap("d naive")
	r = Recovery(1, FullJitter(1200), 6000)
	fmt.Println("recovery naive1200", r.Finished, len(r.Seconds)-RecoveryOutTo, peak(r, RecoveryOutTo), r.Wasted, r.Backlog, r.Seconds[len(r.Seconds)-1])
	lap("d naive20min")
}
