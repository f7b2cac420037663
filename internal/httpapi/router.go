package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// router finds the route of a request by the segments of its path as they stand there.
// [http.ServeMux] does not do: it cleans paths, and answers with a redirect to what may
// be another operation, and a key that is a slash (%2F) is the end of a path to it.
//
// No two routes of one method may match the same path.
type router struct{ routes []*routed }

// routed is one route that requests are led to.
type routed struct {
	method   string
	segments []string // {name}: any
	serve    http.HandlerFunc
}

// HandleFunc registers a route: METHOD /path/{name}.
func (m *router) HandleFunc(pattern string, serve func(http.ResponseWriter, *http.Request)) {
	method, path, _ := strings.Cut(pattern, " ")
	m.routes = append(m.routes, &routed{method, strings.Split(path, "/")[1:], serve})
}

// find returns the route of a request and what its path says, or that there is none.
// One of GET answers HEAD too.
func (m *router) find(r *http.Request) (*routed, map[string]string, *Problem) {
	segments := strings.Split(r.URL.EscapedPath(), "/")[1:]
	var allow []string
	for _, to := range m.routes {
		values, ok := to.match(segments)
		switch {
		case !ok:
			continue
		case to.method == r.Method, to.method == http.MethodGet && r.Method == http.MethodHead:
			return to, values, nil
		}
		allow = append(allow, to.method)
		if to.method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	if len(allow) > 0 {
		slices.Sort(allow)
		list := strings.Join(allow, ", ")
		return nil, nil, badMethod.because("it knows %s", list).with("Allow", list)
	}
	return nil, nil, notFound.because("no such path: /v1/openapi.json tells which there are")
}

// match compares segments, which are percent-encoded, with those of the route. Empty
// ones and dots name nothing: whoever stands in between may have taken them for another
// path. A key that is all dots is written %2E.
func (t *routed) match(segments []string) (values map[string]string, ok bool) {
	if len(segments) != len(t.segments) {
		return nil, false
	}
	values = map[string]string{}
	for i, s := range segments {
		name, wild := strings.CutPrefix(t.segments[i], "{")
		text, err := url.PathUnescape(s)
		if err != nil || !wild && text != t.segments[i] || s == "" || s == "." || s == ".." {
			return nil, false
		}
		if wild {
			values[strings.TrimSuffix(name, "}")] = text
		}
	}
	return values, true
}

// ServeHTTP answers by the route of a request, or that there is none.
func (m *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, values, p := m.find(r)
	if p != nil {
		p.write(w)
		return
	}
	for name, value := range values {
		r.SetPathValue(name, value)
	}
	to.serve(w, r)
}
