package ledger

import (
	"fmt"
	"strconv"
)

// The settings by which a primary refuses writes when too few replicas follow it.
const (
	minReplicas    = "min-replicas-to-write"
	minReplicasLag = "min-replicas-max-lag"
)

// waiting: can Redis keep what [FitnessOptions.WaitReplicas] asks for? online is how
// many replicas there are, -1 when that could not be read.
//
// WAIT alone promises little: a primary that is cut off from its replicas goes on
// taking what begins and finishes write, until it learns that another one took over.
// Redis itself must refuse writes then.
func (j *judgement) waiting(online int) {
	want := j.o.WaitReplicas
	if want <= 0 {
		return
	}
	value, ok := j.words.config[minReplicas]
	switch n := whole(value); {
	case !ok:
		j.unread(minReplicas, "", FromConfig)
	case n < int64(want):
		j.fact(minReplicas, value, FromConfig, "")
		j.risk(FindingWait, true, fmt.Sprintf("%s is %d: redis.wait_replicas %d needs at least as many, or a primary that is cut off goes on taking writes", minReplicas, n, want))
	default:
		j.fact(minReplicas, value, FromConfig, "")
		if j.words.config[minReplicasLag] == "0" { // either of them at 0 turns both off
			j.risk(FindingWait, true, fmt.Sprintf("%s is 0, which turns %s off: set it to some seconds", minReplicasLag, minReplicas))
		}
	}
	if good, err := strconv.Atoi(j.words.info["min_slaves_good_slaves"]); err == nil {
		online = min(online, good) // one that is frozen stays online for a minute, but not good
	}
	if online < 0 || online >= want {
		return
	}
	text := fmt.Sprintf("redis has %s that can be waited for: redis.wait_replicas is %d", replicasText(online), want)
	if j.o.Durability == DurabilityVolatile {
		j.risks = append(j.risks, text)
		return
	}
	j.pass(FindingWait, text)
}

func replicasText(n int) string {
	switch n {
	case 0:
		return "no replica"
	case 1:
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}
