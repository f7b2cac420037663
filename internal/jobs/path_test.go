package jobs

import (
	"net/url"
	"strings"
	"testing"
)

func TestRenderPath(t *testing.T) {
	t.Parallel()
	params := map[string]string{"id": "ch/1 ü", "q": "a&b=c+d e", "dots": "..", "dot": ".", "none": "", "ok": "x.y"}
	for template, want := range map[string]string{
		"/v1/charges":                      "/v1/charges",
		"/v1/charges/{key}":                "/v1/charges/order%2F1%3Fx",
		"/v1/{params.id}/void":             "/v1/ch%2F1%20%C3%BC/void",
		"/v1/charges?reference={key}":      "/v1/charges?reference=order%2F1%3Fx",
		"/v1/charges?q={params.q}&n=1":     "/v1/charges?q=a%26b%3Dc%2Bd%20e&n=1",
		"/v1/{params.ok}?a={params.q}?b=c": "/v1/x.y?a=a%26b%3Dc%2Bd%20e?b=c",
		"/v1/%7Bkey%7D":                    "/v1/%7Bkey%7D",
	} {
		got, err := RenderPath(template, "order/1?x", params)
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", template, got, err, want)
		}
	}
	for _, template := range []string{"", "v1", "//elsewhere.example/v1", "/v1/{key", "/v1/key}", "/v1/{}", "/v1/{params.}", "/v1/{other}",
		"/v1/{params.missing}", "/v1/{params.dots}", "/v1/{params.dot}", "/v1/{params.none}", "/v1#{key}", "/v1 /", "/v1\\x", "/v1/ü", "/v1/{{key}}"} {
		if got, err := RenderPath(template, "order-1", params); err == nil {
			t.Errorf("%q: got %q, want it refused", template, got)
		}
	}
	if got, err := RenderPath("/v1/{key}", "..", nil); err == nil {
		t.Errorf("key ..: got %q, want it refused", got)
	}
}

func TestCheckPathTemplate(t *testing.T) {
	t.Parallel()
	for template, ok := range map[string]bool{"/v1/charges/{key}?a={params.x}": true, "/": true, "v1": false, "/{result.id}": false, "/{params.}": false, "/a{": false} {
		if err := CheckPathTemplate(template); (err == nil) != ok {
			t.Errorf("%q: %v, want allowed %v", template, err, ok)
		}
	}
}

func TestRenderInquiryPath(t *testing.T) {
	t.Parallel()
	params, result := map[string]string{"id": "a b"}, map[string]string{"id": "ch/1", "none": "", "dots": ".."}
	for template, want := range map[string]string{
		"/v1/charges?reference={key}":                      "/v1/charges?reference=order%2F1%3Fx",
		"/v1/keys/{idempotency_key}":                       "/v1/keys/charge:order%2F1",
		"/v1/charges/{result.id}?account={params.id}":      "/v1/charges/ch%2F1?account=a%20b",
		"/v1/charges?key={idempotency_key}&id={result.id}": "/v1/charges?key=charge%3Aorder%2F1&id=ch%2F1",
	} {
		got, err := RenderInquiryPath(template, "order/1?x", "charge:order/1", params, result)
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", template, got, err, want)
		}
		if err := CheckInquiryPathTemplate(template); err != nil {
			t.Errorf("%s: %v", template, err)
		}
	}
	for _, template := range []string{"/v1/{result.missing}", "/v1/{params.missing}", "/v1/{result.none}", "/v1/{result.dots}"} {
		if got, err := RenderInquiryPath(template, "order-1", "charge:order-1", params, result); err == nil {
			t.Errorf("%q: got %q, want it refused", template, got)
		}
		if err := CheckInquiryPathTemplate(template); err != nil {
			t.Errorf("%q depends on the operation alone: %v", template, err)
		}
	}
	if got, err := RenderInquiryPath("/v1/{idempotency_key}", "order-1", "", nil, nil); err == nil {
		t.Errorf("no idempotency key: got %q, want it refused", got)
	}
	for _, template := range []string{"", "v1", "//elsewhere.example", "/v1/{result.}", "/v1/{result}", "/v1/{params.}", "/v1/{idempotency-key}", "/v1/{other}", "/v1/{key", "/v1#{key}"} {
		if err := CheckInquiryPathTemplate(template); err == nil {
			t.Errorf("%q is allowed", template)
		}
	}
}

// No value may leave the place that the template gives it.
func FuzzRenderPathKeepsValuesInTheirPlace(f *testing.F) {
	f.Add("order-1001", "x")
	f.Add("../../admin", "a&admin=1")
	f.Add("%2e%2e", "#")
	f.Add("a/b", "?\x00\xff\r\n")
	f.Fuzz(func(t *testing.T, key, param string) {
		got, err := RenderPath("/v1/{key}/capture?id={params.id}&n=1", Key(key), map[string]string{"id": param})
		if err != nil {
			return
		}
		u, err := url.Parse("http://gateway.example" + got)
		if err != nil {
			t.Fatalf("%q cannot be parsed: %v", got, err)
		}
		segments := strings.Split(u.EscapedPath(), "/")
		if u.Host != "gateway.example" || u.Fragment != "" || len(segments) != 4 || segments[1] != "v1" || segments[3] != "capture" {
			t.Errorf("%q leads elsewhere: %q", got, u)
		}
		if back, err := url.PathUnescape(segments[2]); err != nil || back != key {
			t.Errorf("the key arrives as %q (%v), want %q", back, err, key)
		}
		query, err := url.ParseQuery(u.RawQuery)
		if err != nil || len(query) != 2 || query.Get("id") != param || query.Get("n") != "1" {
			t.Errorf("the query arrives as %v (%v)", query, err)
		}
	})
}
