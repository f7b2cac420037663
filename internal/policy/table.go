package policy

import (
	"fmt"
	"slices"
	"strings"

	"redrive/internal/jobs"
)

// RowUnlisted is the row of whatever the table does not list.
const RowUnlisted = "unlisted"

// Row is one line of the classification table.
type Row struct {
	ID        string
	On        Trigger
	Processed Processed
	Verdicts  Verdicts
	Settles   bool   // speaks for earlier attempts under the same key as well
	Reason    string // one clause for people
}

// Trigger says what leads to a row. A row that has only a Text is not reached by
// a phase or a status alone: either Classify looks at the answer's header and
// body as well, or it takes a rule that knows the gateway.
type Trigger struct {
	Phases   []Phase
	Statuses []int
	Codes    []int // gRPC
	Text     string
}

// String returns the trigger as the table in the docs shows it.
func (t Trigger) String() string {
	var parts []string
	for _, p := range t.Phases {
		parts = append(parts, string(p))
	}
	for _, s := range t.Statuses {
		parts = append(parts, fmt.Sprint(s))
	}
	for _, c := range t.Codes {
		parts = append(parts, fmt.Sprintf("code %d", c))
	}
	if t.Text != "" {
		parts = append(parts, t.Text)
	}
	return strings.Join(parts, ", ")
}

// Verdicts is one verdict per idempotency class.
type Verdicts struct{ Natural, Keyed, Conditional, None jobs.Verdict }

// For returns the verdict of one class; an unknown word is as weak as none.
func (v Verdicts) For(class jobs.Idempotency) jobs.Verdict {
	switch class {
	case jobs.IdempotencyNatural:
		return v.Natural
	case jobs.IdempotencyKeyed:
		return v.Keyed
	case jobs.IdempotencyConditional:
		return v.Conditional
	default:
		return v.None
	}
}

// Short names, so that a row stays one line.
const (
	no, maybe, yes = ProcessedNo, ProcessedMaybe, ProcessedYes

	done    = jobs.VerdictSucceeded
	dup     = jobs.VerdictDuplicateSuccess
	pending = jobs.VerdictPendingPoll
	safe    = jobs.VerdictRetrySafe
	after   = jobs.VerdictRetryAfter
	sameKey = jobs.VerdictRetrySameKey
	ask     = jobs.VerdictUnknownInquire
	perm    = jobs.VerdictPermanentFailure
	read    = jobs.VerdictConflictRead
	hold    = jobs.VerdictHoldOperator

	settles, keeps = true, false
)

func all(v jobs.Verdict) Verdicts { return Verdicts{v, v, v, v} }

// of takes the verdicts in the order of the table's columns.
func of(natural, keyed, conditional, none jobs.Verdict) Verdicts {
	return Verdicts{natural, keyed, conditional, none}
}

func phase(p ...Phase) Trigger            { return Trigger{Phases: p} }
func status(s ...int) Trigger             { return Trigger{Statuses: s} }
func code(c ...int) Trigger               { return Trigger{Codes: c} }
func when(text string) Trigger            { return Trigger{Text: text} }
func (t Trigger) and(text string) Trigger { t.Text = text; return t }

// networkRows: the attempt ended without a whole answer.
var networkRows = []Row{
	// id, on, processed, verdicts (natural, keyed, conditional, none), earlier attempts, reason
	{"N01", phase(PhaseInvalidRequest), no, all(perm), keeps, "our request is not valid; it never left"},
	{"N02", phase(PhaseCancelledUnsent), no, all(safe), keeps, "given up before anything was sent"},
	{"N03", phase(PhaseDNSNotFound), no, all(safe), keeps, "the name does not resolve; not sent"},
	{"N04", phase(PhaseDNSFailed), no, all(safe), keeps, "the resolver failed; not sent"},
	{"N05", phase(PhaseConnect), no, all(safe), keeps, "no connection; not sent"},
	{"N06", phase(PhaseTLSHandshake), no, all(safe), keeps, "no TLS session; not sent"},
	{"N07", phase(PhaseCertificate), no, all(hold), keeps, "the server could not prove who it is; not sent"},
	{"N08", phase(PhaseClientCertificate), no, all(hold), keeps, "the server refused our certificate before it looked at the request"},
	{"N09", phase(PhaseNotWritten, PhaseTooLate), no, all(safe), keeps, "connected, but not one byte of the request was written"},
	{"N10", phase(PhaseWriteCut), maybe, of(safe, sameKey, ask, ask), keeps, "part of the request left; somebody may have acted on it"},
	{"N11", phase(PhaseNoAnswer), maybe, of(safe, sameKey, ask, ask), keeps, "looks the same whether it was processed or not"},
	{"N12", phase(PhaseAnswerTimeout), maybe, of(safe, sameKey, ask, ask), keeps, "it may still be processed after we stopped waiting"},
	{"N13", phase(PhaseCancelledSent), maybe, of(safe, sameKey, ask, ask), keeps, "we stopped waiting, the other side may not have"},
	{"N14", phase(PhaseGarbage), maybe, of(safe, sameKey, ask, ask), keeps, "an answer came and could not be read"},
	{"N15", phase(PhaseStreamReset), maybe, of(safe, sameKey, ask, ask), keeps, "a reset stream may have been processed"},
	{"N16", phase(PhaseConnectionLost), maybe, of(safe, sameKey, ask, ask), keeps, "a lost connection says nothing about its streams"},
	{"N17", phase(PhaseStreamRefused), no, all(safe), keeps, "the protocol guarantees that the stream was not looked at"},
	{"N18", phase(PhaseWorkerLost), maybe, of(safe, sameKey, ask, ask), keeps, "the worker ended between send and result"},
	{"N19", phase(PhaseBodyCut).and("200, 201, 204, 205 with a body cut short"), yes, of(done, sameKey, ask, ask), settles, "it took effect, only the details are missing"},
	{"N20", phase(PhaseTruncatedUndetected).and("200, 201 ended by close, with JSON that does not decode"), maybe, of(safe, sameKey, ask, ask), keeps, "cut without any sign but the JSON itself"},
	{"N21", phase(PhaseHiddenResend), maybe, of(safe, sameKey, ask, ask), keeps, "two copies may be on their way"},
}

