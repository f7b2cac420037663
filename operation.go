package redrive

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// Operation is something to be done at a dependency once, such as a charge: what a
// submission says of it. Kind and Key are its name.
type Operation struct {
	Kind string // one of those known here
	Key  string // unique within the kind: 1 to 200 bytes of printable ASCII without space

	Body        []byte            // sent byte for byte; at most 256 KiB
	ContentType string            // of Body; "": the kind's
	Params      map[string]string // for {params.NAME} in the kind's path; at most 32
	Headers     map[string]string // at most 32; sent along; no credentials: those are the configuration's

	IdempotencyKey string // "": KIND:KEY
	Credential     string // name of the one to send under; "": default
	CorrelationID  string // found again in logs, traces and at the gateway
	Traceparent    string // W3C trace context; "": that of the span in ctx, if there is one

	Deadline  time.Time     // no send after it; zero: after Within. It wins over Within
	Within    time.Duration // counted from acceptance, or from the begin of Do; 0: the kind's span
	NotBefore time.Time     // no send before it; zero: at once

	Attempted *Attempted // what was sent of it already; nil: nothing. Not with Do

	NewAttemptOf string // KIND/KEY whose payment this tries again; "": none
}

// Outcome is what a send proved.
type Outcome string

// The outcomes of sends that did not succeed.
const (
	NotSent Outcome = "not_sent" // provably no byte arrived
	Refused Outcome = "refused"  // known not to have acted
	Unknown Outcome = "unknown"  // it may have acted
)

// Attempted is what the request path saw of its own sends.
type Attempted struct {
	ID          string    // unique per send: telling of it twice counts once
	Outcome     Outcome   // the worst of all sends
	Times       int       // 0: once
	FirstSentAt time.Time // without it and an IdempotencyKey an unknown send is never repeated
	Class       string    // response class, such as timeout or 5xx; "": that of Status, else other
	Counted     bool      // the shared budget knows of it already

	// What its last answer means. Without a Step a resend follows as soon as one is safe; but
	// what has an unknown outcome with a 2xx was taken (as a 202 is), and is asked about, as it
	// is with a 3xx. What contradicts itself is refused, such as NotSent with a Status.
	Status            int    // HTTP status; 0: there was none
	Step              Step   // where it goes from here
	Reason            string // with [StepEnd]: permanent, misconfigured, attempts or deadline
	Acted             bool   // of an unknown outcome: the other side took it, and has not finished
	RefusedCredential bool   // it does not count against max_attempts
}

// Step is where an operation goes after a send that did not succeed.
type Step string

// The steps.
const (
	StepRetry    Step = "retry"    // it is sent again where that is safe
	StepAsk      Step = "ask"      // not before it is known what became of it; [Dead] where nobody can be asked
	StepEnd      Step = "end"      // never; it is [Dead] for the Reason
	StepConflict Step = "conflict" // something else stands there under its name, and must be read
)

// submission is the operation as it is handed in. Its JSON is a line of enqueue import.
func (o Operation) submission(spec jobs.KindSpec) *jobs.Submission {
	s := &jobs.Submission{Kind: jobs.Kind(o.Kind), Key: jobs.Key(o.Key), ContentType: o.ContentType, IdempotencyKey: o.IdempotencyKey,
		Credential: o.Credential, CorrelationID: o.CorrelationID, Traceparent: o.Traceparent, Params: o.Params, Headers: o.Headers, NewAttemptOf: o.NewAttemptOf}
	contentType := o.ContentType
	if contentType == "" {
		contentType = spec.ContentType
	}
	switch {
	case o.Body == nil:
	case isJSON(contentType) && compact(o.Body):
		s.Body = o.Body
	case utf8.Valid(o.Body):
		text := string(o.Body)
		s.BodyText = &text
	default:
		text := base64.StdEncoding.EncodeToString(o.Body)
		s.BodyBase64 = &text
	}
	switch {
	case !o.Deadline.IsZero():
		s.Deadline = instantText(o.Deadline)
	case o.Within != 0:
		s.Deadline = o.Within.String()
	}
	if !o.NotBefore.IsZero() {
		s.NotBefore = instantText(o.NotBefore)
	}
	if a := o.Attempted; a != nil {
		s.Attempted = &jobs.Attempted{ID: a.ID, Outcome: jobs.Outcome(a.Outcome), Attempts: max(a.Times, 1), Class: jobs.Class(a.Class), Counted: a.Counted,
			Status: a.Status, Step: jobs.Step(a.Step), Reason: jobs.Reason(a.Reason), Acted: a.Acted, RefusedCredential: a.RefusedCredential}
		if !a.FirstSentAt.IsZero() {
			s.Attempted.FirstSentAt = instantText(a.FirstSentAt)
		}
	}
	return s
}

