package jobs

import (
	"fmt"
	"strings"
)

// State is where an operation stands. It is in exactly one at any time, and in
// exactly the Redis index that belongs to it.
type State string

// The states. The last three are ends.
const (
	Waiting    State = "waiting"    // until its next_at, then until the gate has room
	Released   State = "released"   // handed to a worker's queue
	Attempting State = "attempting" // written ahead: a send may be under way
	Unresolved State = "unresolved" // an unknown outcome is being asked about
	Succeeded  State = "succeeded"
	Dead       State = "dead" // needs a person
	Cancelled  State = "cancelled"
)

// States lists every state in the order people read them.
var States = []State{Waiting, Released, Attempting, Unresolved, Succeeded, Dead, Cancelled}

// Ended reports whether no further call will be made unless a person asks for it.
func (s State) Ended() bool { return s == Succeeded || s == Dead || s == Cancelled }

// Reason says why an operation is a dead letter.
type Reason string

// The closed list of dead-letter reasons.
const (
	ReasonPermanent     Reason = "permanent"     // the dependency refused it for good
	ReasonAttempts      Reason = "attempts"      // no attempts left
	ReasonDeadline      Reason = "deadline"      // the business deadline passed, or the next attempt would miss it
	ReasonUnresolved    Reason = "unresolved"    // inquiry gave no answer
	ReasonUnsafe        Reason = "unsafe"        // outcome unknown and nobody can be asked
	ReasonMisconfigured Reason = "misconfigured" // cannot work until a setting is mended
	ReasonPoison        Reason = "poison"        // lost its worker three times in a row
	ReasonConflict      Reason = "conflict"      // the original at the dependency differs from ours
	ReasonUndeliverable Reason = "undeliverable" // for an hour no worker knew its kind
)

// Reasons lists every dead-letter reason.
var Reasons = []Reason{ReasonPermanent, ReasonAttempts, ReasonDeadline, ReasonUnresolved, ReasonUnsafe,
	ReasonMisconfigured, ReasonPoison, ReasonConflict, ReasonUndeliverable}

// Outcome is what one attempt proved.
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeRefused   Outcome = "refused"  // known not to have acted
	OutcomeNotSent   Outcome = "not_sent" // provably no byte arrived
	OutcomeUnknown   Outcome = "unknown"  // it may have acted
)

// Outcomes lists every outcome.
var Outcomes = []Outcome{OutcomeSucceeded, OutcomeRefused, OutcomeNotSent, OutcomeUnknown}

// Step is where an operation goes after an attempt.
type Step string

// The steps.
const (
	StepSucceed  Step = "succeed"
	StepRetry    Step = "retry"    // waiting for another attempt
	StepAsk      Step = "ask"      // it must not be sent again before it is known what became of it
	StepEnd      Step = "end"      // no attempt more, for a [Reason]
	StepConflict Step = "conflict" // an original stands at the other side, and must be read
)

// ReportedSteps and ReportedReasons are what the request path may say of its own sends.
var (
	ReportedSteps   = []Step{StepRetry, StepAsk, StepEnd, StepConflict}
	ReportedReasons = []Reason{ReasonPermanent, ReasonMisconfigured, ReasonAttempts, ReasonDeadline}
)

// Class is the response class of a call: a bounded set, fit for metric labels.
type Class string

// The response classes.
const (
	Class2xx        Class = "2xx"
	Class429        Class = "429"
	Class503        Class = "503"
	Class5xx        Class = "5xx"
	Class4xx        Class = "4xx"
	ClassTimeout    Class = "timeout"
	ClassReset      Class = "reset"
	ClassConnect    Class = "connect"
	ClassDNS        Class = "dns"
	ClassTLS        Class = "tls"
	ClassWorkerLost Class = "worker_lost"
	ClassOther      Class = "other" // 1xx, 3xx, invalid status, garbage or cut answer, cancelled by us
)

// Classes lists every response class.
var Classes = []Class{Class2xx, Class429, Class503, Class5xx, Class4xx, ClassTimeout, ClassReset,
	ClassConnect, ClassDNS, ClassTLS, ClassWorkerLost, ClassOther}

// ClassOfStatus is the class of a whole answer with an HTTP status.
func ClassOfStatus(status int) Class {
	switch {
	case status == 429:
		return Class429
	case status == 503:
		return Class503
	case status >= 200 && status <= 299:
		return Class2xx
	case status >= 400 && status <= 499:
		return Class4xx
	case status >= 500 && status <= 599:
		return Class5xx
	default:
		return ClassOther
	}
}

// Result is how a first attempt went, as the budget and the breaker see it: a decline is
// ok, for the dependency worked.
type Result string

// The results of first attempts.
const (
	ResultOK       Result = "ok"
	ResultFailed   Result = "failed"
	ResultTimedOut Result = "timed_out"
)

// Results lists every result of a first attempt.
var Results = []Result{ResultOK, ResultFailed, ResultTimedOut}

// Verdict is what the classifier makes of an answer for one idempotency class.
type Verdict string

