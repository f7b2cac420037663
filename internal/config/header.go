package config

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"

	"redrive/internal/jobs"
)

// forbiddenHeaders are the headers that a configuration must not set, with what
// sets them or what breaks if it does.
var forbiddenHeaders = map[string]string{
	"Host":                "base_url says the host",
	"Content-Length":      "it follows from the body",
	"Content-Type":        "request.content_type of the kind sets it",
	"Transfer-Encoding":   "it belongs to the connection",
	"Connection":          "it belongs to the connection",
	"Keep-Alive":          "it belongs to the connection",
	"Proxy-Connection":    "it belongs to the connection",
	"Proxy-Authenticate":  "it belongs to the connection",
	"Proxy-Authorization": "it belongs to the connection",
	"Te":                  "it belongs to the connection",
	"Trailer":             "it belongs to the connection",
	"Upgrade":             "it belongs to the connection",
	"Expect":              "it would split one send into two steps",
	"Accept-Encoding":     "a compressed answer could not be classified",
	"Redrive-Attempt":     "each attempt sets its own number",
	"Traceparent":         "each attempt sets its own",
	// net/http sends a request a second time by itself when it finds one of these.
	"Idempotency-Key":   "idempotency_key.header sets it, with a key for each operation",
	"X-Idempotency-Key": "idempotency_key.header sets it, with a key for each operation",
}

// checkHeader reports why a configuration cannot set the header name (canonical)
// where keyHeader carries the idempotency key.
func checkHeader(name, keyHeader string) error {
	if err := checkToken(name); err != nil {
		return err
	}
	if why, forbidden := forbiddenHeaders[name]; forbidden {
		return fmt.Errorf("the header %s cannot be set here: %s", name, why)
	}
	if keyHeader != "" && name == keyHeader {
		return fmt.Errorf("the header %s cannot be set here: it carries the idempotency key of each operation", name)
	}
	return nil
}

// checkKeyHeader reports why an idempotency key cannot travel in the header name.
func checkKeyHeader(name string) error {
	if err := checkToken(name); err != nil {
		return err
	}
	why, forbidden := forbiddenHeaders[name]
	if forbidden && !strings.HasSuffix(name, "Idempotency-Key") {
		return fmt.Errorf("the header %s cannot carry the idempotency key: %s", name, why)
	}
	if name == "Authorization" || name == "Cookie" {
		return fmt.Errorf("the header %s cannot carry the idempotency key: it carries credentials", name)
	}
	return nil
}

// checkToken reports why name is no token of RFC 9110, section 5.6.2.
func checkToken(name string) error {
	if name == "" {
		return errors.New("a header needs a name")
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		alnum := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return fmt.Errorf("%q is no header name: %q cannot stand in one", name, c)
		}
	}
	return nil
}

// HeadersFor returns the headers of a call under the named credential, its own
// winning over the dependency's. ok is false when no such credential exists;
// [jobs.DefaultCredential] always does.
func (d *Dependency) HeadersFor(credential string) (headers map[string]Secret, ok bool) {
	own, ok := d.Credentials[credential]
	if !ok && credential != jobs.DefaultCredential {
		return nil, false
	}
	headers = make(map[string]Secret, len(d.Headers)+len(own.Headers))
	for name, s := range d.Headers {
		headers[textproto.CanonicalMIMEHeaderKey(name)] = s
	}
	for name, s := range own.Headers {
		headers[textproto.CanonicalMIMEHeaderKey(name)] = s
	}
	return headers, true
}
