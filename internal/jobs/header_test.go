package jobs

import (
	"strings"
	"testing"
)

func TestCheckHeader(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"X-Account": "a1", "Stripe-Account": "acct\t1", "x_odd!": "é"} {
		if err := CheckHeader(name, value, "Idempotency-Key"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "X A", "X:A", "Ü", "Authorization", "authorization", "COOKIE", "Host", "Connection", "Transfer-Encoding",
		"Content-Length", "content-type", "Idempotency-Key", "idempotency-key", "Redrive-Attempt", "Traceparent", "Expect"} {
		if err := CheckHeader(name, "s3cret", "Idempotency-Key"); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want it refused without its value", name, err)
		}
	}
	for _, value := range []string{"a\r\nX: 1", "a\x00", "\x7f"} {
		if err := CheckHeader("X-Account", value, ""); err == nil {
			t.Errorf("value %q is allowed", value)
		}
	}
	if err := CheckHeader("Idempotency-Key", "k", ""); err != nil {
		t.Errorf("without a key header: %v", err)
	}
}