// The verdicts of the classification table.
const (
	VerdictSucceeded        Verdict = "succeeded"
	VerdictPendingPoll      Verdict = "pending_poll"
	VerdictRetrySafe        Verdict = "retry_safe"
	VerdictRetryAfter       Verdict = "retry_after"
	VerdictRetrySameKey     Verdict = "retry_same_key"
	VerdictUnknownInquire   Verdict = "unknown_inquire"
	VerdictPermanentFailure Verdict = "permanent_failure"
	VerdictConflictRead     Verdict = "conflict_read_original"
	VerdictDuplicateSuccess Verdict = "duplicate_success"
	VerdictHoldOperator     Verdict = "hold_operator"
)

// Verdicts lists every verdict.
var Verdicts = []Verdict{VerdictSucceeded, VerdictPendingPoll, VerdictRetrySafe, VerdictRetryAfter,
	VerdictRetrySameKey, VerdictUnknownInquire, VerdictPermanentFailure, VerdictConflictRead,
	VerdictDuplicateSuccess, VerdictHoldOperator}

// Resends reports whether the verdict asks for another attempt.
func (v Verdict) Resends() bool {
	return v == VerdictRetrySafe || v == VerdictRetryAfter || v == VerdictRetrySameKey
}

// Idempotency says what a second send of the same operation would do.
type Idempotency string

// The idempotency classes, weakest first.
const (
	IdempotencyNone        Idempotency = "none"        // a resend can repeat the effect; the default
	IdempotencyConditional Idempotency = "conditional" // a duplicate is rejected recognisably
	IdempotencyKeyed       Idempotency = "keyed"       // the gateway dedupes by our key for a window
	IdempotencyNatural     Idempotency = "natural"     // a resend has the same effect
)

// Idempotencies lists the idempotency classes, weakest first.
var Idempotencies = []Idempotency{IdempotencyNone, IdempotencyConditional, IdempotencyKeyed, IdempotencyNatural}

func (i Idempotency) rank() int {
	for n, v := range Idempotencies {
		if v == i {
			return n
		}
	}
	return 0 // an unknown word is as weak as none
}

// Weaker returns the weaker of two classes: the class in force when the
// configuration changed after an operation was submitted.
func (i Idempotency) Weaker(other Idempotency) Idempotency {
	if other.rank() < i.rank() {
		return other
	}
	if i.rank() == 0 {
		return IdempotencyNone
	}
	return i
}

// InquiryAnswer is what an inquiry says became of an operation.
type InquiryAnswer string

// The answers of an inquiry.
const (
	InquirySucceeded InquiryAnswer = "succeeded"
	InquiryPending   InquiryAnswer = "pending"   // taken, and not over
	InquiryFailed    InquiryAnswer = "failed"    // looked at, and known not to have acted
	InquiryNotFound  InquiryAnswer = "not_found" // the gateway knows nothing of it
	InquiryNothing   InquiryAnswer = "nothing"   // the inquiry itself failed: it proves nothing
)

// Applied says whether the ledger knows that an operation took effect.
type Applied string

// The values of Applied.
const (
	AppliedYes     Applied = "yes"
	AppliedNo      Applied = "no"
	AppliedUnknown Applied = "unknown"
)

// Flag marks something about an operation that a person may look for.
type Flag string

// The flags.
const (
	FlagLate      Flag = "late"      // its success was learnt after it had left attempting
	FlagConflict  Flag = "conflict"  // two results contradict each other
	FlagRecreated Flag = "recreated" // the record was lost and written again from a worker's copy
)

// Flags lists every flag.
var Flags = []Flag{FlagLate, FlagConflict, FlagRecreated}

// Answer is the ledger's word on one submission.
type Answer string

// The answers.
const (
	Accepted  Answer = "accepted"
	Unsure    Answer = "unsure"    // written, not yet on the replicas asked for: submit again
	Duplicate Answer = "duplicate" // known already; its present state is returned
	Conflict  Answer = "conflict"  // same key, other request
	Refused   Answer = "refused"   // invalid, backlog full, or the store is not fit
)

// Answers lists every answer.
var Answers = []Answer{Accepted, Unsure, Duplicate, Conflict, Refused}

// Hold says why the gate lets nothing (or nothing more) through.
type Hold string

// The reasons for which due operations are held.
const (
	HoldNone       Hold = ""
	HoldBudget     Hold = "budget"
	HoldBreaker    Hold = "breaker"
	HoldRamp       Hold = "ramp"
	HoldLane       Hold = "lane"
	HoldInFlight   Hold = "in_flight"
	HoldRate       Hold = "rate"
	HoldRateHint   Hold = "rate_hint"
	HoldPaused     Hold = "paused"
	HoldRolledBack Hold = "rolled_back" // the store lost attempts that it had acknowledged
	HoldSlots      Hold = "slots"
)

// Holds lists every reason for which due operations are held.
var Holds = []Hold{HoldBudget, HoldBreaker, HoldRamp, HoldLane, HoldInFlight, HoldRate, HoldRateHint, HoldPaused, HoldSlots}

// Parse finds s among the words of one of the lists above (such as [States]).
// The error names what is allowed.
func Parse[T ~string](what, s string, allowed []T) (T, error) {
	for _, w := range allowed {
		if string(w) == s {
			return w, nil
		}
	}
	words := make([]string, len(allowed))
	for i, w := range allowed {
		words[i] = string(w)
	}
	var zero T
	return zero, fmt.Errorf("unknown %s %q: want one of %s", what, s, strings.Join(words, ", "))
}
