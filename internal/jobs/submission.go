package jobs

import (
	"encoding/json"
	"time"
)

// MaxStatus bounds the status that a submission reports.
const MaxStatus = 999

// MaxBodyBytes bounds the body of one submission.
const MaxBodyBytes = 256 << 10

// Submission is one operation as a caller hands it in: one JSON object, one per
// line in a file. Durations and instants are still text here; package ledger
// resolves them against Redis' clock when it accepts the submission.
type Submission struct {
	Kind Kind `json:"kind"`
	Key  Key  `json:"key"`

	// One of the three bodies at most. Body is sent byte for byte as written.
	Body       json.RawMessage `json:"body,omitempty"`
	BodyText   *string         `json:"body_text,omitempty"`
	BodyBase64 *string         `json:"body_base64,omitempty"`

	ContentType string `json:"content_type,omitempty"` // default: the kind's
	Deadline    string `json:"deadline,omitempty"`     // RFC 3339, or a span from the later of acceptance and not_before; default: the kind's span
	NotBefore   string `json:"not_before,omitempty"`   // RFC 3339; default: at once

	Attempted *Attempted `json:"attempted,omitempty"` // what the request path saw; nil: never sent

	CreatedAt      string            `json:"created_at,omitempty"`      // RFC 3339; default: acceptance
	IdempotencyKey string            `json:"idempotency_key,omitempty"` // default: KIND:KEY
	CorrelationID  string            `json:"correlation_id,omitempty"`
	Traceparent    string            `json:"traceparent,omitempty"` // W3C trace context, see [CheckTraceparent]; sent with every attempt
	Credential     string            `json:"credential,omitempty"`  // default: [DefaultCredential]
	Params         map[string]string `json:"params,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`

	// NewAttemptOf names, as KIND/KEY, an operation of the same dependency that ended
	// without effect and whose payment this one tries again under a name of its own;
	// "": it is no new attempt. How often that may be done is [NewAttempts].
	NewAttemptOf string `json:"new_attempt_of,omitempty"`
}

// ID returns the operation's name.
func (s *Submission) ID() ID { return ID{Kind: s.Kind, Key: s.Key} }

// Attempted is what the request path saw of its own sends.
type Attempted struct {
	ID          string  `json:"id,omitempty"`            // unique per send: makes a merge idempotent
	Outcome     Outcome `json:"outcome"`                 // not_sent, refused or unknown: the worst of all its attempts
	Attempts    int     `json:"attempts,omitempty"`      // default 1
	FirstSentAt string  `json:"first_sent_at,omitempty"` // RFC 3339; a future one is cut to now
	Class       Class   `json:"class,omitempty"`         // default: that of Status, else other
	Counted     bool    `json:"counted,omitempty"`       // its first attempt was already counted in the budget

	// What is made of the last answer. Without it a resend follows where one is safe.
	Status            int    `json:"status,omitempty"`             // HTTP status; 0: there was none
	Step              Step   `json:"step,omitempty"`               // default retry, where it is safe; ask for an unknown outcome with a 2xx or 3xx
	Reason            Reason `json:"reason,omitempty"`             // with [StepEnd]: one of [ReportedReasons]
	Acted             bool   `json:"acted,omitempty"`              // of an unknown outcome: the other side took it, and has not finished
	RefusedCredential bool   `json:"refused_credential,omitempty"` // it does not count against max_attempts
}

// Receipt is the ledger's answer to one submission.
type Receipt struct {
	Answer    Answer   `json:"answer"`
	Operation ID       `json:"operation"`
	State     State    `json:"state"`
	Applied   Applied  `json:"applied"`
	NextAt    *Instant `json:"next_at"`
	Merged    bool     `json:"merged"`
	Differs   []string `json:"differs"`  // names of the fields that differ, never their values
	Warnings  []string `json:"warnings"` // what the caller should know, though it was accepted
	Error     *string  `json:"error"`

	Later bool `json:"-"` // refused only for now (backlog full): the same may be accepted later
	Past  bool `json:"-"` // refused because its deadline is over
	// Barred: refused because of what is known of the operation that it is a new attempt
	// of, and not for anything that could be mended in the submission.
	Barred bool `json:"-"`
}

// Instant is a moment as the wire shows it: RFC 3339 in UTC with milliseconds.
type Instant struct{ time.Time }

const instantLayout = "2006-01-02T15:04:05.000Z07:00"

// At returns the instant of t in UTC, cut to milliseconds (Redis' resolution).
func At(t time.Time) *Instant { return &Instant{t.UTC().Truncate(time.Millisecond)} }

// AtMS returns the instant of ms milliseconds since the epoch, nil for 0.
func AtMS(ms int64) *Instant {
	if ms == 0 {
		return nil
	}
	return At(time.UnixMilli(ms))
}

// String returns the wire form; "" for nil.
func (i *Instant) String() string {
	if i == nil {
		return ""
	}
	return i.UTC().Format(instantLayout)
}

// MarshalJSON writes the wire form.
func (i Instant) MarshalJSON() ([]byte, error) { return json.Marshal(i.UTC().Format(instantLayout)) }

// UnmarshalJSON reads RFC 3339.
func (i *Instant) UnmarshalJSON(b []byte) error { return i.Time.UnmarshalJSON(b) }