// httpRows: there is a status. Of the pairs 409, 429 and 500 the cautious row
// holds (H409U, H429U, H500) unless a rule knows better.
var httpRows = []Row{
	{"H101", status(101), maybe, of(ask, sameKey, ask, ask), keeps, "not an answer to what was asked"},
	{"H200", status(200, 201), yes, all(done), settles, "done"},
	{"H200R", when("2xx that the gateway marks as a replay (rule)"), yes, all(dup), settles, "the first answer again"},
	{"H200D", when("2xx whose body says failed or pending (rule)"), yes, all(pending), settles, "taken; the body says it is not over"},
	{"H200G", when("200, 201 with a body that is empty, HTML, encoded or broken JSON"), maybe, of(ask, sameKey, ask, ask), keeps, "something between us and the gateway may have answered"},
	{"H202", status(202), yes, all(pending), settles, "taken, not done"},
	{"H204", status(204, 205), yes, all(done), settles, "done, nothing to say"},
	{"H207", status(206, 207, 226), maybe, of(ask, sameKey, ask, ask), keeps, "a partial answer to a request that has no parts"},
	{"H301", status(301, 302), maybe, of(hold, hold, ask, ask), keeps, "moved, or processed and sent on to a page"},
	{"H303", status(303), yes, of(done, sameKey, read, ask), keeps, "processed; the result is elsewhere"},
	{"H307", status(307, 308), no, all(hold), keeps, "moved; not processed where we asked"},
	{"H304", status(300, 304, 305, 306), maybe, of(ask, sameKey, ask, ask), keeps, "has no meaning for such a request"},
	{"H400", status(400), no, all(perm), keeps, "refused as not valid"},
	{"H401", status(401, 407), no, all(hold), keeps, "our credentials were refused"},
	{"H402", status(402), yes, all(perm), settles, "declined; another try is a new operation with a new key"},
	{"H403", status(403), no, all(hold), keeps, "not permitted, or stopped by a firewall"},
	{"H404", status(404), no, of(dup, perm, read, perm), keeps, "nothing there; says nothing about an earlier attempt"},
	{"H405", status(405, 406, 411, 414, 415, 416, 501, 505), no, all(perm), keeps, "the request does not fit the interface"},
	{"H408", status(408), maybe, of(safe, sameKey, ask, ask), keeps, "proxies say so after a whole request too"},
	{"H409F", when("409 the first request with this key is still in flight (rule)"), maybe, of(after, after, after, ask), keeps, "wait for the one in flight"},
	{"H409M", when("400, 409, 422 the key was used with another request (rule)"), yes, all(read), keeps, "something under this key was accepted, and it is not this"},
	{"H409D", when("409 the resource exists already, with a link to it (rule)"), yes, of(dup, read, read, read), settles, "read it and compare before calling it ours"},
	{"H409S", when("409, 422 the state says it is done already (rule)"), yes, of(dup, read, read, read), settles, "done by us or by somebody else"},
	{"H409U", status(409), maybe, of(after, after, read, ask), keeps, "in flight, or in conflict: it does not say"},
	{"H410", status(410), no, of(dup, perm, perm, perm), keeps, "gone for good"},
	{"H412", status(412), maybe, of(read, read, read, ask), keeps, "our own lost attempt may have changed the version"},
	{"H413", status(413), no, all(perm), keeps, "too large"},
	{"H413R", when("413 with a valid Retry-After"), no, all(after), keeps, "too large at the moment"},
	{"H417", status(417), no, all(safe), keeps, "an expectation was refused, not the request"},
	{"H421", status(421), no, all(safe), keeps, "reached a server that does not serve this name"},
	{"H422", status(422), no, all(perm), keeps, "refused as not valid"},
	{"H423", status(423), no, of(after, after, after, ask), keeps, "locked; used in more than one sense"},
	{"H424", status(424), maybe, of(after, sameKey, ask, ask), keeps, "something it depends on failed part-way"},
	{"H425", status(425), no, all(safe), keeps, "refused because it might be a replay of early data"},
	{"H426", status(426), no, all(hold), keeps, "wants another protocol"},
	{"H428", status(428), no, of(read, read, read, hold), keeps, "wants a condition: read first"},
	{"H429", when("429 documented as refused before processing (rule)"), no, all(after), keeps, "too many requests; this one was not looked at"},
	{"H429U", status(429), maybe, of(after, after, ask, ask), keeps, "too many requests; no promise that this one was not processed"},
	{"H431", status(431), no, all(perm), keeps, "headers too large"},
	{"H451", status(451), no, all(perm), keeps, "forbidden by law"},
	{"H4XX", when("any other 4xx"), maybe, of(ask, sameKey, ask, ask), keeps, "not standard; some come from proxies after the fact"},
	{"H500", status(500), maybe, of(after, ask, ask, ask), keeps, "may be remembered under the key: the same again tells nothing"},
	{"H500R", when("500 of a gateway that does not remember failures (rule)"), maybe, of(after, sameKey, ask, ask), keeps, "the same key executes again"},
	{"H502", status(502, 504), maybe, of(after, sameKey, ask, ask), keeps, "the proxy lost the origin, which may have finished"},
	{"H503", status(503), maybe, of(after, after, ask, ask), keeps, "mostly refused early, never guaranteed"},
	{"H507", status(507, 508, 510), maybe, of(after, sameKey, ask, ask), keeps, "failed on the server's side"},
	{"H511", status(511), no, all(hold), keeps, "a network in between wants a login"},
	{"H520", status(520), maybe, of(after, sameKey, ask, ask), keeps, "the origin's answer was lost, perhaps after the work"},
	{"H521", status(521), no, all(safe), keeps, "the origin refused the proxy's connection"},
	{"H522", status(522), maybe, of(after, sameKey, ask, ask), keeps, "the origin did not connect, or did not acknowledge the request"},
	{"H523", status(523, 525, 526, 530), no, all(safe), keeps, "the proxy never reached the origin"},
	{"H524", status(524), maybe, of(after, sameKey, ask, ask), keeps, "the origin has the request and did not answer in time"},
	{"H529", status(527, 529, 598, 599).and("any other 5xx"), maybe, of(after, sameKey, ask, ask), keeps, "not standard"},
	{"HXXX", when("a status outside 100 to 599"), maybe, of(ask, sameKey, ask, ask), keeps, "not HTTP as we know it"},
}

