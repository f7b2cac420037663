package policy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

const (
	// MaxResults is how many values of a success are kept.
	MaxResults = 4
	// MaxResultBytes is how long each of them may be.
	MaxResultBytes = 200
	// maxExact bounds the doubles that stand for one integer only (2^53).
	maxExact = 1 << 53
)

// Results are the compiled expressions of what is kept of a success. They are
// never changed, and safe for concurrent use. A nil *Results keeps nothing.
type Results struct{ values []*expression }

// resultKinds are the types a value may have; dyn is anything in a body, and is
// looked at when there is one.
var resultKinds = []types.Kind{types.DynKind, types.StringKind, types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind}

// CompileResult compiles CEL over status, headers and body, by the name of the
// value. The error joins one *[RuleError] for each that is wrong.
func CompileResult(specs map[string]string) (*Results, error) {
	l := languages()
	if l.err != nil {
		return nil, l.err
	}
	if len(specs) > MaxResults {
		return nil, &RuleError{Index: -1, Msg: fmt.Sprintf("there are %d results, the limit is %d", len(specs), MaxResults)}
	}
	out := &Results{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		x, err := l.answer.compile(-1, name, specs[name], resultKinds)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.values = append(out.values, x)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// Names returns the names of the values, sorted.
func (r *Results) Names() []string {
	if r == nil {
		return nil
	}
	names := make([]string, len(r.values))
	for i, x := range r.values {
		names[i] = x.field
	}
	return names
}

// Read takes the values out of the answer to a success. What is not there, null or
// empty, neither text nor number nor bool, or longer than [MaxResultBytes], is left
// out, with a *[RuleError] that says why: a value is whole or not there. Values is
// never nil.
func (r *Results) Read(s Sample) (values map[string]string, errs []error) {
	values = map[string]string{}
	if r == nil {
		return values, nil
	}
	a := view{sample: s}
	for _, x := range r.values {
		value, err := x.text(&a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		values[x.field] = value
	}
	return values, errs
}

func (x *expression) text(a *view) (string, error) {
	v, err := x.eval(a)
	if err != nil {
		return "", err
	}
	text, why := plainText(v)
	switch {
	case why != "":
		return "", x.fail("%s", why)
	case text == "":
		return "", x.fail("it is empty")
	case len(text) > MaxResultBytes:
		return "", x.fail("it has %d bytes, the limit is %d", len(text), MaxResultBytes)
	}
	return text, nil
}

// plainText writes a value so that it names the same thing again when it is sent.
func plainText(v ref.Val) (text, why string) {
	switch v := v.(type) {
	case types.String:
		return string(v), ""
	case types.Int:
		return strconv.FormatInt(int64(v), 10), ""
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), ""
	case types.Bool:
		return strconv.FormatBool(bool(v)), ""
	case types.Double:
		if f := float64(v); math.Abs(f) < maxExact { // false for NaN too
			return strconv.FormatFloat(f, 'f', -1, 64), ""
		}
		return "", "it is a number too large to be exact"
	case types.Null:
		return "", "it is null"
	default:
		return "", "it is neither text nor number nor bool"
	}
}
