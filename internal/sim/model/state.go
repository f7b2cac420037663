package model

import "redrive/internal/jobs"

// phase is the operation's state, as [jobs.State] in one byte.
type phase uint8

const (
	absent phase = iota
	waiting
	released
	attempting
	unresolved
	succeeded
	dead
	cancelled
)

var phaseNames = [...]jobs.State{"absent", jobs.Waiting, jobs.Released, jobs.Attempting, jobs.Unresolved, jobs.Succeeded, jobs.Dead, jobs.Cancelled}

func (p phase) String() string { return string(phaseNames[p]) }

func (p phase) ended() bool { return p == absent || phaseNames[p].Ended() }

// reason is why an operation is dead, as far as it matters here.
type reason uint8

const (
	noReason      reason = iota
	settledReason        // permanent, attempts, deadline, poison, misconfigured: nothing may be unknown
	unsafeReason
	unresolvedReason
)

// result is what the ledger knows of one send.
type result uint8

const (
	unused result = iota
	open          // written ahead, not ended
	notSent
	refused
	unknown
	applied
	settled // unknown once, shown not to have acted
)

// wire is the truth about one send.
type wire uint8

const (
	unsent     wire = iota
	travelling      // bytes left us and have not arrived
	processing      // arrived; what comes of it is not decided
	accepted        // answered 202: decided at any time, however late
	acted           // took effect
	declined        // arrived and did not act
	repeated        // recognised as a repetition of one that acted
	lost            // will never arrive
)

// mayAct reports whether the send acted or still can.
func (w wire) mayAct() bool { return w >= travelling && w <= acted }

// send is one attempt: the ledger's line of it beside the truth.
type send struct {
	result result
	wire   wire

	recorded   bool // its own run has written a result
	workerLost bool // closed because its lease ran out
	took       bool // the acted mark: the other side said it took it

	leaseOver  bool
	settleOver bool
	early      bool // granted before the key stopped being safe

	elsewhere bool // went to the target of after the change
	keyed     bool // carried the idempotency key

	during bool // reported after a run had its grant and before it sent: that run could not know
	alien  bool // made by the request path without knowing of ours
	weaker bool // granted or reported after the configured class changed
}

// work says where a worker stands.
type work uint8

const (
	idle     work = iota
	taken         // holds a delivery, has drawn a run id
	asking        // begin was applied, its answer is on the way
	unclear       // no clear answer from begin
	granted       // may send
	sending       // waits for the gateway's answer
	finished      // has an outcome to write
)

// worker is one process with one slot.
type worker struct {
	at      work
	fresh   bool // its delivery is the operation's present one
	holds   bool // the claim bears its run id
	delayed bool // the begin on its way in the network is of its run
	slack   bool // its clock was started by a reply that came after the lease
	line    uint8
	outcome outcome
}

// outcome is what a worker learnt from its send.
type outcome uint8

const (
	sawNothing outcome = iota // timeout, reset: unknown
	sawSuccess
	sawRefusal // a definite answer: did not act
	sawAccepted
	sawNotSent
)

// inquiry is one read of what became of the operation.
type inquiry struct {
	at        inquiryAt
	answer    answer
	current   bool // the operation counts it as the one under way
	unchanged bool // the list of attempts is what it was when it asked
	settled   bool // asked after the settle time of all that is unknown
	spaced    bool // asked long enough after the first not-found
	same      bool // asked where all that is unknown was sent
	elsewhere bool // asked the target of after the change
	written   bool // its answer was counted; the reply was lost
}

type inquiryAt uint8

const (
	noInquiry inquiryAt = iota
	handedOut
	answered
)

type answer uint8

const (
	noAnswer answer = iota
	foundApplied
	foundPending
	foundFailed
	foundNothing
)

const (
	maxSends     = 3
	maxWorkers   = 2
	maxInquiries = 2
)

// state is everything that can matter later. It is compared and hashed as a
// whole, so it holds neither pointers nor history.
type state struct {
	phase  phase
	intent phase // where it goes once all is settled as not applied
	reason reason
	claim  uint8 // 1 + line of the attempt in flight, 0 without a claim

	cancelAsked bool // while attempting
	lateSuccess bool // another attempt succeeded while attempting
	writtenOff  bool // a person ended it with its outcome unknown
	firstSent   bool
	asked       bool  // an inquiry is under way, as the record says
	notFound    uint8 // not-founds in a row

	deadlineOver bool
	unsafe       bool // safe_until passed
	forgotten    bool // the gateway dropped the key
	spaceOver    bool // long enough after the first not-found
	lagging      bool // inquiries are answered from before our sends
	moved        bool // base_url or credential changed
	reclassed    bool // the configured class changed
	failedRecord bool // the gateway shows a failed one under our name
	crashed      bool

	tasks [2]uint8 // asynq tasks of an older and of the present delivery
	begin uint8    // a begin under way in the network: 0 none, 1 older delivery, 2 present

	left  uint8  // disturbances left in this run
	spent uint64 // two bits for each kind of disturbance

	sends     [maxSends]send
	workers   [maxWorkers]worker
	inquiries [maxInquiries]inquiry
}

// disturbance is a kind of step that is bounded per run.
type disturbance uint8

const (
	crash disturbance = iota
	lostBeginReply
	delayedBegin
	lostFinishReply
	lostInquiredReply
	secondDelivery
	lostTask
	lag
	slowInquiry
	stall
	shutdown
	move
	reclass
	report
	cancel
	requeue
	resolve
	reconcile
	expire
	disturbances
)
