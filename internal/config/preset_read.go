package config

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"redrive/internal/jobs"
	"redrive/internal/policy"

	"github.com/goccy/go-yaml/ast"
)

// readPreset reads the file of a preset. What is wrong with it is an [*Error].
func readPreset(name string, data []byte) (*Preset, error) {
	text := string(data)
	source := newSource("preset "+name, text)
	root, err := source.tree(text)
	if err != nil {
		return nil, err
	}
	r := &presetReader{decoder: &decoder{source: source, anchors: map[string]ast.Node{}}, p: &Preset{Name: name}, cited: map[string]bool{}}
	r.anchor(root)
	r.preset(r.value("", position{1, 1}, root))
	if err := source.err(r.findings); err != nil {
		return nil, err
	}
	return r.p, nil
}

// presetReader reads one preset.
type presetReader struct {
	*decoder
	p     *Preset
	cited map[string]bool // names of sources that a fact has named
}

func (r *presetReader) preset(v value) {
	o := v.object("title, sources, idempotency, ...")
	o.text("title", &r.p.Title)
	if v, ok := o.take("sources"); ok {
		entries, _ := v.entriesOf("name: address")
		for _, e := range entries {
			if ref, ok := e.plain(); ok {
				r.p.Sources = append(r.p.Sources, PresetSource{Name: e.key, Ref: ref})
			}
		}
	}
	if v, ok := o.take("idempotency"); ok {
		o := v.object("class: keyed, ...")
		word(o, "class", "idempotency", &r.p.Idempotency.Value, jobs.Idempotencies)
		fact(r, o, &r.p.Idempotency, true)
		o.done()
	}
	if v, ok := o.take("idempotency_key"); ok {
		r.idempotencyKey(v)
	}
	r.rules(o)
	r.inquiry(o)
	if v, ok := o.take("templates"); ok {
		items, _ := v.list("{name: void, request: ...}")
		for _, item := range items {
			r.template(item)
		}
	}
	r.p.Notes = r.texts(o, "notes", true)
	r.p.Uncertain = r.texts(o, "uncertain", false)
	o.done()
	for _, s := range r.p.Sources {
		if !r.cited[s.Name] {
			r.findings = append(r.findings, finding{path: "sources." + s.Name, message: "no fact names this source: remove it"})
		}
	}
	for key, missing := range map[string]bool{"title": r.p.Title == "", "idempotency": r.p.Idempotency.Value == "", "idempotency_key.header": r.p.Header.Source == "",
		"idempotency_key.window": r.p.Window.Source == ""} {
		if missing {
			r.findings = append(r.findings, finding{path: key, message: "required in every preset"})
		}
	}
}

// fact reads text, source and confidence. In force is what must be known better than
// from memory.
func fact[T any](r *presetReader, o *object, f *PresetFact[T], inForce bool) {
	o.text("fact", &f.Text)
	o.text("source", &f.Source)
	word(o, "confidence", "confidence", &f.Confidence, Confidences)
	switch {
	case f.Confidence == "":
		o.fail("required: confidence, one of %s", strings.Join(words(Confidences), ", "))
	case !slices.ContainsFunc(r.p.Sources, func(s PresetSource) bool { return s.Name == f.Source }):
		o.fail("source %q is none of the sources above", f.Source)
	case inForce:
		if why := f.Confidence.allows(policy.RuleSpec{}); why != "" {
			o.fail("%s", why)
		}
	}
	r.cited[f.Source] = true
}

func (r *presetReader) idempotencyKey(v value) {
	o := v.object("header: {value: Idempotency-Key, ...}, window: {value: 24h, ...}")
	if v, ok := o.take("header"); ok {
		f := v.object("value: Idempotency-Key, ...")
		f.text("value", &r.p.Header.Value)
		r.p.Header.Value = textproto.CanonicalMIMEHeaderKey(r.p.Header.Value)
		fact(r, f, &r.p.Header, r.p.Header.Value != "")
		f.done()
	}
	if v, ok := o.take("window"); ok {
		f := v.object("value: 24h, ...")
		f.span("value", &r.p.Window.Value)
		fact(r, f, &r.p.Window, r.p.Window.Value > 0)
		f.done()
	}
	if v, ok := o.take("max_length"); ok {
		f := v.object("value: 255, ...")
		integer(f, "value", &r.p.MaxLength.Value)
		fact(r, f, &r.p.MaxLength, true)
		f.done()
	}
	if v, ok := o.take("replayed"); ok {
		var text string
		f := v.object("value: \"Idempotent-Replayed: true\", ...")
		f.text("value", &text)
		mark, err := parseReplayMark(text)
		if err != nil || text == "" {
			f.fail("value must be a header or \"Header: value\" (%v)", err)
		}
		r.p.Replayed.Value = mark
		fact(r, f, &r.p.Replayed, true)
		f.done()
	}
	o.done()
}

