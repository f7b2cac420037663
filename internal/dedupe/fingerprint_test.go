package dedupe

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func sample() Request {
	return Request{
		ContentType: "application/json", Params: map[string]string{"id": "x", "b": "y"}, Headers: map[string]string{"X-Account": "a1"},
		Credential: "default", IdempotencyKey: "order-1", Body: []byte(`{"amount":4200,"currency":"GBP","items":[1,2]}`),
	}
}

// The fingerprint is stored with every operation: a change of these values is a
// change of the schema, because known operations would turn into conflicts.
func TestFingerprintsAreStable(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		r    Request
		want Fingerprint
	}{
		{"everything", sample(), "tNquOr4uMQ2DBr28bfVRKA:ust2INT-hZgsN6juC6_iSyqX"},
		{"nothing", Request{}, "sNPJZuOl513U9oK2azZVFw:47DE47DE47DE47DE47DE47DE"},
		{"text body", Request{ContentType: "text/plain", Credential: "m1", Body: []byte("a=1&b=2")}, "MKAcfXOlj5iu9jEbDyjsng:3COT47DE47DEyg3y47DEjoW-"},
		{"nested JSON", Request{ContentType: "application/vnd.pay+json; charset=utf-8", Credential: "default",
			Body: []byte(`{"z":{"b":[true,null,1.50,-0],"a":"é\n"},"a":""}`)}, "H3bxOzE-nZyHUga6g7elrQ:do1V47DE47DEN6ju47DEG2c-"},
	}
	for _, c := range cases {
		if got := Of(c.r); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if len(c.want) != 47 {
			t.Errorf("%s: %d bytes, want 47", c.name, len(c.want))
		}
	}
}

func TestLayoutAndOrderDoNotCount(t *testing.T) {
	t.Parallel()
	base := Of(sample())
	for name, change := range map[string]func(*Request){
		"layout": func(r *Request) {
			r.Body = []byte("{ \"amount\" : 4200,\n\t\"currency\":\"GBP\", \"items\" : [ 1 , 2 ] }")
		},
		"key order":           func(r *Request) { r.Body = []byte(`{"items":[1,2],"currency":"GBP","amount":4200}`) },
		"escapes":             func(r *Request) { r.Body = []byte(`{"amount":4200,"curr\u0065ncy":"\u0047BP","items":[1,2]}`) },
		"case of header name": func(r *Request) { r.Headers = map[string]string{"x-account": "a1"} },
	} {
		r := sample()
		change(&r)
		if got := Of(r); got != base {
			t.Errorf("%s: %s, want %s", name, got, base)
		}
	}
}

func TestEveryDifferenceCountsAndIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field  string
		change func(*Request)
	}{
		"content type":         {"content_type", func(r *Request) { r.ContentType = "application/json; charset=utf-8" }},
		"param value":          {"params", func(r *Request) { r.Params = map[string]string{"id": "z", "b": "y"} }},
		"param name":           {"params", func(r *Request) { r.Params = map[string]string{"ID": "x", "b": "y"} }},
		"params run together":  {"params", func(r *Request) { r.Params = map[string]string{"b": `y","id"="x`} }},
		"header value":         {"headers", func(r *Request) { r.Headers = map[string]string{"X-Account": "A1"} }},
		"no headers":           {"headers", func(r *Request) { r.Headers = nil }},
		"credential":           {"credential", func(r *Request) { r.Credential = "m1" }},
		"idempotency key":      {"idempotency_key", func(r *Request) { r.IdempotencyKey = "" }},
		"JSON value":           {"body", func(r *Request) { r.Body = bytes.Replace(r.Body, []byte("4200"), []byte("4201"), 1) }},
		"spelling of a number": {"body", func(r *Request) { r.Body = bytes.Replace(r.Body, []byte("4200"), []byte("4200.0"), 1) }},
		"order in an array":    {"body", func(r *Request) { r.Body = bytes.Replace(r.Body, []byte("[1,2]"), []byte("[2,1]"), 1) }},
		"number as text":       {"body", func(r *Request) { r.Body = bytes.Replace(r.Body, []byte("4200"), []byte(`"4200"`), 1) }},
		"one more key":         {"body", func(r *Request) { r.Body = bytes.Replace(r.Body, []byte("{"), []byte(`{"x":null,`), 1) }},
	} {
		r := sample()
		c.change(&r)
		if got := differs(Of(sample()), Of(r)); !slices.Equal(got, []string{c.field}) {
			t.Errorf("%s: differs in %v, want %s", name, got, c.field)
		}
	}
}

// differs reads the names out of two fingerprints, as identity.lua does; nil when
// they name the same request.
func differs(a, b Fingerprint) []string {
	wholeA, fieldsA, _ := strings.Cut(string(a), ":")
	wholeB, fieldsB, _ := strings.Cut(string(b), ":")
	if wholeA == wholeB {
		return nil
	}
	var out []string
	for i, name := range Fields {
		if fieldsA[4*i:4*i+4] != fieldsB[4*i:4*i+4] {
			out = append(out, name)
		}
	}
	return out
}

