package requestpath

import (
	"testing"
	"time"

	"redrive/internal/ledger"
	"redrive/internal/metrics"
)

// Whatever is recorded, lost, repeated or too late: the gate never counts more than was
// recorded, and what it does not count was forgotten or still waits.
func FuzzTallyCountsEachFirstAttemptOnce(f *testing.F) {
	f.Add([]byte("rrfrrf"))
	f.Add([]byte("rlrlrff")) // replies lost
	f.Add([]byte("rnrnwwwwwf"))
	f.Add([]byte("rlwwwwwwrf")) // forgotten although the gate has it
	f.Add([]byte("aafrnaf"))
	f.Fuzz(func(t *testing.T, plan []byte) {
		const keep = 4 * time.Second
		now := time.Unix(1_800_000_000, 0)
		ta := &tally{dependency: dep, keep: keep, collectedAt: now}
		var recorded, heard, forgotten, highest int64
		flush := func(applied, answered bool) {
			ta.collect(now)
			forgotten, ta.forgotten = forgotten+ta.forgotten, 0
			asked := ta.asked.Swap(false)
			for ; ta.seal(asked); asked = false {
				if said := ta.firsts("p", 0); applied && said.Seq > highest { // what the script does
					highest = said.Seq
					heard += said.OK + said.Failed + said.TimedOut
				}
				if !answered {
					return
				}
				ta.answered(ledger.FirstsTaken{}, now)
			}
		}
		for i, act := range plan {
			switch act {
			case 'r':
				recorded++
				ta.record(metrics.Results[i%3])
			case 'a':
				ta.asked.Store(true)
			case 'f':
				flush(true, true)
			case 'l':
				flush(true, false)
			case 'n':
				flush(false, false)
			default:
				now = now.Add(time.Second)
			}
			waiting := ta.sealed.counts.sum() + ta.behind.counts.sum()
			for c := range ta.counted {
				waiting += ta.counted[c].Load()
			}
			if heard > recorded || heard+forgotten+waiting < recorded {
				t.Fatalf("after %q: %d recorded, %d heard, %d forgotten, %d waiting", plan[:i+1], recorded, heard, forgotten, waiting)
			}
			if forgotten == 0 && heard+waiting > recorded && ta.sealed.empty() {
				t.Fatalf("after %q: %d recorded, %d heard, %d waiting", plan[:i+1], recorded, heard, waiting)
			}
		}
		flush(true, true)
		if forgotten == 0 && heard != recorded {
			t.Errorf("%q: %d recorded, %d heard in the end", plan, recorded, heard)
		}
	})
}
