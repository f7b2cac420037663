package config

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"redrive/internal/jobs"

	"github.com/goccy/go-yaml/ast"
)

// object reads a mapping with a fixed set of keys: each method reads one key into
// its target and leaves the target, and thereby the default, alone where the file
// does not say it. done reports the keys that nobody asked for.
type object struct {
	value
	entries []entry
	known   []string // asked for so far: what a typo may have meant
	ok      bool
}

// object opens v; what says in an error what should stand there.
func (v value) object(what string) *object {
	o := &object{value: v}
	o.entries, o.ok = v.entriesOf(what)
	return o
}

// take returns the value of key, once.
func (o *object) take(key string) (value, bool) {
	o.known = append(o.known, key)
	for i, e := range o.entries {
		if e.key == key {
			o.entries = slices.Delete(o.entries, i, i+1)
			return e.value, e.node != nil
		}
	}
	return value{}, false
}

// hasAny reports whether one of keys is written and not taken.
func (o *object) hasAny(keys ...string) bool {
	return slices.ContainsFunc(o.entries, func(e entry) bool { return slices.Contains(keys, e.key) })
}

// done reports every key that was not taken.
func (o *object) done() {
	for _, e := range o.entries {
		message := fmt.Sprintf("unknown key %q%s", e.key, orNearest(e.key, o.known))
		if meant, ok := nearest(e.key, o.known); !ok || !scalar(e.node) || confidentialPath(meant) {
			o.d.hide(e.node) // it may be a secret under a mistyped name
		}
		o.d.findings = append(o.d.findings, finding{at: e.at, path: o.path, message: message})
	}
}

// text reads a string that both programs need as it stands, so no ${...}.
func (o *object) text(key string, into *string) {
	v, ok := o.take(key)
	if !ok {
		return
	}
	if text, ok := v.plain(); ok {
		*into = text
	}
}

// plain returns the text of v with $$ read as a dollar.
func (v value) plain() (string, bool) {
	raw, ok := v.raw()
	if !ok {
		return "", false
	}
	return v.unescape(raw)
}

// unescape returns raw with $$ read as a dollar.
func (v value) unescape(raw string) (string, bool) {
	s, err := NewSecret(raw)
	switch {
	case err != nil:
		v.fail("%v", err)
		return "", false
	case s.HasRefs():
		v.fail("${...} cannot stand here: enqueue needs this value too, and has neither the variables nor the files")
		return "", false
	}
	return s.literal(), true
}

// late reads a string that only worker needs: with a ${...} in it, it stays as
// written until ResolveSecrets.
func (o *object) late(key string, into *string) {
	v, ok := o.take(key)
	if !ok {
		return
	}
	raw, ok := v.raw()
	if !ok {
		return
	}
	if strings.Contains(raw, "@") {
		v.d.hide(v.node) // user:password@ is refused, and the error must not show it
	}
	s, err := NewSecret(raw)
	switch {
	case err != nil:
		v.fail("%v", err)
	case s.HasRefs():
		*into = raw
	case strings.Contains(s.literal(), "$"):
		v.fail("a dollar cannot stand here")
	default:
		*into = s.literal()
	}
}

// secret reads a string that is looked up at the moment of use and never shown.
func (o *object) secret(key string, into *Secret) {
	if v, ok := o.take(key); ok {
		*into, _ = v.secret()
	}
}

func (v value) secret() (Secret, bool) {
	v.d.hide(v.node)
	raw, ok := v.raw()
	if !ok {
		return Secret{}, false
	}
	s, err := NewSecret(raw)
	if err != nil {
		v.fail("%v", err)
		return Secret{}, false
	}
	return s, true
}

// raw returns the text of v as written.
func (v value) raw() (string, bool) {
	switch n := v.node.(type) {
	case nil:
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		v.fail("expected text, got %s: put it in quotes", describe(n))
	default:
		v.fail("expected text, got %s", describe(n))
	}
	return "", false
}