func TestBodiesThatReadersWouldTakeDifferentlyAreComparedByteForByte(t *testing.T) {
	t.Parallel()
	json := func(body string) Fingerprint { return Of(Request{ContentType: "application/json", Body: []byte(body)}) }
	for _, pair := range [][2]string{
		{`{"a":1,"a":2}`, `{"a":2}`},
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{`{"a":1} `, `{"a":1} x`},
		{"\"\xff\"", "\"\xfe\""},
		{"\"\xff\"", `"\ufffd"`},
		{`"\ud800"`, `"\udbff"`},
		{`{"\ud800":1}`, `{"\udbff":1}`},
		{strings.Repeat("[", 5000) + strings.Repeat("]", 5000), strings.Repeat("[", 5000) + " " + strings.Repeat("]", 5000)},
	} {
		if json(pair[0]) == json(pair[1]) {
			t.Errorf("%.40q and %.40q are taken for the same", pair[0], pair[1])
		}
	}
}

func TestCanonicalBoundsItsWork(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"":`, 40000) + "1" + strings.Repeat("}", 40000)
	if _, err := Canonical([]byte(deep)); !errors.Is(err, errNotCanonical) {
		t.Fatalf("%v, want errNotCanonical for 40,000 levels", err)
	}
	if _, err := Canonical([]byte(strings.Repeat("[", 500) + strings.Repeat("]", 500))); err != nil {
		t.Fatalf("500 levels: %v", err)
	}
}

// shuffled writes a decoded JSON value with another layout and another order of keys.
func shuffled(v any, rnd *rand.Rand, out *bytes.Buffer) {
	space := func() { out.WriteString([]string{"", " ", "\n\t", "  "}[rnd.IntN(4)]) }
	space()
	switch v := v.(type) {
	case map[string]any:
		out.WriteByte('{')
		keys := slices.Sorted(maps.Keys(v))
		rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for i, k := range keys {
			if i > 0 {
				out.WriteByte(',')
			}
			name, _ := json.Marshal(k)
			space()
			out.Write(name)
			space()
			out.WriteByte(':')
			shuffled(v[k], rnd, out)
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			shuffled(item, rnd, out)
		}
		space()
		out.WriteByte(']')
	default:
		b, _ := json.Marshal(v)
		out.Write(b)
	}
	space()
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[{"z":1e3,"y":null}]}`, `[1, 2.50,"\u00e9\"", true]`, `{"a":{"a":{}}}`, `"\ud83d\ude00"`, `-0`, `{"a":1,"a":2}`, "\"\xff\""} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		canonical, err := Canonical(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is no JSON, canonical form %q", text, canonical)
		}
		again, err := Canonical(canonical)
		if err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("canonical of %q is %q, of that %q (%v)", text, canonical, again, err)
		}
		want, got := decode(t, text), decode(t, canonical)
		if a, b := dump(want), dump(got); a != b {
			t.Fatalf("%q means %s, its canonical form %s", text, a, b)
		}
		var other bytes.Buffer
		shuffled(want, rand.New(rand.NewPCG(seed, 1)), &other)
		if c, err := Canonical(other.Bytes()); err != nil || !bytes.Equal(c, canonical) {
			t.Fatalf("%q in another order has %q, want %q (%v)", text, c, canonical, err)
		}
	})
}

func decode(t *testing.T, text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

func dump(v any) string { b, _ := json.Marshal(v); return string(b) }

// Two requests have the same fingerprint only if they mean the same.
func FuzzFingerprintTellsApart(f *testing.F) {
	f.Add("application/json", "id", "x", "X-A", "1", "default", "k", []byte(`{"a":1}`), []byte(`{"a":2}`))
	f.Add("text/plain", "a", "b", "c", "d", "", "", []byte(``), []byte(` `))
	f.Fuzz(func(t *testing.T, contentType, param, value, header, headerValue, credential, key string, bodyA, bodyB []byte) {
		a := Request{ContentType: contentType, Params: map[string]string{param: value}, Headers: map[string]string{header: headerValue},
			Credential: credential, IdempotencyKey: key, Body: bodyA}
		for field, change := range map[string]func(*Request){
			"content_type": func(r *Request) { r.ContentType += "x" }, "params": func(r *Request) { r.Params = map[string]string{param: value + "x"} },
			"headers": func(r *Request) { r.Headers = map[string]string{header: headerValue + "x"} }, "credential": func(r *Request) { r.Credential += "x" },
			"idempotency_key": func(r *Request) { r.IdempotencyKey += "x" },
		} {
			b := a
			change(&b)
			if got := differs(Of(a), Of(b)); !slices.Contains(got, field) {
				t.Fatalf("a changed %s is named as %v", field, got)
			}
		}
		b := a
		b.Body = bodyB
		if Of(a) == Of(b) && !bytes.Equal(bodyA, bodyB) {
			if !utf8.Valid(bodyA) || !utf8.Valid(bodyB) || dump(decode(t, bodyA)) != dump(decode(t, bodyB)) {
				t.Fatalf("%q and %q are taken for the same", bodyA, bodyB)
			}
		}
	})
}
