package httpapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/wire"
)

// asks returns the schema of a route's body, or of a line of it, and where it stands.
func (p *promised) asks(path, method string) (schema any, at string) {
	for media, content := range dig(dig(dig(p.paths[path], method), "requestBody"), "content") {
		word := "schema"
		if media == ndjsonType {
			word = "x-line-schema"
		}
		return content.(map[string]any)[word], pointer("paths", path, method, "requestBody", "content", media, word)
	}
	return nil, ""
}

// dig returns the object that lies under a name; nil: there is none.
func dig(v any, name string) map[string]any {
	m, _ := v.(map[string]any)
	inner, _ := m[name].(map[string]any)
	return inner
}

// places are all places of an instance that a schema tells of, but for its top: names, and
// numbers of elements.
func (p *promised) places(schema any, before ...any) (out [][]any) {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return p.places(p.schemaAt(ref), before...)
	}
	for _, inner := range anyOf(s) {
		out = append(out, p.places(inner, before...)...)
	}
	into := func(step any, schema any) {
		here := append(slices.Clone(before), step)
		out = append(append(out, here), p.places(schema, here...)...)
	}
	properties := dig(s, "properties")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		into(name, properties[name])
	}
	if items := dig(s, "items"); items != nil {
		into(0, items)
	}
	if more := dig(s, "additionalProperties"); more != nil {
		into("cap", more)
	}
	return out
}

func anyOf(schema map[string]any) []any {
	list, _ := schema["anyOf"].([]any)
	return list
}

// schemaAt is what a reference of the document leads to.
func (p *promised) schemaAt(ref string) any {
	return p.components[strings.TrimPrefix(ref, "#/components/schemas/")]
}

// nulled is a body in which a place is null; what lies on the way is made.
func nulled(body any, place []any) any {
	if len(place) == 0 {
		return nil
	}
	if _, ok := place[0].(int); ok {
		var first any
		if list, _ := body.([]any); len(list) > 0 {
			first = list[0]
		}
		return []any{nulled(first, place[1:])}
	}
	m, _ := body.(map[string]any)
	out := maps.Clone(m)
	if out == nil {
		out = map[string]any{}
	}
	name := place[0].(string)
	out[name] = nulled(out[name], place[1:])
	return out
}

// located is a place as a problem names it.
func located(place []any) string {
	out := "body"
	for _, step := range place {
		switch step := step.(type) {
		case int:
			out += "[" + strconv.Itoa(step) + "]"
		case string:
			out += "." + step
		}
	}
	return out
}

// null counted as not given: with "dry_run": null a cancel of many was carried out, and
// with "for": null a pause had no end.
func TestNullIsRefusedWhereTheDocumentDoesNotAllowIt(t *testing.T) {
	t.Parallel()
	p, err := thePromise()
	if err != nil {
		t.Fatal(err)
	}
	b := setupAPI(t)
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	tried, allowed := 0, []string{}
	for _, c := range routeCases {
		method, path, _ := strings.Cut(c.pattern, " ")
		schema, at := p.asks(path, strings.ToLower(method))
		if (schema == nil) != (c.body == "") {
			t.Errorf("%s: a body of %q, and the document says %v", c.pattern, c.body, schema)
		}
		if schema == nil {
			continue
		}
		var body any
		if err := json.Unmarshal([]byte(c.body), &body); err != nil {
			t.Fatal(err)
		}
		places := p.places(schema)
		if len(places) == 0 {
			t.Errorf("%s: no field is known", c.pattern)
		}
		for _, place := range places {
			text, err := json.Marshal(nulled(body, place))
			if err != nil {
				t.Fatal(err)
			}
			if p.valid(text, at) == nil {
				allowed = append(allowed, c.pattern+" "+located(place))
				continue
			}
			tried++
			a := c.ask(all)
			a.body = string(text)
			g := b.ask(a)
			if c.takes == ndjsonType {
				answers := answersOf(t, g.body)
				if len(answers.lines) != 1 || answers.lines[0].Type != problemURN+invalid.name || len(answers.lines[0].Errors) != 1 || answers.lines[0].Errors[0].Location != located(place) {
					t.Errorf("%s %s: %s", c.pattern, text, g.body)
				}
				continue
			}
			if found := g.is(t, c.pattern+" "+a.body, invalid); len(found.Errors) != 1 || found.Errors[0].Location != located(place) || !strings.Contains(found.Detail, "not null") {
				t.Errorf("%s %s: %+v, want it at %s", c.pattern, text, found.Errors, located(place))
			}
		}
	}
	if want := []string{"POST /v1/operations body.body", "POST /v1/operations:import body.body"}; tried < 100 || !slices.Equal(allowed, want) {
		t.Errorf("%d tried; null may stand at %v, want %v", tried, allowed, want)
	}
	if g := b.get("/v1/batches"); len(into[Batches](t, g).Items) != 0 {
		t.Errorf("something was done: %s", g.body)
	}
	if page := into[Page](t, b.get("/v1/operations")); len(page.Items) != 1 || page.Items[0].State != jobs.Waiting {
		t.Errorf("%+v", page.Items)
	}
	for _, g := range into[struct{ Items []wire.Gate }](t, b.get("/v1/dependencies")).Items {
		if g.Paused != nil || g.Override != nil {
			t.Errorf("%s is held: %+v", g.Dependency, g)
		}
	}
}
