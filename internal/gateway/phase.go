package gateway

import (
	"crypto/tls"
	"errors"
	"net"
	"reflect"

	"redrive/internal/policy"
)

// ending is how a call without an answer ended, as the transport's caller saw it.
type ending struct {
	cancelled bool // by our caller
	timedOut  bool // the attempt's time was over
	wroteAll  bool // the transport had written the whole request
	err       error
}

// failure says how far a call got that brought no answer. It looks at what the
// connection saw first: the transport reports one of several things that happen
// at once.
func (x *exchange) failure(how ending) Answer {
	x.mu.Lock()
	c, failedAt, dialError, dials := x.conn, x.failedAt, x.dialError, x.dials
	x.mu.Unlock()
	if c == nil {
		return failed(unopenedPhase(failedAt, dialError, how))
	}
	saw, sent := c.snapshot()
	switch {
	case dials > 1 && sent > 0:
		return failed(policy.PhaseHiddenResend, how.err)
	case saw.read == 0 && certificateRefused(saw.readError):
		return failed(policy.PhaseClientCertificate, saw.readError)
	case saw.tooLate:
		return failed(policy.PhaseTooLate, errTooLate)
	case sent == 0 && how.cancelled:
		return failed(policy.PhaseCancelledUnsent, nil)
	case sent == 0:
		return failed(policy.PhaseNotWritten, firstOf(saw.writeError, saw.readError, how.err))
	case how.cancelled:
		return failed(policy.PhaseCancelledSent, nil)
	case how.timedOut:
		return failed(policy.PhaseAnswerTimeout, nil)
	case saw.read > 0:
		return failed(policy.PhaseGarbage, nil) // the error's text would quote the answer
	case saw.writeError != nil || !how.wroteAll:
		return failed(policy.PhaseWriteCut, firstOf(saw.writeError, saw.readError))
	default:
		return failed(policy.PhaseNoAnswer, saw.readError)
	}
}

// unopenedPhase is for a call without a connection. A dial that the send window
// ended is a dial that was too slow: it says something about the other side.
func unopenedPhase(at stage, dialError error, how ending) (policy.Phase, error) {
	var dns *net.DNSError
	switch {
	case how.cancelled:
		return policy.PhaseCancelledUnsent, nil
	case at == stageNone && how.timedOut:
		return policy.PhaseConnect, how.err // over before the dial began
	case at == stageNone:
		return policy.PhaseInvalidRequest, how.err // refused by the transport
	case errors.As(dialError, &dns) && dns.IsNotFound:
		return policy.PhaseDNSNotFound, dialError
	case errors.As(dialError, &dns):
		return policy.PhaseDNSFailed, dialError
	case at == stageConnect:
		return policy.PhaseConnect, dialError
	case certificateRefused(dialError):
		return policy.PhaseClientCertificate, dialError
	case untrusted(dialError):
		return policy.PhaseCertificate, dialError
	default:
		return policy.PhaseTLSHandshake, dialError
	}
}

// untrusted reports a server that could not prove who it is, or that does not
// speak TLS but plain HTTP.
func untrusted(err error) bool {
	var bad *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	return errors.As(err, &bad) || errors.As(err, &header) && string(header.RecordHeader[:]) == "HTTP/"
}

// certificateRefused reports a TLS alert about our certificate. With TLS 1.3 it
// comes after we have written the request, and before the server has read any of
// it (RFC 8446 section 4.4.2.4).
func certificateRefused(err error) bool {
	code, ok := remoteAlert(err)
	if !ok {
		return false
	}
	switch code {
	case 42, 43, 44, 45, 46, 48, 116: // bad, unsupported, revoked, expired, unknown, unknown CA, required
		return true
	default:
		return false
	}
}

// remoteAlert returns the code of an alert that the other side sent. crypto/tls
// gives it a type of its own that it does not export; its kind and value are all
// there is besides its text.
func remoteAlert(err error) (code uint64, ok bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}
	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return 0, false
	}
	return v.Uint(), true
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// phaseText opens the text of Answer.Err.
var phaseText = map[policy.Phase]string{
	policy.PhaseInvalidRequest:    "the request cannot be sent",
	policy.PhaseCancelledUnsent:   "cancelled before anything was sent",
	policy.PhaseDNSNotFound:       "the name does not resolve",
	policy.PhaseDNSFailed:         "resolving the name failed",
	policy.PhaseConnect:           "connecting failed",
	policy.PhaseTLSHandshake:      "the TLS handshake failed",
	policy.PhaseCertificate:       "the server's certificate is not trusted",
	policy.PhaseClientCertificate: "the server refused our certificate",
	policy.PhaseNotWritten:        "connected, nothing was sent",
	policy.PhaseTooLate:           "too late to send",
	policy.PhaseWriteCut:          "the request was cut short",
	policy.PhaseNoAnswer:          "no answer",
	policy.PhaseAnswerTimeout:     "no answer in time",
	policy.PhaseCancelledSent:     "cancelled while waiting for the answer",
	policy.PhaseGarbage:           "the answer is not readable as HTTP",
	policy.PhaseHiddenResend:      "a second connection was opened for one call",
}

func describe(p policy.Phase, err error) string {
	if err == nil {
		return phaseText[p]
	}
	return phaseText[p] + ": " + err.Error()
}
