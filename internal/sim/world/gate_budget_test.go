package world

import "redrive/internal/budget"

// permit notes a probe's permit, that of an operation that has one lasts longer.
func (j *gateJudge) permit(id string, g budget.Gate, until int64) {
	p := period{j.epoch, g.Generation}
	if out := j.probes[id]; out != nil && out.period == p {
		out.until = until
		return
	}
	j.probes[id] = &probe{p, until}
	out := int64(0)
	for _, x := range j.probes {
		if x.period == p {
			out++
		}
	}
	if out > j.most.Breaker.Probes {
		j.w.broken("P4: %d probes are out at once, at most %d may", out, j.most.Breaker.Probes)
	}
}

// probed counts a call under a permit.
func (j *gateJudge) probed(id string, g budget.Gate) {
	t := j.periods[period{j.epoch, g.Generation}]
	if t == nil {
		j.w.broken("P4: %s is a probe, and the breaker is %s", id, g.State)
		return
	}
	if t.given++; t.given > j.most.Breaker.Probes+t.back {
		j.w.broken("P4: %d probes in one half-open period, %d of them came to nothing, at most %d may", t.given, t.back, j.most.Breaker.Probes)
	}
}

// ended gives a permit back. What it learnt of the dependency stays counted. A nil judge
// judges nothing.
func (j *gateJudge) ended(id string, s budget.Sign) {
	if j == nil {
		return
	}
	out := j.probes[id]
	if out == nil {
		return
	}
	if t := j.periods[out.period]; t != nil && s != budget.SignOK {
		t.back++
	}
	delete(j.probes, id)
}

func (j *gateJudge) runOut(now int64) {
	for id, out := range j.probes {
		if out.until <= now {
			j.ended(id, budget.SignNothing)
		}
	}
}

// budget holds every window that ends now against P4, in thousandths of a token. The
// calls are counted where they are paid, by whoever got the reply; made says that no
// call reaches the gateway without.
func (j *gateJudge) budget(m mark) {
	if m.calls == 0 && m.firsts == 0 && m.starts == 0 && m.left == 0 && m.lane == 0 && m.rates == 0 {
		return
	}
	j.marks = append(j.marks, m)
	if m.calls == 0 && m.left == 0 {
		return
	}
	most := j.most
	burst := most.RateBurst * 1000
	burst = max(burst, 1000, most.RateMilliPerSecond/10)
	var sum mark
	for i := len(j.marks) - 1; i >= 0 && len(j.w.harm) == 0; i-- {
		x := j.marks[i]
		sum.calls, sum.firsts, sum.starts, sum.left, sum.rates = sum.calls+x.calls, sum.firsts+x.firsts, sum.starts+x.starts, sum.left+x.left, sum.rates+x.rates
		span := m.at - x.at
		bound := most.Cap*1000 + most.RatioMilli*sum.firsts + most.FloorMilliPerSecond*span/1000 + most.FloorMilliPerSecond*sum.starts + 1
		if most.DrainMilliPerSecond > 0 {
			bound += max(1000, most.DrainMilliPerSecond/4) + most.DrainMilliPerSecond*sum.lane/1000
		}
		if sum.calls*1000 > bound {
			j.w.broken("P4: %d calls beyond first attempts in %d ms, after %d first attempts and %d low starts: at most %d thousandths", sum.calls, span,
				sum.firsts, sum.starts, bound)
		}
		if j.anyRate && sum.left*1000 > burst+most.RateMilliPerSecond*span/1000+1000*sum.rates+1 {
			j.w.broken("P4: %d calls left in %d ms, the rate is %d thousandths a second", sum.left, span, most.RateMilliPerSecond)
		}
		sum.lane += x.lane // that of the first mark lies before the window
	}
}
