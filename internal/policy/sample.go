package policy

import (
	"time"

	"redrive/internal/jobs"
)

// Phase is how far an attempt got. The list is closed: see [Phases].
type Phase string

// The phases, in the order in which an attempt passes them.
const (
	PhaseInvalidRequest      Phase = "invalid_request"      // it could not be built; nothing was sent
	PhaseCancelledUnsent     Phase = "cancelled_unsent"     // we cancelled it before the first application byte
	PhaseDNSNotFound         Phase = "dns_not_found"        // the name does not exist
	PhaseDNSFailed           Phase = "dns_failed"           // the resolver failed or did not answer in time
	PhaseConnect             Phase = "connect"              // TCP refused, unreachable, reset or timed out while dialling
	PhaseTLSHandshake        Phase = "tls_handshake"        // the handshake failed, other than by a certificate
	PhaseCertificate         Phase = "certificate"          // the server's certificate failed, or it speaks plain HTTP
	PhaseClientCertificate   Phase = "client_certificate"   // the server refused our certificate, or wants one
	PhaseNotWritten          Phase = "not_written"          // connected, and not one application byte was written
	PhaseTooLate             Phase = "too_late"             // connected, and the send window was over: we wrote nothing
	PhaseWriteCut            Phase = "write_cut"            // a write failed part-way, or a 2xx came before all was written
	PhaseNoAnswer            Phase = "no_answer"            // all was written, then the connection ended without a byte of answer
	PhaseAnswerTimeout       Phase = "answer_timeout"       // no complete header of an answer in time
	PhaseCancelledSent       Phase = "cancelled_sent"       // we cancelled it after the first application byte
	PhaseGarbage             Phase = "garbage"              // an answer that is not readable HTTP
	PhaseStreamReset         Phase = "stream_reset"         // HTTP/2 RST_STREAM other than REFUSED_STREAM
	PhaseConnectionLost      Phase = "connection_lost"      // HTTP/2 GOAWAY that covers the stream, or a lost connection
	PhaseStreamRefused       Phase = "stream_refused"       // HTTP/2 REFUSED_STREAM, or GOAWAY below the stream
	PhaseWorkerLost          Phase = "worker_lost"          // the claim's lease ran out and nobody wrote a result
	PhaseBodyCut             Phase = "body_cut"             // a 2xx whose body was cut short
	PhaseTruncatedUndetected Phase = "truncated_undetected" // a 2xx ended by close, with JSON that does not decode
	PhaseHiddenResend        Phase = "hidden_resend"        // the transport opened a second connection for one send
	PhaseAnswered            Phase = "answered"             // there is a status; look at it
)

// Phases lists every phase.
var Phases = []Phase{PhaseInvalidRequest, PhaseCancelledUnsent, PhaseDNSNotFound, PhaseDNSFailed, PhaseConnect,
	PhaseTLSHandshake, PhaseCertificate, PhaseClientCertificate, PhaseNotWritten, PhaseTooLate, PhaseWriteCut,
	PhaseNoAnswer, PhaseAnswerTimeout, PhaseCancelledSent, PhaseGarbage, PhaseStreamReset, PhaseConnectionLost,
	PhaseStreamRefused, PhaseWorkerLost, PhaseBodyCut, PhaseTruncatedUndetected, PhaseHiddenResend, PhaseAnswered}

// Sample is what one attempt met: the input of [Classify].
type Sample struct {
	Phase Phase

	// The answer; only with [PhaseAnswered].
	Status     int                 // as received, not necessarily 100 to 599
	Header     map[string][]string // names in any case
	Body       []byte              // as received, possibly less than all of it
	BodyCut    bool                // the body ended before its end, or was longer than we read
	UntilClose bool                // neither a length nor chunks: only the end of the connection ended the body

	// WireBytes counts the application bytes handed to the kernel. It decides
	// between not_sent and unknown where no row lists what happened.
	WireBytes int64

	// ReceivedAt is when the answer's header was read. It is "now" for dates in
	// hints when the answer carries no Date of its own; zero: such hints are ignored.
	ReceivedAt time.Time
}

// Processed says whether the other side acted on a request.
type Processed string

// The values of Processed.
const (
	ProcessedNo    Processed = "no"
	ProcessedMaybe Processed = "maybe"
	ProcessedYes   Processed = "yes"
)

// Classification is what the table makes of a sample for one idempotency class.
type Classification struct {
	Row       string // id of the table's row; [RowUnlisted] when no row lists it
	Class     jobs.Class
	Outcome   jobs.Outcome
	Processed Processed
	Verdict   jobs.Verdict

	// Acted: the other side took it and has not said how it ended (outcome unknown).
	Acted bool
	// SettlesPrior is the row's word: the answer also speaks for earlier attempts
	// under the same key. Whether that holds for an operation is
	// [Decision.SettlesPrior]; nothing else may clear a mark.
	SettlesPrior bool
	// CredentialRefused: 401, 403, 407 or a certificate. Not the operation's fault.
	CredentialRefused bool
	// Again is what a rule read out of a decline: whether the payment may be tried
	// again at all. "": nothing is known of it.
	Again jobs.Again

	Hint   Hint
	Reason string // why the row says so, one clause for people
}

// Hint is how long the other side asked us to wait. The zero value is no hint.
type Hint struct {
	Wait time.Duration // 0 to [MaxWait]
	From string        // the header it came from; "" means there was no valid hint
	Raw  string        // the header as received, cut to 64 bytes; set also when it was not valid
}
