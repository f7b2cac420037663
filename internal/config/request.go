package config

import (
	"errors"
	"fmt"
	"mime"
	"net/url"
	"regexp"
	"strings"
)

var methodForm = regexp.MustCompile(`^[A-Z][A-Z0-9_-]{0,31}$`)

func (v *validator) request(path string, r Request) {
	switch {
	case !methodForm.MatchString(r.Method):
		v.fail(path+".method", "%q is no method: write it in capitals, such as POST", r.Method)
	case r.Method == "CONNECT":
		v.fail(path+".method", "CONNECT opens a tunnel, it sends no operation")
	}
	v.check(path+".path", requestPath.check(r.Path))
	if r.ContentType != "" {
		if _, _, err := mime.ParseMediaType(r.ContentType); err != nil || hasControl(r.ContentType) {
			v.fail(path+".content_type", "%q is no content type: write one such as application/json", r.ContentType)
		}
	}
}

// pathForm is what a path may use.
type pathForm struct {
	placeholder *regexp.Regexp
	words       string // the placeholders, for people
	example     string
}

var (
	placeholder = regexp.MustCompile(`\{[^{}]*\}`)
	requestPath = pathForm{regexp.MustCompile(`^\{(key|params\.[A-Za-z0-9_-]{1,63})\}$`), "{key} and {params.NAME}", "/v1/charges"}
	inquiryPath = pathForm{regexp.MustCompile(`^\{(key|idempotency_key|params\.[A-Za-z0-9_-]{1,63}|result\.[a-z][a-z0-9_-]{0,62})\}$`),
		"{key}, {idempotency_key}, {params.NAME} and {result.NAME}", "/v1/charges?reference={key}"}
)

// check reports why path cannot be such a path.
func (f pathForm) check(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("required: write one such as %s", f.example)
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("%q must begin with a slash: base_url says the host", path)
	case strings.HasPrefix(path, "//"):
		return fmt.Errorf("%q begins with two slashes, which would name a host: base_url does", path)
	}
	for _, p := range placeholder.FindAllString(path, -1) {
		if !f.placeholder.MatchString(p) {
			return fmt.Errorf("unknown placeholder %s: a path may use %s", p, f.words)
		}
	}
	filled := placeholder.ReplaceAllString(path, "x")
	if strings.ContainsAny(filled, "{}") {
		return fmt.Errorf("%q has a brace without its partner: a path may use %s", path, f.words)
	}
	u, err := url.ParseRequestURI(filled)
	if err != nil || strings.Contains(filled, "#") || strings.ContainsFunc(filled, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%q is no path: percent-encode what is not printable ASCII (a space is %%20), and leave out #", path)
	}
	for _, segment := range strings.Split(u.Path, "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("%q has a segment %q: write the path it stands for", path, segment)
		}
	}
	return nil
}

// placeholders returns the names in a path that begin with prefix, without it.
func placeholders(path, prefix string) (names []string) {
	for _, p := range placeholder.FindAllString(path, -1) {
		if name, ok := strings.CutPrefix(strings.Trim(p, "{}"), prefix); ok {
			names = append(names, name)
		}
	}
	return names
}

// checkPointer reports why p is no RFC 6901 pointer to a part of a body.
func checkPointer(p string) error {
	switch {
	case p == "":
		return errors.New("an empty pointer is the whole body: point at one value, such as /amount")
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q is no JSON pointer (RFC 6901): it begins with a slash, such as /%s", p, strings.ReplaceAll(p, ".", "/"))
	}
	for i := 0; i < len(p); i++ {
		if p[i] == '~' && (i+1 == len(p) || p[i+1] != '0' && p[i+1] != '1') {
			return fmt.Errorf("%q is no JSON pointer (RFC 6901): write ~0 for ~ and ~1 for a slash inside a name", p)
		}
	}
	return nil
}
