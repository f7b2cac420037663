package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/wire"
)

// Problem is how every request is answered that is not done (RFC 9457). Type is stable:
// programs tell problems apart by it. Texts are for people and may change.
type Problem struct {
	Type   string         `json:"type" format:"uri" doc:"which problem it is: urn:redrive:problem:NAME, as docs/api.md lists them"`
	Title  string         `json:"title" doc:"what the type means"`
	Status int            `json:"status" doc:"the status of the answer"`
	Detail string         `json:"detail" doc:"what is so here, and what would mend it"`
	Errors []ProblemPlace `json:"errors,omitempty" doc:"what is wrong with the request, one by one"`

	Receipt *jobs.Receipt `json:"receipt,omitempty" doc:"the ledger's answer to a submission that was not taken"`
	State   jobs.State    `json:"state,omitempty" doc:"of the operation, where that is in the way"`

	retryIn time.Duration // Retry-After; 0: there is none

	header string // one more header: its name
	value  string // and its value
}

// ProblemPlace is one thing that is wrong with a request.
type ProblemPlace struct {
	Location string `json:"location" doc:"such as body.attempted.class, query.limit or header.Accept"`
	Message  string `json:"message" doc:"what is wrong there; payload is never repeated"`
}

// problemKind is a type of problem.
type problemKind struct {
	name   string
	status int
	title  string
}

// problemKinds lists every type, for the documentation.
var problemKinds []problemKind

func newProblemKind(name string, status int, title string) problemKind {
	k := problemKind{name, status, title}
	problemKinds = append(problemKinds, k)
	return k
}

var (
	malformed       = newProblemKind("malformed", 400, "the request cannot be read")
	unauthorized    = newProblemKind("unauthorized", 401, "a token is needed that is known here")
	forbidden       = newProblemKind("forbidden", 403, "the token lacks the role")
	notServed       = newProblemKind("not-served", 403, "the API is not served on this address")
	crossSite       = newProblemKind("cross-site", 403, "a browser asked for another site")
	notFound        = newProblemKind("not-found", 404, "there is no such thing")
	badMethod       = newProblemKind("method-not-allowed", 405, "the path knows no such method")
	notAcceptable   = newProblemKind("not-acceptable", 406, "it is not told in what the client accepts")
	tooSlow         = newProblemKind("too-slow", 408, "the request did not come in time")
	conflict        = newProblemKind("conflict", 409, "the key belongs to another request")
	notInState      = newProblemKind("not-in-this-state", 409, "it cannot be done as things stand")
	tooLarge        = newProblemKind("too-large", 413, "the body is too large")
	badMediaType    = newProblemKind("unsupported-media-type", 415, "the body is of another type than is read here")
	wrongHost       = newProblemKind("wrong-host", 421, "the request was meant for another host")
	invalid         = newProblemKind("invalid", 422, "a value of the request is wrong")
	backlogFull     = newProblemKind("backlog-full", 429, "too many operations wait already")
	internalProblem = newProblemKind("internal", 500, "a fault of ours")
	busy            = newProblemKind("busy", 503, "too many requests at once")
	closing         = newProblemKind("closing", 503, "the worker ends")
	redisAway       = newProblemKind("redis-away", 503, "Redis does not answer")
	redisRefuses    = newProblemKind("redis-refuses", 503, "Redis takes no writes")
	timedOut        = newProblemKind("timeout", 503, "it took too long")
	notFit          = newProblemKind("not-fit", 503, "Redis is not fit to keep operations")
	unsure          = newProblemKind("unsure", 503, "written, and not yet on the replicas asked for")
)

const problemURN = "urn:redrive:problem:"

func (k problemKind) because(format string, args ...any) *Problem {
	p := &Problem{Type: problemURN + k.name, Title: k.title, Status: k.status, Detail: fmt.Sprintf(format, args...)}
	switch k.status {
	case http.StatusTooManyRequests:
		p.retryIn = roomUnknown
	case http.StatusServiceUnavailable:
		p.retryIn = retryAfter
	}
	return p
}

// at is a problem with one place of the request.
func (k problemKind) at(location string, err error) *Problem {
	p := k.because("%s: %s", location, err)
	p.Errors = []ProblemPlace{{location, err.Error()}}
	return p
}

