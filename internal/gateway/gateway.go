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
	TLS       *tls.Config   // nil: the system's roots; TLS 1.2 or later unless it says otherwise
	Resolver  *net.Resolver // nil: the system's
	UserAgent string        // "": "redrive"; a configured User-Agent header wins
}

// Client sends attempts. It holds no connection between them and is safe for
// concurrent use.
type Client struct {
	tls       *tls.Config
	resolver  *net.Resolver
	userAgent string

	// elapsedFunc is [elapsed]; tests make the two clocks disagree.
	elapsedFunc func(since time.Time) (mono, wall time.Duration)
}

// New returns a client.
func New(o Options) *Client {
	c := &Client{tls: o.TLS.Clone(), resolver: o.Resolver, userAgent: o.UserAgent, elapsedFunc: elapsed}
	if c.tls == nil {
		c.tls = &tls.Config{}
	}
	if c.tls.MinVersion == 0 {
		c.tls.MinVersion = tls.VersionTLS12
	}
	c.tls.NextProtos = []string{"http/1.1"}
	if c.userAgent == "" {
		c.userAgent = "redrive"
	}
	return c
}

// Call is one attempt to be made.
type Call struct {
	Request jobs.Request
	Attempt int // from 1; sent as Redrive-Attempt; 0: this is no attempt, and the header is not sent

	BaseURL   string      // http or https, without query, fragment and userinfo
	Header    http.Header // from the configuration, secrets resolved; wins over the request's own
	KeyHeader string      // name under which Request.IdempotencyKey is sent; "": no key is sent

	StartedAt time.Time     // taken before begin was called; carries wall and monotonic clock
	SendBy    time.Duration // from StartedAt: the first application byte is not written later
	Timeout   time.Duration // of the whole call, from Send on; must be positive
}

// Answer is what a call met.
type Answer struct {
	Sample    policy.Sample
	Duration  time.Duration
	WireBytes int64  // bytes handed to the kernel for the request; 0 is proof that nothing was sent
	Err       string // for people: one line of valid UTF-8, at most MaxErrBytes, without credentials, path, query or body; "" for a complete 2xx
	Kept      []byte // the body for the ledger: valid UTF-8 without NUL, credentials blotted out, at most MaxKeptBytes
	KeptCut   bool   // Kept is not the whole body
}

// elapsed reads both clocks: the monotonic one stands still while a machine
// sleeps, the wall clock may be set back; whichever went further counts.
func elapsed(since time.Time) (mono, wall time.Duration) {
	now := time.Now()
	return now.Sub(since), now.Round(0).Sub(since.Round(0))
}

// Gone is how long ago an instant was, by whichever of the two clocks went further.
func Gone(since time.Time) time.Duration {
	mono, wall := elapsed(since)
	return max(mono, wall)
}
