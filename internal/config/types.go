package config

import (
	"log/slog"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// Config is what one file says, with the defaults filled in. It is read-only once
// the program has started; reading it is safe for concurrent use.
//
// Durations are whole milliseconds (Redis' resolution), never negative and at
// most [MaxDuration].
type Config struct {
	Redis  Redis
	Listen string // host:port of health and metrics; port 0 picks a free one; default 127.0.0.1:8080
	// ShutdownGrace is how long running attempts may go on after SIGTERM; what then
	// still runs is written unknown. 0: at once. Default 25 s.
	ShutdownGrace time.Duration
	Log           Log
	Dependencies  map[jobs.Dependency]*Dependency // at least one, unless no file was read
	Kinds         map[jobs.Kind]*Kind             // at least one, unless no file was read
	Retention     Retention

	Tokens []Token // who may use the HTTP API; none: it is served on loopback alone, to whoever is there; the default
	TLS    TLS
	API    API

	Path string // the file it came from; "" if it came from none

	source *source // where each value stands, for errors found after loading; nil if it came from no file

}

// Redis says where the ledger lives and how safe it must be there.
type Redis struct {
	URL        Secret // redis://, rediss:// or unix://; a Secret because it may carry a password. Required
	Namespace  string // prefix of every key and queue; default "redrive"
	Durability Durability
	Assume     Assume
	// WaitReplicas is on how many replicas a submission, a begin or a person's action
	// must be before it counts; each waits for them for up to a second. 0, the
	// default: on none. At most 10.
	WaitReplicas int
}

// Durability is what the preflight demands of Redis.
type Durability string

// The durability levels, weakest first.
const (
	DurabilityVolatile Durability = "volatile" // anything goes; said at every start
	DurabilityStandard Durability = "standard" // noeviction, and persistence or a replica; the default
	DurabilityStrict   Durability = "strict"   // also refuses what can lose an acknowledged write, or cannot be read
)

// Durabilities lists the durability levels, weakest first.
var Durabilities = []Durability{DurabilityVolatile, DurabilityStandard, DurabilityStrict}

// Assume is what a person vouches for where a managed Redis does not tell. It is
// looked at after INFO and CONFIG GET, and shown as "assumed". "" assumes nothing.
type Assume struct {
	MaxmemoryPolicy string // one of Redis' own words, such as noeviction
	Persistence     string // none, rdb or aof
}

// Log says what is logged and how.
type Log struct {
	Level  slog.Level // default info
	Format LogFormat
}

// LogFormat is the form of a log line.
type LogFormat string

// The log formats.
const (
	LogAuto LogFormat = "auto" // text on a terminal, else JSON; the default
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// LogFormats lists the log formats.
var LogFormats = []LogFormat{LogAuto, LogText, LogJSON}

// Dependency is an outside system that operations are sent to.
type Dependency struct {
	Name jobs.Dependency
	// BaseURL is what a kind's path is appended to: http or https, without
	// userinfo, query, fragment and trailing slash. A ${...} in it stays as written
	// until [Config.ResolveSecrets]; unlike headers it is not read again later,
	// because a target that changes makes resends unsafe. Required.
	BaseURL     string
	Headers     map[string]Secret     // by canonical name; sent with every call; default none
	Credentials map[string]Credential // by the name that a submission chooses; default none

	Timeout     time.Duration // of one attempt, from dial to the end of the answer; above 0, at most 10 min; default 3 s
	MinResponse time.Duration // an attempt with less time before the deadline is not made; 0: none is held back; default 150 ms
	Slots       int           // concurrent calls of one process, 1 to 10,000; default 10
	MaxInFlight int           // concurrent calls of all processes; 0: no limit; default 40
	Budget      Budget
	Drain       Drain
	Breaker     Breaker
	Rate        Rate

	IdempotencyKey IdempotencyKey // for kinds that do not override it
	MaxBacklog     int64          // submit is refused beyond so many open operations; at least 1; default 1,000,000
	// Rules say what this dependency means by its answers, before the built-in table;
	// at most [policy.MaxRules], and behind them those of Preset; nil: there are none,
	// the default.
	Rules *policy.Rules
	// Preset is the name of the [Preset] that filled IdempotencyKey, Rules and the
	// Inquiry of kinds where the file says nothing; "": none, the default.
	Preset string
}

// Credential is one account at a dependency.
type Credential struct {
	Headers map[string]Secret // by canonical name; wins over the dependency's header of the same name
}

// Budget is what calls beyond an operation's first may draw on. Rates are kept in
// thousandths, because scripts calculate in integers.
type Budget struct {
	RatioMilli          int64 // thousandths of a token earned by each first attempt; 0 to 1000; default 100 (0.1)
	Cap                 int64 // tokens at most, 1 to 1,000,000; default 100
	FloorMilliPerSecond int64 // thousandths of a token earned per second, whatever happens; 0: none; default 1000 (1/s)
}

// IdempotencyKey says how a dependency is told that two sends are one.
type IdempotencyKey struct {
	Header    string        // canonical name; "": no key is sent; default Idempotency-Key
	Window    time.Duration // how long the dependency remembers a key; 0: not known, so no kind can be keyed; default 24 h
	MaxLength int           // bytes of the longest key it takes, 1 to 1000; default 255
	Replayed  ReplayMark    // how an answer says that it repeats an earlier one; only counted, nothing is decided by it; default none
}

// Kind says how operations of one sort are sent.
type Kind struct {
	Name        jobs.Kind
	Dependency  jobs.Dependency // required
	Request     Request         // required
	Idempotency jobs.Idempotency
	// IdempotencyKey is the one in force: the dependency's, with what the kind
	// writes itself on top.
	IdempotencyKey IdempotencyKey
	MaxAttempts    int // sends that count, the request path's own included; 1 to 1000; default 25
	Backoff        Backoff
	NewAttempts    NewAttempts       // how often one payment may be tried under different names
	Deadline       time.Duration     // span of an operation that brings none of its own; above 0; default 2 h
	Columns        map[string]string // name -> RFC 6901 pointer into the body; default none
	Results        *policy.Results   // what is kept of a success, at most [policy.MaxResults] values; nil: nothing, the default

	Inquiry  *Inquiry       // nil: nobody can be asked what became of an operation, the default
	VoidLate *jobs.VoidSpec // what undoes a success that is learnt too late; nil: it is kept, the default

	idleVoid *jobs.VoidSpec // written while on_late_success is keep: checked, and not in force
}

// Request is the fixed part of what a kind sends.
type Request struct {
	Method      string // default POST
	Path        string // begins with a slash; may use {key} and {params.NAME}. Required
	ContentType string // default application/json; "": none is sent unless the submission brings one
}

// Backoff bounds the full-jitter wait before retry n: uniform in [0, min(Cap, Base x 2^(n-1))].
type Backoff struct {
	Base time.Duration // above 0; default 1 s
	Cap  time.Duration // at least Base; default 10 min
}

// Retention is how long ended operations are kept. 0 means for ever.
type Retention struct {
	Succeeded time.Duration // bodies and answers of succeeded operations; default 168 h
	Cancelled time.Duration // the same of cancelled ones; default 168 h
	Dead      time.Duration // dead letters; default 0
	Keys      time.Duration // tombstones: the dedupe window; at least Succeeded, Cancelled and every key window; default 2160 h
	Audit     time.Duration // default 8760 h
}

// MaxDuration is the longest span a file may name: ten years. It keeps every
// product of spans far below 2^53 ms, where Lua's numbers stop being exact.
const MaxDuration = 87600 * time.Hour