// word reads one of a closed list.
func word[T ~string](o *object, key, what string, into *T, allowed []T) {
	v, ok := o.take(key)
	if !ok {
		return
	}
	text, ok := v.plain()
	if !ok {
		return
	}
	w, err := jobs.Parse(what, text, allowed)
	if err != nil {
		v.fail("%v%s", err, didYouMean(text, words(allowed)))
		return
	}
	*into = w
}

// span reads a Go duration.
func (o *object) span(key string, into *time.Duration) {
	v, ok := o.take(key)
	if !ok {
		return
	}
	switch n := v.node.(type) {
	case *ast.StringNode:
		d, err := parseSpan(n.Value)
		if err != nil {
			v.fail("%v", err)
			return
		}
		*into = d
	case *ast.IntegerNode:
		if number := n.Token.Value; number == "0" {
			*into = 0
		} else {
			v.fail("a span needs its unit: write %ss, if %s seconds are meant", number, number)
		}
	case *ast.FloatNode:
		v.fail("a span needs its unit: write %ss, if %s seconds are meant", n.Token.Value, n.Token.Value)
	default:
		v.fail("expected a span such as 90s or 2h, got %s", describe(n))
	}
}

func parseSpan(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, checkSpan(d)
	}
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= int(MaxDuration/(24*time.Hour)) {
			return 0, fmt.Errorf("%q is no span: Go spans know no days, write %dh", text, n*24)
		}
	}
	return 0, fmt.Errorf("%q is no span: write a number with its unit, such as 150ms, 90s, 1h30m", text)
}

// integer reads a whole number; its range is a matter of validation.
func integer[T int | int64](o *object, key string, into *T) {
	v, ok := o.take(key)
	if !ok {
		return
	}
	if number, ok := v.integer(); ok {
		if int64(T(number)) != number {
			v.outOfRange()
			return
		}
		*into = T(number)
	}
}

// integer returns the whole number that v is.
func (v value) integer() (int64, bool) {
	n, isNumber := v.node.(*ast.IntegerNode)
	if !isNumber && !tooLong(v.node) {
		if v.node != nil {
			v.fail("expected a whole number, got %s%s", describe(v.node), unquote(v.node))
		}
		return 0, false
	}
	if isNumber {
		if number, err := strconv.ParseInt(strings.ReplaceAll(n.Token.Value, "_", ""), 10, 64); err == nil {
			return number, true
		}
	}
	v.outOfRange()
	return 0, false
}

func (v value) outOfRange() {
	v.fail("%.40s is not a decimal number in range", v.node.GetToken().Value)
}

// milli reads a number with up to three decimals as thousandths.
func (o *object) milli(key string, into *int64) {
	v, ok := o.take(key)
	if !ok {
		return
	}
	var text string
	switch n := v.node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		text = n.GetToken().Value
	default:
		v.fail("expected a number, got %s%s", describe(n), unquote(n))
		return
	}
	// Exactly, not by way of a float: 0.1 is 100 and nothing near it. The length is
	// bounded because big.Rat unfolds exponents.
	number, ok := new(big.Rat).SetString(text)
	if len(text) > 20 || strings.ContainsAny(text, "eExX") || !ok {
		v.fail("%.20s is not a plain number such as 0.1", text)
		return
	}
	number.Mul(number, big.NewRat(1000, 1))
	if !number.IsInt() || !number.Num().IsInt64() {
		v.fail("%s has more than three decimals", text)
		return
	}
	*into = number.Num().Int64()
}

// tooLong reports whether n is a number with so many digits that YAML takes it for text.
func tooLong(n ast.Node) bool {
	s, ok := n.(*ast.StringNode)
	return ok && !quoted(s) && len(s.Value) > 18 && strings.Trim(s.Value, "+-0123456789") == ""
}

// unquote is the hint for a number written as text.
func unquote(n ast.Node) string {
	if s, ok := n.(*ast.StringNode); ok && quoted(s) {
		return ": write it without quotes"
	}
	return ""
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}