// grpcRows: there is a gRPC status code.
var grpcRows = []Row{
	{"G0", code(0), yes, all(done), settles, "done"},
	{"G1", code(1), maybe, of(safe, sameKey, ask, ask), keeps, "cancelled; the effect is not known"},
	{"G2", code(2, 13, 15), maybe, of(after, ask, ask, ask), keeps, "failed inside; show it, do not repeat it"},
	{"G3", code(3, 11, 12), no, all(perm), keeps, "refused as not valid"},
	{"G4", code(4), maybe, of(safe, sameKey, ask, ask), keeps, "it may still complete"},
	{"G5", code(5), no, of(dup, perm, read, perm), keeps, "nothing there, as 404"},
	{"G6", code(6), yes, of(dup, read, read, read), settles, "exists already: read and compare"},
	{"G7", code(7, 16), no, all(hold), keeps, "our credentials were refused"},
	{"G8", code(8), maybe, of(after, after, ask, ask), keeps, "a quota, perhaps for hours"},
	{"G9", code(9), no, of(read, read, read, perm), keeps, "the state does not allow it"},
	{"G10", code(10), no, of(read, read, read, ask), keeps, "repeat the whole read, change and write"},
	{"G14", code(14), maybe, of(after, sameKey, ask, ask), keeps, "unavailable, perhaps after the work"},
	{"G14T", when("code 14 with a refused stream, or GOAWAY below it"), no, all(safe), keeps, "the server's code never saw it"},
	{"GPB", when("a code that may have acted, with grpc-retry-pushback-ms of 0 or more"), maybe, of(after, after, ask, ask), keeps, "the server says when"},
}

// Table returns every row, in the order of the docs. The caller owns the slice.
func Table() []Row { return slices.Concat(networkRows, httpRows, grpcRows) }

// index finds rows by what leads to them; built once, never changed.
var index = func() (x struct {
	id     map[string]*Row
	phase  map[Phase]*Row
	status map[int]*Row
	code   map[int]*Row
}) {
	x.id, x.phase = map[string]*Row{}, map[Phase]*Row{}
	x.status, x.code = map[int]*Row{}, map[int]*Row{}
	for _, rows := range [][]Row{networkRows, httpRows, grpcRows} {
		for i := range rows {
			r := &rows[i]
			x.id[r.ID] = r
			for _, p := range r.On.Phases {
				x.phase[p] = r
			}
			for _, s := range r.On.Statuses {
				x.status[s] = r
			}
			for _, c := range r.On.Codes {
				x.code[c] = r
			}
		}
	}
	return x
}()