// compact: it is JSON, and an encoder leaves the text as it is, so that its bytes survive a
// line of JSON.
func compact(body []byte) bool {
	b, err := json.Marshal(json.RawMessage(body))
	return err == nil && string(b) == string(body)
}

func isJSON(contentType string) bool {
	if contentType == "application/json" { // nearly always
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

func instantText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Answer is the ledger's word on a submission.
type Answer string

// The answers.
const (
	Accepted  Answer = "accepted"
	Unsure    Answer = "unsure"    // written, not yet on the replicas asked for: submit again
	Duplicate Answer = "duplicate" // known already; its present state is told
	Conflict  Answer = "conflict"  // the name is taken by another request
	Rejected  Answer = "refused"   // invalid, or the backlog is full; Error says why
)

// State is where an operation stands. The last three are ends.
type State string

// The states.
const (
	Waiting    State = "waiting"    // for its time, then for the gate
	Released   State = "released"   // handed to a worker
	Attempting State = "attempting" // a send may be under way
	Unresolved State = "unresolved" // the gateway is being asked what became of it
	Succeeded  State = "succeeded"
	Dead       State = "dead" // needs a person
	Cancelled  State = "cancelled"
)

// Ended reports whether no further call will be made unless a person asks for it.
func (s State) Ended() bool { return jobs.State(s).Ended() }

// Applied says whether the ledger knows that an operation took effect.
type Applied string

// The values of Applied.
const (
	AppliedYes     Applied = "yes"
	AppliedNo      Applied = "no"
	AppliedUnknown Applied = "unknown"
)

// Receipt is the answer to one submission.
type Receipt struct {
	Answer  Answer
	Kind    string
	Key     string
	State   State
	Applied Applied
	NextAt  time.Time // of the next attempt; zero: none is planned
	Merged  bool      // a duplicate told of a send that was not known
	Differs []string  // of a conflict: names of the fields that differ

	Warnings []string
	Error    string // of Rejected
	Later    bool   // rejected only for now: the same may be accepted later

	past bool // rejected for its deadline, which is over by Redis' clock
}

func receiptOf(r jobs.Receipt) Receipt {
	out := Receipt{Answer: Answer(r.Answer), Kind: string(r.Operation.Kind), Key: string(r.Operation.Key), State: State(r.State),
		Applied: Applied(r.Applied), NextAt: timeOf(r.NextAt), Merged: r.Merged, Differs: r.Differs, Warnings: r.Warnings, Later: r.Later, past: r.Past}
	if r.Error != nil {
		out.Error = *r.Error
	}
	return out
}

func timeOf(i *jobs.Instant) time.Time {
	if i == nil {
		return time.Time{}
	}
	return i.Time
}

// Record is an operation as it stands in the ledger.
type Record struct {
	Kind       string
	Key        string
	Dependency string
	State      State
	Reason     string // of a dead letter
	Applied    Applied
	Sends      int // the number of its last attempt: those of the request path are counted in, and those of which nothing was sent
	CreatedAt  time.Time
	NextAt     time.Time // zero: no attempt is planned
	DeadlineAt time.Time
	EndedAt    time.Time // zero: it has not ended

	IdempotencyKey string
	CorrelationID  string
	Traceparent    string            // W3C trace context, "": none
	SubmittedBy    string            // the service or person whose submission made it, "": not known
	Result         map[string]string // named values of its success
	LastClass      string            // of the last answer; "": none yet
	LastStatus     int               // HTTP status of the last answer; 0: none
	LastError      string
	Answer         []byte // body of the last answer that was kept; nil: none, or past retention
}

func recordOf(d *ledger.Detail) *Record {
	r := &Record{Kind: string(d.Kind), Key: string(d.Key), Dependency: string(d.Dependency), State: State(d.State), Applied: Applied(d.Applied),
		Sends: d.Sends, CreatedAt: timeOf(d.CreatedAt), NextAt: timeOf(d.NextAt), DeadlineAt: timeOf(d.DeadlineAt), EndedAt: timeOf(d.EndedAt),
		IdempotencyKey: d.IdempotencyKey, CorrelationID: deref(d.CorrelationID), Traceparent: deref(d.Traceparent), SubmittedBy: deref(d.SubmittedBy), Result: d.Result}
	if d.Reason != nil {
		r.Reason = string(*d.Reason)
	}
	if l := d.Last; l != nil {
		r.LastClass, r.LastError = string(l.Class), deref(l.Error)
		if l.Status != nil {
			r.LastStatus = *l.Status
		}
	}
	latest := 0
	for n, body := range d.Answers {
		if at := number(n); at > latest {
			latest, r.Answer = at, []byte(body)
		}
	}
	return r
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
