package policy

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// callPrices prices calls of functions by the work they are. CEL's own prices take
// the length of a text and the comparison of what is nested for nearly nothing:
// measured (2026-11), a rule that counted the characters of a long text for each
// item of a long list ran for 21 s before its own price reached the limit.
type callPrices struct{}

// CallCost is asked after each call of a function or an operator.
func (callPrices) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	price := uint64(1)
	switch {
	case len(args) == 2 && (function == operators.Equals || function == operators.NotEquals):
		price += comparison(args[0], args[1])
	case len(args) == 2 && function == operators.In:
		if list, ok := args[1].(traits.Lister); ok {
			price += weight(list, MaxExpressionCost)
		}
	case len(args) == 2 && function == overloads.Matches:
		price += textCost(args[0]) * (1 + textCost(args[1]))
	default:
		for _, arg := range args {
			price += textCost(arg)
		}
	}
	return &price
}

const (
	textBytesPerCost = 10 // as CEL has it
	nestedCost       = 8  // comparing what is inside is dearer than the rest: each value is wrapped, looked up and wrapped again
)

func textCost(v ref.Val) uint64 {
	if s, ok := v.(types.String); ok {
		return uint64(len(s)) / textBytesPerCost
	}
	return 0
}

// comparison is what a == b costs. Values of different types or lengths are told
// apart at once, so nothing may be walked to price them.
func comparison(a, b ref.Val) uint64 {
	if !nested(a) || !nested(b) {
		return min(textCost(a), textCost(b))
	}
	if a.(traits.Sizer).Size().Equal(b.(traits.Sizer).Size()) != types.True {
		return 0
	}
	return nestedCost * weight(a, MaxExpressionCost)
}

func nested(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	default:
		return false
	}
}

// weight is how much there is to look at in a value, counted no further than limit.
func weight(v ref.Val, limit uint64) uint64 {
	if !nested(v) {
		return 1 + textCost(v)
	}
	total := uint64(1)
	m, isMap := v.(traits.Mapper)
	for it := v.(traits.Iterable).Iterator(); it.HasNext() == types.True && total < limit; {
		item := it.Next()
		if isMap {
			total += textCost(item)
			item = m.Get(item)
		}
		total += weight(item, limit-min(total, limit))
	}
	return total
}
