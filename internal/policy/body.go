package policy

import (
	"bytes"
	"encoding/json"
	"strings"
)

// foreignBody reports a body that a gateway cannot have meant as its success:
// empty, HTML, or in an encoding that we did not ask for.
func foreignBody(s Sample) bool {
	if enc := firstValue(s.Header, "Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return true
	}
	body := trimBody(s.Body)
	if len(body) == 0 {
		return !s.BodyCut // nothing came before the cut: then the cut is what happened
	}
	switch mediaType(s.Header) {
	case "text/html", "application/xhtml+xml":
		return true
	}
	start := bytes.ToLower(body[:min(len(body), 16)])
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

// brokenJSON reports a body that claims to be JSON, by its type or (where the type
// says nothing) by its first byte, and is not one JSON value.
func brokenJSON(s Sample) bool {
	body := trimBody(s.Body)
	switch t := mediaType(s.Header); {
	case t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json"):
		return !json.Valid(body)
	case t == "" || t == "text/plain" || t == "application/octet-stream":
		return len(body) > 0 && (body[0] == '{' || body[0] == '[') && !json.Valid(body)
	default:
		return false
	}
}

// trimBody takes away white space and a byte order mark, which JSON decoders refuse.
func trimBody(b []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(b), []byte("\xef\xbb\xbf")))
}

func mediaType(h map[string][]string) string {
	t, _, _ := strings.Cut(firstValue(h, "Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// headerValues returns all values of a header, whatever the case of its name.
func headerValues(h map[string][]string, name string) []string {
	if v, ok := h[name]; ok {
		return v
	}
	for k, v := range h {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return nil
}

func firstValue(h map[string][]string, name string) string {
	if v := headerValues(h, name); len(v) > 0 {
		return strings.TrimSpace(v[0])
	}
	return ""
}
