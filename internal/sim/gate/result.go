package gate

// Span is what a run did from one second up to another, the last one not included.
// Seconds that it did not reach count nothing; Backlog is what waited at the end.
func (r Result) Span(from, to int) (sum Second) {
	to = min(to, len(r.Seconds))
	for _, s := range r.Seconds[min(from, to):to] {
		sum.Arrived += s.Arrived
		sum.Calls += s.Calls
		sum.Good += s.Good
		sum.Wasted += s.Wasted
		sum.Backlog = s.Backlog
	}
	return sum
}

// Amplification is calls per operation that arrived.
func (r Result) Amplification() float64 { return float64(r.Calls) / float64(r.Arrived) }

// Success is the share of the operations that succeeded within the run.
func (r Result) Success() float64 { return float64(r.Good) / float64(r.Arrived) }

// Peak is the most calls in one second from second from on.
func (r Result) Peak(from int) (most int) {
	for _, s := range r.Seconds[min(from, len(r.Seconds)):] {
		most = max(most, s.Calls)
	}
	return most
}

// Above is in how many seconds from second from on there were more than so many calls.
func (r Result) Above(from, calls int) (n int) {
	for _, s := range r.Seconds[min(from, len(r.Seconds)):] {
		if s.Calls > calls {
			n++
		}
	}
	return n
}

// BackAfter is how many seconds after second from the operations that succeed are 95 %
// of those that arrive again, over five seconds and over all that remain; -1: never.
func (r Result) BackAfter(from int) int {
	back := func(s Second) bool { return 100*s.Good >= 95*s.Arrived }
	for at := from; at+5 <= len(r.Seconds); at++ {
		if back(r.Span(at, at+5)) && back(r.Span(at, len(r.Seconds))) {
			return at - from
		}
	}
	return -1
}
