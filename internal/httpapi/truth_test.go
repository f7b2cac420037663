package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// promised is the committed OpenAPI document, which answers are held to. A client that was
// generated from it may refuse whatever differs.
type promised struct {
	paths      map[string]any
	components map[string]any // schemas
	compiler   *jsonschema.Compiler

	mu      sync.Mutex // guards schemas, and compiler, which compiles one at a time
	schemas map[string]*jsonschema.Schema
}

const promisedURL = "https://redrive.example/openapi.json"

// thePromise is read once: every bundle of the package holds its answers to it.
var thePromise = sync.OnceValues(func() (*promised, error) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "openapi.yaml"))
	if err != nil {
		return nil, err
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	closed(doc)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(promisedURL, doc); err != nil {
		return nil, err
	}
	return &promised{paths: dig(doc, "paths"), components: dig(dig(doc, "components"), "schemas"), compiler: c, schemas: map[string]*jsonschema.Schema{}}, nil
})

// closed forbids objects all properties that the document does not name: an answer may be
// extended, but not beside its document.
func closed(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, object := v["properties"].(map[string]any)
		if _, said := v["additionalProperties"]; object && !said {
			v["additionalProperties"] = false
		}
		for _, inner := range v {
			closed(inner)
		}
	case []any:
		for _, inner := range v {
			closed(inner)
		}
	}
}

// pointer is a JSON pointer.
func pointer(steps ...string) string {
	var out strings.Builder
	for _, s := range steps {
		out.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(s))
	}
	return out.String()
}

// valid says what is wrong with a JSON text by the schema at a pointer.
func (p *promised) valid(text []byte, at string) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.schemas[at]
	if s == nil {
		// A fragment is percent-encoded, and paths have braces.
		if s, err = p.compiler.Compile(promisedURL + "#" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(at)); err != nil {
			return err
		}
		p.schemas[at] = s
	}
	return s.Validate(v)
}

// answer says in which way an answer is not what the document says of its route. whole:
// the answer ended by itself.
func (p *promised) answer(to *routed, status int, media string, text []byte, whole bool) error {
	if to == nil || strings.HasPrefix(to.path(), "/v1/openapi.") { // no path of the document's
		if media == problemType && whole {
			return p.valid(text, pointer("components", "schemas", "Problem"))
		}
		return nil
	}
	steps := []string{"paths", to.path(), strings.ToLower(to.method), "responses", strconv.Itoa(status), "content", media}
	var at any = p.paths
	for i, step := range steps[1:] {
		inner, ok := at.(map[string]any)[step]
		if !ok {
			return fmt.Errorf("%s is not in the document", strings.Join(steps[:i+2], " "))
		}
		at = inner
	}
	switch media {
	case ndjsonType:
		for line := range bytes.Lines(text) {
			if !whole && !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			if err := p.valid(line, pointer(append(steps, "x-line-schema")...)); err != nil {
				return err
			}
		}
		return nil
	case eventType:
		for line := range bytes.Lines(text) {
			data, ok := bytes.CutPrefix(line, []byte("data: "))
			if !ok || !bytes.HasSuffix(line, []byte("\n")) {
				continue
			}
			if err := p.valid(data, pointer(append(steps, "x-data-schema")...)); err != nil {
				return err
			}
		}
		return nil
	}
	if !whole {
		return nil
	}
	return p.valid(text, pointer(append(steps, "schema")...))
}

// path is that of the document.
func (t *routed) path() string { return "/" + strings.Join(t.segments, "/") }

// byServer are answers of net/http's own, to what it cannot make a request of.
var byServer = []int{http.StatusExpectationFailed, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented}

// truthful is the way of every request of a bundle: it holds all answers to the document.
type truthful struct {
	next http.RoundTripper
	b    *apiBundle
}

func (t *truthful) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil && strings.HasPrefix(r.URL.Path, "/v1/") && !slices.Contains(byServer, resp.StatusCode) {
		resp.Body = &overheard{ReadCloser: resp.Body, tell: func(text []byte, whole bool) {
			t.b.holds(r, resp.StatusCode, resp.Header, text, whole)
		}}
	}
	return resp, err
}

