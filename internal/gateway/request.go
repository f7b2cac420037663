package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"redrive/internal/jobs"
)

// newRequest builds the request of a call. An error means that the call can never
// be made as it is; it shows neither URL nor header values.
func newRequest(ctx context.Context, call Call, userAgent string) (*http.Request, error) {
	r := call.Request
	target, err := targetURL(call.BaseURL, r.Path)
	if err != nil {
		return nil, err
	}
	if call.Timeout <= 0 {
		return nil, fmt.Errorf("the timeout of %v is not positive", call.Timeout)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("method %q is not valid", r.Method)
	}
	req.GetBody = nil // nothing may rewind the body

	for name, value := range r.Headers {
		if err := jobs.CheckHeader(name, value, call.KeyHeader); err != nil {
			return nil, err
		}
		req.Header.Set(name, value)
	}
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	set("Content-Type", r.ContentType)
	set("User-Agent", userAgent)
	for name, values := range call.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	set("X-Correlation-Id", r.CorrelationID)
	set("Traceparent", call.Request.Traceparent)
	if call.Attempt > 0 {
		set("Redrive-Attempt", strconv.Itoa(call.Attempt))
	}
	if call.KeyHeader != "" {
		if err := checkIdempotencyKey(r.IdempotencyKey); err != nil {
			return nil, err
		}
		set(call.KeyHeader, r.IdempotencyKey)
	}
	return req, nil
}

// targetURL joins the configured base and the stored path. The path cannot name
// another host: it begins with a slash and is appended, never resolved.
func targetURL(base, path string) (*url.URL, error) {
	b, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("the base URL cannot be parsed") // its text may hold a secret
	}
	if b.Scheme != "http" && b.Scheme != "https" || b.Host == "" || b.Opaque != "" {
		return nil, errors.New("the base URL must be http or https with a host")
	}
	if b.User != nil || b.RawQuery != "" || b.Fragment != "" {
		return nil, errors.New("the base URL must have no userinfo, query or fragment")
	}
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "#") {
		return nil, errors.New("the path must begin with a slash and have no fragment")
	}
	u, err := url.Parse(b.Scheme + "://" + b.Host + strings.TrimSuffix(b.EscapedPath(), "/") + path)
	if err != nil || u.Host != b.Host || u.User != nil {
		return nil, errors.New("the path is not valid")
	}
	return u, nil
}

// checkIdempotencyKey refuses a key that net/http would change or leave away on
// its way out: a key that arrives different, or not at all, protects nothing.
func checkIdempotencyKey(key string) error {
	if key == "" {
		return errors.New("the idempotency key is empty")
	}
	if strings.Trim(key, " \t") != key {
		return errors.New("the idempotency key begins or ends with white space")
	}
	for i := 0; i < len(key); i++ {
		if c := key[i]; c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("the idempotency key holds the control byte 0x%02x", c)
		}
	}
	return nil
}
