package cli

import (
	"cmp"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"redrive/internal/jobs"
)

// group counts operations of one kind, reason and class, and adds up their columns.
type group struct {
	Kind       jobs.Kind     `json:"kind"`
	Reason     *jobs.Reason  `json:"reason"`
	Class      *jobs.Class   `json:"class"`
	Operations int           `json:"operations"`
	Sums       sums          `json:"sums"` // by column, then by currency
	OldestAt   *jobs.Instant `json:"oldest_at"`
	NewestAt   *jobs.Instant `json:"newest_at"`
}

// sums are totals by column, then by currency ("" where the operation has no column
// of that name).
type sums map[string]map[string]*total

// total is a sum in decimal, exact.
type total struct {
	sum    big.Rat
	digits int // after the point, at most, of what was added
}

// MarshalText writes the decimal.
func (t *total) MarshalText() ([]byte, error) { return []byte(t.sum.FloatString(t.digits)), nil }

func (s sums) String() string {
	var words []string
	for _, column := range slices.Sorted(maps.Keys(s)) {
		for _, currency := range slices.Sorted(maps.Keys(s[column])) {
			t := s[column][currency]
			words = append(words, strings.TrimSpace(column+"="+t.sum.FloatString(t.digits)+" "+currency))
		}
	}
	return orDash(strings.Join(words, ", "))
}

// amount is what can be added up: no exponents, which could name a number that fits
// into no memory.
var amount = regexp.MustCompile(`^-?\d{1,18}(\.\d{1,9})?$`)

// currencyColumn splits the sums of the others: amounts of two currencies do not
// add up.
const currencyColumn = "currency"

// groups counts operations, the largest group first.
func groups(ops []*jobs.Operation) []*group {
	type key struct {
		kind   jobs.Kind
		reason jobs.Reason
		class  jobs.Class
	}
	found := map[key]*group{}
	for _, o := range ops {
		k := key{o.Kind, deref(o.Reason), deref(o.Last).Class}
		g := found[k]
		if g == nil {
			g = &group{Kind: o.Kind, Reason: o.Reason, Sums: sums{}}
			if o.Last != nil {
				g.Class = &k.class
			}
			found[k] = g
		}
		g.add(o)
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(deref(a.Reason), deref(b.Reason)), cmp.Compare(deref(a.Class), deref(b.Class)))
	})
}

func (g *group) add(o *jobs.Operation) {
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
			g.Sums[name] = map[string]*total{}
		}
		t := g.Sums[name][o.Columns[currencyColumn]]
		if t == nil {
			t = &total{}
			g.Sums[name][o.Columns[currencyColumn]] = t
		}
		n, _ := new(big.Rat).SetString(v) // matched above
		t.sum.Add(&t.sum, n)
		_, fraction, _ := strings.Cut(v, ".")
		t.digits = max(t.digits, len(fraction))
	}
}

func (g *group) cells() []string {
	return []string{strconv.Itoa(g.Operations), string(g.Kind), orDash(string(deref(g.Reason))), orDash(string(deref(g.Class))), g.Sums.String()}
}

var groupHeader = []string{"operations", "kind", "reason", "class", "sums"}

// dryRun is what a requeue would do, as JSON.
type dryRun struct {
	DryRun   bool         `json:"dry_run"`
	Requeued int          `json:"requeued"` // would be
	Refused  int          `json:"refused"`
	Missing  int          `json:"missing"`
	Groups   []*group     `json:"groups"`   // of what would be requeued
	Refusals []refusedFor `json:"refusals"` // of what would not, by why
}

// refusedFor are operations that would be refused for one reason.
type refusedFor struct {
	Why        string    `json:"why"`
	Operations int       `json:"operations"`
	Examples   []jobs.ID `json:"examples"` // at most 5
}

const maxExamples = 5

func (p *program) writeDryRun(set []chosen, results []result) error {
	out := dryRun{DryRun: true, Refusals: []refusedFor{}}
	var good []*jobs.Operation
	byWhy := map[string]*refusedFor{}
	for i, r := range results {
		if r.Result == resultDone {
			out.Requeued++
			good = append(good, set[i].op)
			continue
		}
		if r.Result == resultMissing {
			out.Missing++
		} else {
			out.Refused++
		}
		why := byWhy[r.Detail]
		if why == nil {
			why = &refusedFor{Why: r.Detail}
			byWhy[r.Detail] = why
		}
		why.Operations++
		if len(why.Examples) < maxExamples {
			why.Examples = append(why.Examples, r.Operation)
		}
	}
	out.Groups = groups(good)
	for _, why := range slices.SortedFunc(maps.Values(byWhy), func(a, b *refusedFor) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), cmp.Compare(a.Why, b.Why))
	}) {
		out.Refusals = append(out.Refusals, *why)
	}
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(out)
	case asJSONL:
		return p.writeLine(out)
	case asName:
		for i, r := range results {
			if r.Result == resultDone {
				p.print("%s", set[i].place.ID)
			}
		}
		return nil
	case asCSV:
		g := grid{header: groupHeader}
		for _, group := range out.Groups {
			g.add(group.cells()...)
		}
		return tableCSV(p.stdout, g)
	}
	p.say("dry run: %d would be requeued, %d refused, %d not found; nothing was changed", out.Requeued, out.Refused, out.Missing)
	g := grid{header: groupHeader}
	for _, group := range out.Groups {
		g.add(group.cells()...)
	}
	p.table(g)
	if len(out.Refusals) > 0 {
		if len(g.rows) > 0 {
			p.print("")
		}
		g = grid{header: []string{"operations", "refused because", "such as"}}
		for _, r := range out.Refusals {
			g.add(strconv.Itoa(r.Operations), r.Why, r.Examples[0].String())
		}
		p.table(g)
	}
	return nil
}
