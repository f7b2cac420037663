package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"redrive/internal/jobs"
)

// answerClasses are the classes an answer can have. Rules are asked about answers
// only, so the others would never match.
var answerClasses = []jobs.Class{jobs.Class2xx, jobs.Class429, jobs.Class503, jobs.Class5xx, jobs.Class4xx, jobs.ClassOther}

// checkWords finds what CEL accepts and what can never match: a class that no
// answer has, a header name that is not in lower case. It also refuses patterns
// that are not written out, and loop variables that would hide one of ours.
func (x *expression) checkWords(a *ast.AST) (err error) {
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if err != nil {
			return
		}
		if node, msg := wrongWord(e); msg != "" {
			fault := x.fail("%s", msg)
			x.locate(fault, node)
			err = fault
		}
	}))
	return err
}

func wrongWord(e ast.Expr) (node int64, msg string) {
	switch e.Kind() {
	case ast.ComprehensionKind:
		if name := e.AsComprehension().IterVar(); slices.Contains([]string{"status", "headers", "body", "class"}, name) {
			return e.ID(), fmt.Sprintf("the loop variable %q hides the one of that name: use another", name)
		}
	case ast.SelectKind:
		if s := e.AsSelect(); isVar(s.Operand(), "headers") {
			return e.ID(), wrongHeader(s.FieldName())
		}
	case ast.CallKind:
		args := e.AsCall().Args()
		if e.AsCall().IsMemberFunction() {
			args = append([]ast.Expr{e.AsCall().Target()}, args...)
		}
		if len(args) != 2 {
			return 0, ""
		}
		switch e.AsCall().FunctionName() {
		case overloads.Matches:
			return args[1].ID(), wrongPattern(args[1])
		case operators.Index:
			if isVar(args[0], "headers") {
				return args[1].ID(), wrongHeader(textOf(args[1]))
			}
		case operators.In:
			if isVar(args[1], "headers") {
				return args[0].ID(), wrongHeader(textOf(args[0]))
			}
			if isVar(args[0], "class") && args[1].Kind() == ast.ListKind {
				return wrongClass(args[1].AsList().Elements())
			}
		case operators.Equals, operators.NotEquals:
			if isVar(args[0], "class") || isVar(args[1], "class") {
				return wrongClass(args)
			}
		}
	}
	return 0, ""
}

func isVar(e ast.Expr, name string) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == name }

// textOf returns a literal text, "" for all else.
func textOf(e ast.Expr) string {
	if e.Kind() == ast.LiteralKind {
		if s, ok := e.AsLiteral().(types.String); ok {
			return string(s)
		}
	}
	return ""
}

// wrongPattern wants patterns written out: one that comes with an answer could not
// be checked before, and would be compiled for each.
func wrongPattern(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return "the pattern must be written out as a text"
	}
	if _, err := regexp.Compile(textOf(e)); err != nil {
		return "the pattern is not valid: " + cutMessage(err.Error())
	}
	return ""
}

func wrongHeader(name string) string {
	if lower := strings.ToLower(name); lower != name {
		return fmt.Sprintf("header names are in lower case here: write %q", lower)
	}
	return ""
}

func wrongClass(among []ast.Expr) (node int64, msg string) {
	for _, e := range among {
		if isVar(e, "class") || e.Kind() != ast.LiteralKind {
			continue
		}
		if name := jobs.Class(textOf(e)); !slices.Contains(answerClasses, name) {
			return e.ID(), fmt.Sprintf("no answer is of class %q: there are %s", name, join(answerClasses))
		}
	}
	return 0, ""
}

func join[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
