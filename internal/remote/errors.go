package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"redrive/internal/jobs"
)

// The names of problems that callers tell apart: docs/api.md lists all.
const (
	Malformed    = "malformed"
	NotFound     = "not-found"
	TooSlow      = "too-slow"
	Conflict     = "conflict"
	NotInState   = "not-in-this-state"
	TooLarge     = "too-large"
	Invalid      = "invalid"
	BacklogFull  = "backlog-full"
	Busy         = "busy"
	Closing      = "closing"
	RedisAway    = "redis-away"
	RedisRefuses = "redis-refuses"
	NotFit       = "not-fit"
	Unsure       = "unsure"
	Forbidden    = "forbidden"
	Timeout      = "timeout"
)

// problemURN stands before the name of each problem.
const problemURN = "urn:redrive:problem:"

// Problem is the API's own answer to what it did not do (RFC 9457).
type Problem struct {
	Type    string        `json:"type"`
	Title   string        `json:"title"`
	Status  int           `json:"status"`
	Detail  string        `json:"detail"`
	Errors  []Place       `json:"errors"`
	Receipt *jobs.Receipt `json:"receipt"` // of a submission that was not taken
	State   jobs.State    `json:"state"`   // of the operation, where that is in the way

	Server     string        `json:"-"` // that answered
	RetryAfter time.Duration `json:"-"` // how long it asks to wait; 0: it does not say
}

// Place is one thing that is wrong with a request.
type Place struct {
	Location string `json:"location"` // such as body.attempted.class
	Message  string `json:"message"`
}

// Is reports whether err is a problem of one of these names.
func Is(err error, names ...string) bool {
	var p *Problem
	if !errors.As(err, &p) {
		return false
	}
	for _, name := range names {
		if p.Name() == name {
			return true
		}
	}
	return false
}

// Name is which problem it is, such as not-found.
func (p *Problem) Name() string { return strings.TrimPrefix(p.Type, problemURN) }

// Words tell what is so, without the server.
func (p *Problem) Words() string { return cmp.Or(p.Detail, p.Title) }

// Error tells the server, what is so, and when to try again.
func (p *Problem) Error() string {
	text := fmt.Sprintf("server %s: %s", p.Server, p.Words())
	if p.RetryAfter > 0 {
		text += fmt.Sprintf(" (try again in %s)", p.RetryAfter)
	}
	return text
}

// UnansweredError is that no whole answer came.
type UnansweredError struct {
	Server string
	Err    error
	Sent   bool // the request may have arrived
}

func (e *UnansweredError) Error() string { return fmt.Sprintf("server %s: %s", e.Server, e.why()) }

// Unwrap returns the cause.
func (e *UnansweredError) Unwrap() error { return e.Err }

func (e *UnansweredError) why() string {
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch err := e.Err; {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.As(err, &dns):
		return "its name cannot be looked up: " + dns.Name
	case errors.As(err, &unknown):
		return "its certificate is of an authority that is not known here (SSL_CERT_FILE names more)"
	case errors.As(err, &host):
		return "its certificate is for another name"
	case errors.As(err, &invalid):
		return "its certificate is not valid: " + invalid.Error()
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS: is it http:// instead of https://?"
	case e.cut():
		return "the connection was cut before the whole answer was there"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errIdle), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return e.Err.Error()
}

// network reports whether the way to the server failed, and not what came along it.
func (e *UnansweredError) network() bool {
	var network net.Error
	return e.cut() || errors.As(e.Err, &network) || e.Certificate()
}

// cut reports whether the connection ended on the way.
func (e *UnansweredError) cut() bool {
	return isCut(e.Err) || errors.Is(e.Err, syscall.ECONNRESET) || errors.Is(e.Err, syscall.EPIPE)
}

// Certificate reports whether the way to the server failed for its certificate or for
// TLS, which does not pass by itself.
func (e *UnansweredError) Certificate() bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(e.Err, &certificate) || errors.As(e.Err, &record) || errors.Is(e.Err, http.ErrSchemeMismatch)
}

// StrangeError is an answer that Redrive's API does not give: of a proxy, of another
// server, or of another version.
type StrangeError struct {
	Server string
	Status int
	What   string
}

func (e *StrangeError) Error() string { return fmt.Sprintf("server %s: %s", e.Server, e.What) }

// Passing reports whether the answer is that of a proxy whose server is away for now.
func (e *StrangeError) Passing() bool {
	switch e.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return true
	}
	return false
}

// Undone reports whether err says that the request surely changed nothing.
func Undone(err error) bool {
	var p *Problem
	var u *UnansweredError
	var s *StrangeError
	switch {
	case errors.As(err, &u):
		return !u.Sent
	case errors.As(err, &s):
		return s.Status >= 300 && s.Status < 500 // whoever refused it did not hand it on
	case errors.As(err, &p):
		return p.Status >= 400 && p.Status < 500 || Is(p, Busy, RedisRefuses, NotFit) // a name that is not known here may mean anything
	}
	return false
}