func (r *presetReader) rules(o *object) {
	v, ok := o.take("rules")
	if !ok {
		return
	}
	items, _ := v.list("{name: ..., when: ..., verdict: ...}")
	specs := make([]policy.RuleSpec, len(items))
	for i, item := range items {
		var f PresetFact[policy.RuleSpec]
		var name string
		f.Value = r.rule(item, func(o *object) {
			o.text("name", &name)
			fact(r, o, &f, false)
		})
		f.Value.Preset, f.Value.Name, f.Value.Reason = r.p.Name, name, f.Text
		switch why := f.Confidence.allows(f.Value); {
		case why != "":
			item.fail("%s", why)
		case jobs.CheckName(name) != nil || f.Text == "" || f.Value.Processed == "":
			item.fail("a rule of a preset needs a name, a fact, and what it says of processed")
		case slices.ContainsFunc(specs[:i], func(s policy.RuleSpec) bool { return s.Name == name }):
			item.fail("there is a rule %q already", name)
		}
		specs[i] = f.Value
		r.p.Rules = append(r.p.Rules, f)
	}
	if len(r.findings) > 0 || len(specs) == 0 {
		return
	}
	rules, err := policy.CompileRules(specs)
	r.findings = append(r.findings, ruleFindings(v.path, err)...)
	r.p.rules = rules
}

// inquiry reads inquiry, or no_inquiry, which says why there is none.
func (r *presetReader) inquiry(o *object) {
	o.text("no_inquiry", &r.p.NoInquiry)
	v, ok := o.take("inquiry")
	if ok == (r.p.NoInquiry != "") {
		o.fail("one of inquiry and no_inquiry is required")
		return
	}
	if !ok {
		return
	}
	q := &PresetInquiry{Method: "POST"}
	i := v.object("for: ..., ask: ...")
	if v, ok := i.take("for"); ok {
		f := v.object("method: POST, path: /...")
		f.text("method", &q.Method)
		f.text("path", &q.Path)
		f.done()
	}
	i.text("needs", &q.Needs)
	fact(r, i, &q.Inquiry, true)
	if v, ok := i.take("ask"); ok {
		// Of class none nothing is filled in that the file does not say.
		q.Inquiry.Value = r.decoder.inquiry(v, &Kind{Idempotency: jobs.IdempotencyNone}, nil)
	}
	i.done()
	switch {
	case q.Inquiry.Value == nil || q.Path == "" || q.Needs == "" || q.Inquiry.Value.Settle == 0:
		v.fail("for.path, needs, ask and ask.settle are required")
	case !q.Inquiry.Value.AfterNotFoundDead:
		v.fail("after_not_found must be dead: a preset cannot know whether an operation bears what is asked for")
	}
	r.p.Inquiry = q
}

func (r *presetReader) template(v value) {
	f := PresetFact[PresetTemplate]{Value: PresetTemplate{Request: Request{Method: "POST", ContentType: "application/json"}}}
	o := v.object("name: void, request: {path: /...}")
	o.text("name", &f.Value.Name)
	if v, ok := o.take("request"); ok {
		q := v.object("method: POST, path: /...")
		q.text("method", &f.Value.Request.Method)
		q.text("path", &f.Value.Request.Path)
		q.text("content_type", &f.Value.Request.ContentType)
		q.done()
	}
	fact(r, o, &f, false)
	o.done()
	if err := requestPath.check(f.Value.Request.Path); err != nil || f.Value.Name == "" {
		v.fail("a template needs a name and a path (%v)", err)
	}
	r.p.Templates = append(r.p.Templates, f)
}

func (r *presetReader) texts(o *object, key string, inForce bool) (list []PresetFact[string]) {
	v, ok := o.take(key)
	if !ok {
		return nil
	}
	items, _ := v.list("{fact: ..., source: ..., confidence: ...}")
	for _, item := range items {
		var f PresetFact[string]
		i := item.object("fact: ..., source: ..., confidence: ...")
		fact(r, i, &f, inForce)
		i.done()
		f.Value = f.Text
		list = append(list, f)
	}
	return list
}

// presetOf reads which preset a dependency has; nil: none.
func (d *decoder) presetOf(o *object) *Preset {
	v, ok := o.take("preset")
	if !ok {
		return nil
	}
	name, ok := v.plain()
	if !ok || name == "" {
		return nil
	}
	p, ok, err := FindPreset(name)
	switch {
	case !ok:
		v.fail("unknown preset %q%s", name, NearestPreset(name))
	case err != nil:
		v.fail("%v", fmt.Errorf("preset %s: %w", name, err))
	default:
		return p
	}
	return nil
}