// retryAfter is what a client is asked to wait before it tries the same again: long
// enough for a crowd to thin out, short against any deadline.
const retryAfter = 2 * time.Second

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the status, for huma.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns that of problems, for huma.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// GetHeaders returns the headers that go with it, for huma.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryIn > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryIn.Seconds()))))
	}
	if p.header != "" {
		h.Set(p.header, p.value)
	}
	return h
}

// with adds a header.
func (p *Problem) with(header, value string) *Problem {
	p.header, p.value = header, value
	return p
}

func (p *Problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // that the client went away is not our concern
}

// huma has one maker of errors for the whole process; no other package uses huma. It
// would repeat values of the request, which are payload.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		kind := internalProblem
		switch status {
		case 0, http.StatusBadRequest:
			kind = malformed
		case http.StatusNotAcceptable:
			kind = notAcceptable
		case http.StatusRequestTimeout:
			kind = tooSlow
		case http.StatusRequestEntityTooLarge:
			kind = tooLarge
		case http.StatusUnsupportedMediaType:
			kind = badMediaType
		case http.StatusUnprocessableEntity:
			kind = invalid
		}
		if kind == malformed && slices.ContainsFunc(errs, ofBody) {
			kind = invalid // that it is JSON was made sure of before
		}
		p := kind.because("%s", message)
		for _, err := range errs {
			var place *huma.ErrorDetail
			switch {
			case kind == internalProblem: // of what is not the client's it learns nothing
			case errors.As(err, &place):
				p.Errors = append(p.Errors, ProblemPlace{place.Location, place.Message})
			case err != nil:
				p.Errors = append(p.Errors, ProblemPlace{"", err.Error()})
			}
		}
		if len(p.Errors) > 0 {
			p.Detail = p.Errors[0].Location + ": " + p.Errors[0].Message
		}
		return p
	}
	huma.ValidateStrictCasing = true // Kind is not kind
}

func ofBody(err error) bool {
	var place *huma.ErrorDetail
	return errors.As(err, &place) && place.Location == "body"
}

// problemOf says what an error means to the client. unknown reports that it is none that
// we know of: it is for the log.
func problemOf(err error) (p *Problem, unknown bool) {
	var problem *Problem
	var field *ledger.FieldError
	var syntax *wire.Error
	var word *operator.InvalidError
	var binding *ledger.BindingError
	var canary *operator.CanaryError
	switch {
	case errors.As(err, &problem):
		return problem, false
	case errors.As(err, &field):
		return invalid.at("body."+field.Field, field.Err), false
	case errors.As(err, &syntax):
		return decodeProblem(syntax), false
	case errors.As(err, &word):
		return invalid.at("query."+string(word.Field), word), false
	case errors.Is(err, ledger.ErrCursor):
		return invalid.at("query.cursor", err), false
	case errors.Is(err, ledger.ErrNotFound):
		return notFound.because("%s", err), false
	case errors.Is(err, ledger.ErrNoBatch):
		return notFound.because("%s", err), false
	case errors.As(err, &binding):
		return notInState.because("%s", binding), false
	case errors.As(err, &canary), errors.Is(err, operator.ErrNotRequeue), errors.Is(err, operator.ErrStopped):
		return notInState.because("%s", err), false
	case errors.Is(err, context.Canceled):
		return closing.because("it was cut off: the same again goes on with the rest"), false
	case errors.Is(err, ledger.ErrBacklogFull):
		return backlogFull.because("%s", err), false
	case errors.Is(err, ledger.ErrNewerSchema), errors.Is(err, ledger.ErrOlderWorkers):
		return notFit.because("%s", err), false
	case ledger.WritesRefused(err):
		return redisRefuses.because("nothing was written: %s", ledger.Explain(err)), false
	case fromRedis(err):
		return redisAway.because("%s; if it was a change, it may have been made all the same", ledger.Explain(err)), false
	}
	return internalProblem.because("it is in the worker's log"), true
}

// decodeProblem tells text that is no JSON from JSON that is no submission.
func decodeProblem(e *wire.Error) *Problem {
	if e.Malformed {
		return malformed.because("the body, at byte %d: %s", e.Offset+1, e)
	}
	location := "body"
	if e.Field != "" {
		location += "." + e.Field
	}
	return invalid.at(location, e.Err)
}

// cutOff reports whether err tells that something was not waited for any longer.
func cutOff(err error) bool {
	var network net.Error
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.As(err, &network) && network.Timeout()
}

// fromRedis reports whether err tells of Redis or of the way to it.
func fromRedis(err error) bool {
	var network net.Error
	return ledger.ReplyCode(err) != "" || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout)
}
