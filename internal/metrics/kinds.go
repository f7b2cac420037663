package metrics

import "redrive/internal/jobs"

// kindCounts are numbers by kind and one more word, as they are shown: every declared
// kind with every word, and what is neither under "other".
type kindCounts[T ~string] struct {
	words []T
	n     map[string]map[string]int64
}

// perKind returns the counts of every declared kind and word, all 0.
func perKind[T ~string](d *declared, words []T) kindCounts[T] {
	c := kindCounts[T]{words: words, n: map[string]map[string]int64{}}
	for _, kind := range d.allKinds() {
		c.n[string(kind)] = map[string]int64{}
		for _, w := range words {
			c.n[string(kind)][string(w)] = 0
		}
	}
	return c
}

func (c kindCounts[T]) add(d *declared, from map[jobs.Kind]map[T]int64) {
	for kind, byWord := range from {
		k := d.kind(kind)
		if c.n[k] == nil {
			c.n[k] = map[string]int64{}
		}
		for word, n := range byWord {
			c.n[k][label(word, c.words)] += n
		}
	}
}

func (c kindCounts[T]) each(show func(kind, word string, n int64)) {
	for kind, byWord := range c.n {
		for word, n := range byWord {
			show(kind, word, n)
		}
	}
}

// sum adds what is counted in from to into.
func sum[T ~string](into, from map[jobs.Kind]map[T]int64) {
	for kind, byWord := range from {
		if into[kind] == nil {
			into[kind] = map[T]int64{}
		}
		for word, n := range byWord {
			into[kind][word] += n
		}
	}
}
