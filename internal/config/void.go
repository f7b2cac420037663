package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"redrive/internal/jobs"
)

// lateSuccess is what a success leads to that is learnt after the operation was
// given up or cancelled.
type lateSuccess string

const (
	lateKeep lateSuccess = "keep" // it stays succeeded; the default
	lateVoid lateSuccess = "void" // it stays succeeded, and an operation that undoes it is submitted
)

// lateSuccesses reads on_late_success and void into k. A void that is not in force is
// kept apart, so that one word turns it on, and checked all the same.
func (d *decoder) lateSuccesses(o *object, k *Kind) {
	late := lateKeep
	word(o, "on_late_success", "on_late_success", &late, []lateSuccess{lateKeep, lateVoid})
	v, written := o.take("void")
	switch {
	case written && late == lateVoid:
		k.VoidLate = d.void(v)
	case written:
		k.idleVoid = d.void(v)
	case late == lateVoid:
		d.findings = append(d.findings, finding{path: join(o.path, "void"), fallback: join(o.path, "on_late_success"),
			message: "required with on_late_success: void: write one such as {kind: void, params: {id: result.id}}"})
	}
}

func (d *decoder) void(v value) *jobs.VoidSpec {
	s := &jobs.VoidSpec{Params: map[string]string{}}
	o := v.object("kind: ..., params: {id: result.id}")
	var kind string
	o.text("kind", &kind)
	s.Kind = jobs.Kind(kind)
	if v, ok := o.take("params"); ok {
		entries, _ := v.entriesOf("id: result.id")
		for _, e := range entries {
			if from, ok := e.plain(); ok {
				s.Params[e.key] = from
			}
		}
	}
	o.done()
	return s
}

var (
	paramName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
	paramValue = regexp.MustCompile(`^(key|params\.[A-Za-z0-9_-]{1,63}|result\.[a-z][a-z0-9_-]{0,62})$`)
)

// void checks what undoes a late success of k.
func (v *validator) void(path string, k *Kind, s *jobs.VoidSpec) {
	if s == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		at, from := path+".params."+name, s.Params[name]
		if !paramName.MatchString(name) {
			v.fail(at, "%q cannot be the name of a param: want 1 to 63 of A-Z, a-z, 0-9, _ and -", name)
		}
		if !paramValue.MatchString(from) {
			v.fail(at, "%q says nothing of the operation: write key, params.NAME or result.NAME", from)
		} else if result, ok := strings.CutPrefix(from, "result."); ok {
			v.resultName(at, from, result, k)
		}
	}
	other := v.c.Kinds[s.Kind]
	switch {
	case s.Kind == "":
		v.fail(path+".kind", "required: the kind that undoes a success of %s", k.Name)
	case other == nil:
		v.fail(path+".kind", "unknown kind %q%s", s.Kind, orNearest(string(s.Kind), words(slices.Sorted(maps.Keys(v.c.Kinds)))))
	case other == k:
		v.fail(path+".kind", "kind %s cannot undo itself: name another", k.Name)
	case other.VoidLate != nil:
		v.fail(path+".kind", "kind %s has on_late_success: void itself: what undoes a success must not be undone in turn", s.Kind)
	default:
		v.voidParams(path, other, s)
	}
}

// voidParams checks that other gets every param that its paths need.
func (v *validator) voidParams(path string, other *Kind, s *jobs.VoidSpec) {
	needed := placeholders(other.Request.Path, "params.")
	if other.Inquiry != nil {
		needed = append(needed, placeholders(other.Inquiry.Path, "params.")...)
	}
	slices.Sort(needed)
	for _, name := range slices.Compact(needed) {
		if _, ok := s.Params[name]; !ok {
			v.fail(path+".params", "kind %s needs the param %q: write what it is, such as %s: result.id", s.Kind, name, name)
		}
	}
}