// holds notes an answer that the document does not promise.
func (b *apiBundle) holds(r *http.Request, status int, header http.Header, text []byte, whole bool) {
	p, err := thePromise()
	if err == nil && r.Method != http.MethodHead {
		to, _, _ := b.server.door.router.find(r)
		media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
		err = p.answer(to, status, media, text, whole)
	}
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.untrue = append(b.untrue, fmt.Sprintf("%s %.200s is answered by %d %s, and docs/openapi.yaml says otherwise: %v\n%.2000s", r.Method, r.URL, status, header.Get("Content-Type"), err, text))
}

// tellUntrue fails the test for answers that were not as promised: they are read by
// goroutines of the test's, so not where they come.
func (b *apiBundle) tellUntrue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.untrue[:min(len(b.untrue), 10)] {
		b.t.Error(text)
	}
	if n := len(b.untrue); n > 10 {
		b.t.Errorf("and %d more", n-10)
	}
}

// overheard is a body whose text is told once, when it is read to its end or closed.
type overheard struct {
	io.ReadCloser
	tell func(text []byte, whole bool)

	mu   sync.Mutex // guards the rest: a body may be closed while it is read
	text bytes.Buffer
	told bool
}

func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.mu.Lock()
	o.text.Write(p[:n])
	o.mu.Unlock()
	if err != nil {
		o.end(err == io.EOF)
	}
	return n, err
}

func (o *overheard) Close() error {
	o.end(false)
	return o.ReadCloser.Close()
}

func (o *overheard) end(whole bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.told {
		o.told = true
		o.tell(o.text.Bytes(), whole)
	}
}

// An answer that differs is found, in each of the ways in which one can.
func TestAnAnswerThatTheDocumentDoesNotPromiseIsFound(t *testing.T) {
	t.Parallel()
	p, err := thePromise()
	if err != nil {
		t.Fatal(err)
	}
	b := setupAPI(t)
	good := b.post("/v1/operations/payout/nobody/cancel", `{"note":"x"}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/operations/payout/nobody/cancel", nil)
	if err != nil {
		t.Fatal(err)
	}
	to, _, _ := b.server.door.router.find(r)
	change := func(name string, value any) string {
		v := into[map[string]any](t, good)
		if v[name] = value; value == nil {
			delete(v, name)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for what, c := range map[string]struct {
		status      int
		media, text string
		good        bool
	}{
		"as it is":               {good.status, problemType, good.body, true},
		"a property missing":     {good.status, problemType, change("detail", nil), false},
		"a property of its own":  {good.status, problemType, change("extra", 1), false},
		"another type":           {good.status, problemType, change("status", "404"), false},
		"a word of no list":      {good.status, problemType, change("state", "lost"), false},
		"another media type":     {good.status, jsonType, good.body, false},
		"a status of no promise": {http.StatusTeapot, problemType, good.body, false},
		"no JSON":                {good.status, problemType, "{", false},
	} {
		if err := p.answer(to, c.status, c.media, []byte(c.text), true); (err == nil) != c.good {
			t.Errorf("%s: %v\n%s", what, err, c.text)
		}
	}
}

// A client that was generated from the document failed on what was missing or refused:
// its state was "", which no list of states had.
func TestABulkAnswerIsAsTheDocumentSays(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	for path, body := range map[string]string{
		"/v1/operations:resolve":   `{"note":"n","findings":[{"operation":"payout/nobody","verdict":"applied","ref":"x"},{"operation":"charge/o-1","verdict":"applied","ref":"x"}]}`,
		"/v1/operations:reconcile": `{"note":"n","operations":["charge/o-1","payout/nobody"]}`,
		"/v1/operations:cancel":    `{"note":"n","operations":["payout/nobody","charge/nobody"]}`,
		"/v1/dead-letters/requeue": `{"note":"n","operations":["payout/nobody","charge/o-1"]}`,
		"/v1/dead-letters/discard": `{"note":"n","operations":["payout/nobody","charge/o-1"]}`,
	} {
		g := b.post(path, body)
		done := into[BulkDone](t, g)
		if g.status != http.StatusOK || len(done.Items) != 2 || !slices.ContainsFunc(done.Items, func(i BulkItem) bool { return i.State == "" || i.Result != "done" }) {
			t.Errorf("%s: %d %s", path, g.status, g.body)
		}
	} // the bundle holds each to the document
}
