package redrive

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
)

// Errors of [Client.Do]. Whatever it returns, errors.Is and errors.As tell what is known:
// with these nothing was sent and nothing is kept.
var (
	ErrNoLedger = errors.New("redrive: the ledger does not answer, and without it this kind of operation must not be sent")
	ErrOpen     = errors.New("redrive: the dependency is not called now: its breaker is open, or it is paused")
	ErrDeadline = errors.New("redrive: too little time is left for an attempt")

	// ErrBacklogFull: so many operations of the dependency are on their way that no other is
	// taken in, and what could not be handed over if it failed is not sent. It passes as they
	// end, in seconds where workers get through and in minutes behind an outage: the same may
	// come again then, and a service that serves people says 503.
	ErrBacklogFull = errors.New("redrive: nothing was sent: the backlog is full, come again when it is shorter")
)

// ErrClosed is what every method returns from the moment that [Client.Close] begins, and
// how [Client.Wait] and [Client.Events] end then. Nothing was sent.
var ErrClosed = errors.New("redrive: the client is closed")

// ErrNotFound is returned when no operation has the name.
var ErrNotFound = errors.New("redrive: no such operation")

// ErrNotSent is wrapped by the error of a [SendFunc] that knows for certain that no byte
// of the request left: the operation is then handed over as not sent. Do not wrap it on a
// guess: a connection that was refused proves it only if there was no other before.
var ErrNotSent = gateway.ErrNotSent

// Permanent is returned by [Client.Do] for an answer that no retry can
// change, such as a decline, where it is known that nothing took effect: the customer can be told.
type Permanent struct {
	Reply  Reply
	Class  string // response class
	Reason string // in words; never ""
}

func (e *Permanent) Error() string { return "redrive: permanent failure: " + e.Reason }

// Deferred is returned by [Client.Do] for an operation that was handed over: it goes on
// without the caller, who can tell the customer that it is under way. With the state
// [Dead] in its receipt it waits for a person: whether it took effect may be unknown.
type Deferred struct {
	Receipt Receipt
	Outcome Outcome // of the attempt that was made; NotSent where there was none
	Reason  string  // why it is dead, as in [Record]; "": it is not, or the ledger did not say so in time
	Cause   error   // what the attempt met; nil: none was made
}

func (e *Deferred) Error() string {
	text := fmt.Sprintf("redrive: %s/%s is deferred (%s", e.Receipt.Kind, e.Receipt.Key, e.Receipt.State)
	if e.Reason != "" {
		text += ", " + e.Reason
	}
	text += ")"
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns what the attempt met.
func (e *Deferred) Unwrap() error { return e.Cause }

// Clash is returned by [Client.Do] when the name of the operation is taken by another
// request. Nothing was sent, but in [Light] mode, where the name is looked at only after a
// call has failed.
type Clash struct{ Receipt Receipt }

func (e *Clash) Error() string {
	return fmt.Sprintf("redrive: %s/%s is taken by another request, which differs in %s", e.Receipt.Kind, e.Receipt.Key, strings.Join(e.Receipt.Differs, ", "))
}

// Invalid is returned for an operation that the ledger does not take, and for an argument that
// cannot be, such as a kind or dependency that is not known. Nothing was sent.
type Invalid struct {
	Receipt Receipt // zero when the operation itself is wrong
	Err     error
}

func (e *Invalid) Error() string { return "redrive: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Invalid) Unwrap() error { return e.Err }

// HandoverError is returned by [Client.Do] when an attempt failed, or was not made, and the
// ledger did not take the operation. Submission is all of it as one line of JSON, with what was seen of
// the attempt: enqueue import takes it. Spooled: it stands in [Options.Spool] and is
// delivered from there; else nobody but the caller knows of it.
type HandoverError struct {
	Submission []byte
	Spooled    bool
	Outcome    Outcome
	Err        error
}

func (e *HandoverError) Error() string {
	kept := "and it is kept nowhere else"
	if e.Spooled {
		kept = "it is spooled"
	}
	return fmt.Sprintf("redrive: not handed over, %s: %s", kept, e.Err)
}

// Unwrap returns the cause.
func (e *HandoverError) Unwrap() error { return e.Err }

// Stop says why [Client.Call] did not try again.
type Stop string

// The reasons.
const (
	StopBudget    Stop = "budget"    // the dependency's shared retry budget is used up
	StopDeadline  Stop = "deadline"  // the next try would end after the context
	StopAttempts  Stop = "attempts"  // it was tried often enough
	StopBreaker   Stop = "breaker"   // the dependency is not called now
	StopPermanent Stop = "permanent" // no retry can change the answer
	StopLedger    Stop = "ledger"    // the budget could not be asked: without it nothing is retried
	StopClosed    Stop = "closed"    // the client was closed between two tries
)

// Stopped is returned by [Client.Call]. Unwrap is the first error that was met: later ones
// often tell only of the trouble that the first one caused.
type Stopped struct {
	Reason Stop
	Tries  int
	First  error
}

func (e *Stopped) Error() string {
	return fmt.Sprintf("redrive: stopped after %d tries (%s): %s", e.Tries, e.Reason, e.First)
}

// Unwrap returns the first error.
func (e *Stopped) Unwrap() error { return e.First }

func invalid(err error) error { return &Invalid{Err: err} }

func rejected(r Receipt) error {
	switch {
	case r.Answer == Conflict:
		return &Clash{r}
	case r.Later:
		return fmt.Errorf("%w (%s/%s: %s)", ErrBacklogFull, r.Kind, r.Key, r.Error)
	}
	return &Invalid{Receipt: r, Err: fmt.Errorf("%s/%s refused: %s", r.Kind, r.Key, r.Error)}
}

func nameOf(kind, key string) (jobs.ID, error) {
	id := jobs.ID{Kind: jobs.Kind(kind), Key: jobs.Key(key)}
	return id, jobs.CheckKey(key)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}
