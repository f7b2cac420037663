package gateway

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// Limits of what is read and kept of an answer.
const (
	MaxAnswerBytes = 1 << 20  // read of a body; the rest is not read
	MaxKeptBytes   = 16 << 10 // kept of a body
	MaxHeaderBytes = 64 << 10 // of an answer's header, informational answers included
	MaxErrBytes    = 512      // of Answer.Err
)

// Options are what all attempts of a client share. The zero value is usable.
type Options struct {
	TLS       *tls.Config   // nil: the system's roots, TLS 1.2 or later
	Resolver  *net.Resolver // nil: the system's
	UserAgent string        // "": "redrive"
}

// Call is one attempt to be made.
type Call struct {
	Request jobs.Request
	Attempt int // from 1; sent as Redrive-Attempt

	BaseURL   string      // http or https, without query, fragment and userinfo
	Header    http.Header // from the configuration, secrets resolved; wins over the request's own
	KeyHeader string      // name under which Request.IdempotencyKey is sent; "": no key is sent

	StartedAt time.Time     // taken before begin was called; carries wall and monotonic clock
	SendBy    time.Duration // from StartedAt: the first application byte is not written later
	Timeout   time.Duration // of the whole call, from Send on

	Traceparent string // W3C trace context; "": none
}

// Answer is what a call met.
type Answer struct {
	Sample    policy.Sample
	Duration  time.Duration
	WireBytes int64  // application bytes handed to the kernel; 0 is proof that nothing was sent
	Err       string // for people: valid UTF-8, at most MaxErrBytes, without credentials, path, query or body; "" for a complete 2xx
	Kept      []byte // the body for the ledger: valid UTF-8 without NUL, secrets blotted out, at most MaxKeptBytes
	KeptCut   bool   // Kept is not the whole body
}
