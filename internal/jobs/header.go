package jobs

import (
	"fmt"
	"strings"
)

// deniedHeaders may not come with a submission: they carry secrets, decide where
// or how the message is framed, or are set by Redrive itself.
var deniedHeaders = map[string]string{
	"authorization":       "credentials come from the configuration",
	"proxy-authorization": "credentials come from the configuration",
	"cookie":              "credentials come from the configuration",
	"host":                "the target comes from the configuration",
	"connection":          "hop-by-hop",
	"keep-alive":          "hop-by-hop",
	"proxy-authenticate":  "hop-by-hop",
	"proxy-connection":    "hop-by-hop",
	"te":                  "hop-by-hop",
	"trailer":             "hop-by-hop",
	"transfer-encoding":   "hop-by-hop",
	"upgrade":             "hop-by-hop",
	"expect":              "it changes how the body is sent",
	"content-length":      "it follows from the body",
	"content-type":        "use content_type",
	"redrive-attempt":     "set by redrive",
	"x-correlation-id":    "use correlation_id",
	"traceparent":         "set by redrive",
	"tracestate":          "set by redrive",
}

// CheckHeader reports why a submission may not carry the header: its name is not
// a token, its value holds control bytes, or it is on the deny list, to which
// keyHeader (the kind's idempotency header, "" if it has none) belongs. The value
// is not in the error.
func CheckHeader(name, value, keyHeader string) error {
	if name == "" {
		return fmt.Errorf("a header name must not be empty")
	}
	for i := 0; i < len(name); i++ {
		if !tokenByte(name[i]) {
			return fmt.Errorf("header %q: %q at position %d is not allowed in a name", name, name[i], i+1)
		}
	}
	if why, denied := deniedHeaders[strings.ToLower(name)]; denied {
		return fmt.Errorf("header %q is not allowed: %s", name, why)
	}
	if keyHeader != "" && strings.EqualFold(name, keyHeader) {
		return fmt.Errorf("header %q is not allowed: use idempotency_key", name)
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("header %q: byte 0x%02x at position %d of its value is not allowed", name, c, i+1)
		}
	}
	return nil
}

// tokenByte reports whether c may stand in a header name (RFC 9110 section 5.6.2).
func tokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
