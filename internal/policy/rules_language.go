package policy

import (
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
)

// language is what an expression may use.
type language struct {
	env  *cel.Env
	vars string // named in every error of compilation
}

// languages are made once, at the first use: programs without rules do not pay.
var languages = sync.OnceValue(func() (l struct {
	answer, rule language // what stands in an answer; that and its class
	err          error
}) {
	answer, err := cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(functions())),
		cel.Variable("status", cel.IntType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("body", cel.DynType),
		cel.ParserRecursionLimit(maxExpressionDepth),
		cel.ExpressionNodeLimit(maxExpressionNodes),
		cel.RegexProgramSizeLimit(maxRegexProgram),
		// Else has(body.x) is false, and its opposite true, of a body that is no object at all.
		cel.EnableErrorOnBadPresenceTest(true),
	)
	if err != nil {
		l.err = fmt.Errorf("set up the language of rules: %w", err)
		return l
	}
	rule, err := answer.Extend(cel.Variable("class", cel.StringType))
	if err != nil {
		l.err = fmt.Errorf("set up the language of rules: %w", err)
		return l
	}
	l.answer = language{answer, "status (int), headers (text by lower-case name), body (the decoded JSON)"}
	l.rule = language{rule, l.answer.vars + ", class (text)"}
	return l
})

// functions is what of CEL's own library there is. Left out is all that has to do
// with time: there is no clock here, and time zones are read from files.
func functions() *env.LibrarySubset {
	subset := env.NewLibrarySubset()
	for _, name := range []string{
		operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse, operators.Conditional,
		operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.In, operators.Index, operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
		overloads.Size, overloads.Contains, overloads.StartsWith, overloads.EndsWith, overloads.Matches,
		overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertDouble, overloads.TypeConvertString,
		overloads.TypeConvertBool, overloads.TypeConvertType,
	} {
		subset.AddIncludedFunctions(env.NewFunction(name))
	}
	return subset
}
