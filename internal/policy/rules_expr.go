package policy

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

const (
	// MaxExpressionBytes is how long one expression may be.
	MaxExpressionBytes = 4096
	// MaxExpressionCost is what one evaluation of one expression may cost, in CEL's
	// own units: about one per value read, compared or visited, and one per ten
	// bytes of text looked at. One pass over the objects that fit in a body costs less.
	// BenchmarkCostLimit says what it is in time.
	MaxExpressionCost = 1_000_000

	maxExpressionDepth = 50   // of brackets and calls: the parser and the checker recurse
	maxExpressionNodes = 2000 // macros count as what they expand to
	maxRegexProgram    = 2000 // instructions: a{999}b{999}c{999} is short to write and long to run
	maxMessageBytes    = 300  // the parser lists every token it would have liked
)

// RuleError says what is wrong with a rule, or with one expression of an inquiry
// or of results: when it is compiled, or when it is evaluated. Its text never
// holds anything of an answer's headers or body.
type RuleError struct {
	Index  int    // of the rule, from 0; -1 where there is no list of rules
	Field  string // the key at fault: "when", "verdict", "succeeded", "answers", the name of a result
	Line   int    // within the expression, from 1; 0: all of it
	Column int    // likewise, in characters
	Msg    string
}

// Error returns the whole of it on one line; rules are counted from 1, as people do.
func (e *RuleError) Error() string {
	var b strings.Builder
	if e.Index >= 0 {
		fmt.Fprintf(&b, "rule %d: ", e.Index+1)
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d, column %d: ", e.Line, e.Column)
	}
	b.WriteString(e.Msg)
	return b.String()
}

// place takes over a position of CEL, whose columns count from 0. What has none
// there is about the whole expression.
func (e *RuleError) place(at common.Location) {
	if at.Line() > 0 {
		e.Line, e.Column = at.Line(), at.Column()+1
	}
}

// expression is one compiled expression: never changed, safe for concurrent use.
type expression struct {
	index   int // for errors, as in RuleError
	field   string
	source  string
	program cel.Program
	info    *ast.SourceInfo
}

// compiling lets one expression be checked at a time: a failed check fills what CEL's
// environment shares with every other check (Env.Catalog), without a lock of its own.
var compiling sync.Mutex

// compile checks the source and its type. A nil kinds means a yes or no: the
// expression must be bool.
func (l language) compile(index int, field, source string, kinds []types.Kind) (*expression, error) {
	x := &expression{index: index, field: field, source: source}
	switch {
	case strings.TrimSpace(source) == "":
		return nil, x.fail("the expression is empty")
	case len(source) > MaxExpressionBytes:
		return nil, x.fail("the expression has %d bytes, the limit is %d", len(source), MaxExpressionBytes)
	}
	compiling.Lock()
	checked, issues := l.env.Compile(source)
	compiling.Unlock()
	if issues.Err() != nil {
		first := issues.Errors()[0] // the others mostly follow from it
		e := x.fail("%s; available: %s", messageOf(first), l.vars)
		e.place(first.Location)
		return nil, e
	}
	x.info = checked.NativeRep().SourceInfo()
	if err := x.checkWords(checked.NativeRep()); err != nil {
		return nil, err
	}
	if err := x.checkType(checked.OutputType(), kinds); err != nil {
		return nil, err
	}
	var err error
	if x.program, err = l.env.Program(checked, cel.EvalOptions(cel.OptOptimize),
		cel.CostTracking(callPrices{}), cel.CostLimit(MaxExpressionCost)); err != nil {
		return nil, x.fail("%s", cutMessage(err.Error()))
	}
	return x, nil
}

// messageOf is CEL's own message in the way we write them.
func messageOf(e *cel.Error) string {
	msg := strings.ReplaceAll(e.Message, " (in container '')", "")
	msg = strings.Join(strings.Fields(msg), " ")
	if msg != "" {
		msg = strings.ToLower(msg[:1]) + msg[1:]
	}
	return cutMessage(msg)
}

func cutMessage(s string) string {
	if len(s) <= maxMessageBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessageBytes], "") + "…"
}

func (x *expression) checkType(t *cel.Type, kinds []types.Kind) error {
	if kinds == nil {
		switch t.Kind() {
		case types.BoolKind:
			return nil
		case types.DynKind:
			return x.fail("it must be true or false, and this may be anything: compare it, as in (%s) == true", cutMessage(x.source))
		default:
			return x.fail("it must be true or false, and this is of type %s", t)
		}
	}
	for _, k := range kinds {
		if t.Kind() == k {
			return nil
		}
	}
	return x.fail("it must be a text, a number or a bool, and this is of type %s", t)
}

// eval evaluates it. The answer remembers what it decoded: use one for all
// expressions about the same answer, and never two at a time.
func (x *expression) eval(a *view) (ref.Val, error) {
	out, _, err := x.program.Eval(a)
	if err != nil {
		return nil, x.runtimeError(err)
	}
	return out, nil
}

func (x *expression) isTrue(a *view) (bool, error) {
	out, err := x.eval(a)
	if err != nil {
		return false, err
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, x.fail("it is neither true nor false") // not reached: the type was checked
	}
	return bool(b), nil
}

// runtimeError does not wrap what it was given: CEL's texts can hold pieces of
// the answer, such as the text that is no number, and these are never logged. The
// text is looked at only to say more to a person; nothing is decided by it.
func (x *expression) runtimeError(err error) *RuleError {
	e := x.fail("cannot be evaluated on this answer")
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) {
		e.Msg = fmt.Sprintf("costs more than %d, the limit of one evaluation", MaxExpressionCost)
		return e
	}
	if msg := err.Error(); strings.HasPrefix(msg, "no such overload") {
		e.Msg = "a value is of another type than the expression needs"
	} else if key, ok := strings.CutPrefix(msg, "no such key: "); ok {
		e.Msg = "a key is missing"
		if strings.Contains(x.source, key) { // then it is the rule's word, not the answer's
			e.Msg = fmt.Sprintf("no key %q", key)
		}
	}
	var at *types.Err
	if errors.As(err, &at) {
		x.locate(e, at.NodeID())
	}
	return e
}

func (x *expression) locate(e *RuleError, node int64) {
	e.place(x.info.GetStartLocation(node))
}

func (x *expression) fail(format string, args ...any) *RuleError {
	return &RuleError{Index: x.index, Field: x.field, Msg: fmt.Sprintf(format, args...)}
}
