package gate

import "redrive/internal/budget"

// client is what operations arrive at: an instance of the request path by its number.
type client interface {
	arrive(instance int)
}

// rival retries in the request path, each instance by its own rule.
type rival struct {
	w         *world
	d         dependency
	timeoutUS int64
	rule      rule
}

// rule says whether an operation that failed so many times is tried again, and when.
type rule interface {
	started(instance int)
	again(w *world, instance, failures int) (afterUS int64, again bool)
}

func (r *rival) arrive(instance int) {
	r.w.second().Arrived++
	r.w.result.First++
	r.rule.started(instance)
	r.try(instance, 0)
}

func (r *rival) try(instance, failures int) {
	r.w.call(r.d, r.timeoutUS, func(sign budget.Sign, _ bool) {
		if sign == budget.SignOK {
			r.w.second().Good++
			return
		}
		after, again := r.rule.again(r.w, instance, failures+1)
		if !again {
			return
		}
		r.w.backlog(1)
		r.w.after(after, func() {
			r.w.backlog(-1)
			r.try(instance, failures+1)
		})
	})
}

// retries tries again at once, so many times.
type retries int

func (retries) started(int) {}

func (n retries) again(_ *world, _, failures int) (int64, bool) { return 0, failures <= int(n) }

// buckets are one token bucket per instance, full at the start: a first attempt puts in
// a tenth, a retry needs more than one and takes one.
type buckets struct {
	size  int
	tenth []int // tokens in tenths, by instance
}

func newBuckets(instances, size int) *buckets {
	b := &buckets{size: size, tenth: make([]int, instances)}
	for i := range b.tenth {
		b.tenth[i] = 10 * size
	}
	return b
}

func (b *buckets) started(instance int) { b.tenth[instance] = min(b.tenth[instance]+1, 10*b.size) }

func (b *buckets) again(_ *world, instance, _ int) (int64, bool) {
	if b.tenth[instance] <= 10 {
		return 0, false
	}
	b.tenth[instance] -= 10
	return 0, true
}

// jittered tries for ever, after a span between 0 and a second that doubles up to a cap.
type jittered struct{ capUS int64 }

func (jittered) started(int) {}

func (j jittered) again(w *world, _, failures int) (int64, bool) {
	return w.uniform(0, backoff(j.capUS, failures)), true
}

// backoff is the longest wait after so many failures: a second, doubled for each, up to
// a cap.
func backoff(capUS int64, failures int) int64 {
	if failures > 20 {
		return capUS
	}
	return min(capUS, second<<(failures-1))
}
