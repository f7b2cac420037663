package operator

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"redrive/internal/jobs"
)

// Group counts operations of one kind, reason and class, and adds up their columns.
type Group struct {
	Kind       jobs.Kind     `json:"kind"`
	Reason     *jobs.Reason  `json:"reason"`
	Class      *jobs.Class   `json:"class"`
	Operations int           `json:"operations"`
	Sums       Sums          `json:"sums"` // by column, then by currency
	OldestAt   *jobs.Instant `json:"oldest_at"`
	NewestAt   *jobs.Instant `json:"newest_at"`
}

// Sums are totals by column, then by currency ("" where the operation has no column
// of that name).
type Sums map[string]map[string]*Total

// Total is a sum in decimal, exact. The zero value is 0.
type Total struct {
	sum    big.Rat
	digits int // after the point, at most, of what was added
}

// String is the decimal.
func (t *Total) String() string { return t.sum.FloatString(t.digits) }

// MarshalText writes the decimal.
func (t *Total) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *Total) UnmarshalText(text []byte) error {
	if !decimalText.Match(text) {
		return fmt.Errorf("%.40q is no decimal", text)
	}
	t.sum.SetString(string(text)) // matched
	_, fraction, _ := strings.Cut(string(text), ".")
	t.digits = len(fraction)
	return nil
}

// decimalText is what a sum may look like: bounded, and without exponents, which could
// name a number that fits into no memory.
var decimalText = regexp.MustCompile(`^-?\d{1,60}(\.\d{1,9})?$`)

// String tells the totals in words: amount=30 GBP, amount=5 USD; "" when there are none.
func (s Sums) String() string {
	var words []string
	for _, column := range slices.Sorted(maps.Keys(s)) {
		for _, currency := range slices.Sorted(maps.Keys(s[column])) {
			words = append(words, strings.TrimSpace(column+"="+s[column][currency].String()+" "+currency))
		}
	}
	return strings.Join(words, ", ")
}

// amount is what can be added up: no exponents, which could name a number that fits
// into no memory.
var amount = regexp.MustCompile(`^-?\d{1,18}(\.\d{1,9})?$`)

// currencyColumn splits the sums of the others: amounts of two currencies do not
// add up.
const currencyColumn = "currency"

// Groups counts operations, the largest group first; nil when there are none.
func Groups(ops []*jobs.Operation) []*Group {
	type key struct {
		kind   jobs.Kind
		reason jobs.Reason
		class  jobs.Class
	}
	found := map[key]*Group{}
	for _, o := range ops {
		k := key{kind: o.Kind}
		if o.Reason != nil {
			k.reason = *o.Reason
		}
		if o.Last != nil {
			k.class = o.Last.Class
		}
		g := found[k]
		if g == nil {
			g = &Group{Kind: o.Kind, Reason: o.Reason, Sums: Sums{}}
			if o.Last != nil {
				g.Class = &k.class
			}
			found[k] = g
		}
		g.add(o)
	}
	var out []*Group
	for _, k := range slices.SortedFunc(maps.Keys(found), func(a, b key) int {
		return cmp.Or(cmp.Compare(found[b].Operations, found[a].Operations), cmp.Compare(a.kind, b.kind), cmp.Compare(a.reason, b.reason), cmp.Compare(a.class, b.class))
	}) {
		out = append(out, found[k])
	}
	return out
}

func (g *Group) add(o *jobs.Operation) {
	g.Operations++
	if at := o.EnteredAt; at != nil {
		if g.OldestAt == nil || at.Before(g.OldestAt.Time) {
			g.OldestAt = at
		}
		if g.NewestAt == nil || at.After(g.NewestAt.Time) {
			g.NewestAt = at
		}
	}
	for name, v := range o.Columns {
		if name == currencyColumn || !amount.MatchString(v) {
			continue
		}
		if g.Sums[name] == nil {
			g.Sums[name] = map[string]*Total{}
		}
		t := g.Sums[name][o.Columns[currencyColumn]]
		if t == nil {
			t = &Total{}
			g.Sums[name][o.Columns[currencyColumn]] = t
		}
		n, _ := new(big.Rat).SetString(v) // matched above
		t.sum.Add(&t.sum, n)
		_, fraction, _ := strings.Cut(v, ".")
		t.digits = max(t.digits, len(fraction))
	}
}
