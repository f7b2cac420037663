package config

import (
	"slices"
	"strings"
	"sync"
	"time"

	"redrive/internal/gateway/presets"
	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// Preset is what is known of the API of one gateway: what it puts into force, why, and
// what is known and not in force. It is never changed, and safe for concurrent use.
type Preset struct {
	Name    string
	Title   string
	Sources []PresetSource // in the order of the file

	// Idempotency is the strongest class that the API supports for kinds that are not
	// natural. It is advice: a kind says its own.
	Idempotency PresetFact[jobs.Idempotency]
	Header      PresetFact[string]        // canonical name; "": no header carries a key
	Window      PresetFact[time.Duration] // the shortest that is known; 0: not known
	MaxLength   PresetFact[int]           // bytes; 0: not known, and the default holds
	Replayed    PresetFact[ReplayMark]    // none: not known

	Rules     []PresetFact[policy.RuleSpec] // asked after the configuration's own
	Inquiry   *PresetInquiry                // nil: there is none that needs only what is known of every operation
	NoInquiry string                        // why there is none; "" with Inquiry
	Templates []PresetFact[PresetTemplate]  // requests that undo an operation; for people, not in force
	Notes     []PresetFact[string]          // what to know
	Uncertain []PresetFact[string]          // what is told and not in force

	rules *policy.Rules // of Rules; nil: none
}

// PresetSource is where facts come from.
type PresetSource struct{ Name, Ref string }

// PresetFact is a value, what is known about it, and how well.
type PresetFact[T any] struct {
	Value      T
	Text       string // one or more clauses for people; may be "" where the value says all
	Source     string // the name of a [PresetSource]
	Confidence Confidence
}

// Confidence is how well a fact is known.
type Confidence string

// The confidences, best first.
const (
	ConfidenceDocumented Confidence = "documented" // the vendor's documentation, specification or own client says so
	ConfidenceObserved   Confidence = "observed"   // measured on something that stands in for the gateway
	ConfidenceQuoted     Confidence = "quoted"     // others quote the vendor; in force only where it makes nothing bolder
	ConfidenceMemory     Confidence = "memory"     // not confirmed; never in force
)

// Confidences lists the confidences, best first.
var Confidences = []Confidence{ConfidenceDocumented, ConfidenceObserved, ConfidenceQuoted, ConfidenceMemory}

// PresetInquiry is an inquiry for the kinds that send one certain request.
type PresetInquiry struct {
	Method, Path string // of the kind's own request; the path without its query
	Needs        string // what must hold of an operation's request, for people
	Inquiry      PresetFact[*Inquiry]
}

// PresetTemplate is a request that a kind of one's own could send.
type PresetTemplate struct {
	Name    string
	Request Request
}

// PresetNames returns the names of all presets, sorted. The caller owns the slice.
func PresetNames() []string { return presets.Names() }

// NearestPreset is the end of an error about a name that no preset has: the one that
// was probably meant, or all of them.
func NearestPreset(name string) string { return orNearest(name, PresetNames()) }

// FindPreset returns a preset; ok is false if there is none of that name. The error is
// about a file that is part of the program, and tests keep it nil.
func FindPreset(name string) (p *Preset, ok bool, err error) {
	load, ok := presetLoads()[name]
	if !ok {
		return nil, false, nil
	}
	p, err = load()
	return p, true, err
}

// presetLoads reads each preset at its first use: their rules take time to compile.
var presetLoads = sync.OnceValue(func() map[string]func() (*Preset, error) {
	loads := map[string]func() (*Preset, error){}
	for _, name := range presets.Names() {
		loads[name] = sync.OnceValues(func() (*Preset, error) {
			data, _ := presets.File(name)
			return readPreset(name, data)
		})
	}
	return loads
})

// allows says why a fact may not be in force; "" if it may.
func (c Confidence) allows(r policy.RuleSpec) string {
	switch {
	case c == ConfidenceMemory:
		return "what is known from memory alone is not put into force: write it under uncertain"
	case c != ConfidenceQuoted:
		return ""
	case r.Verdict == jobs.VerdictSucceeded || r.Verdict == jobs.VerdictDuplicateSuccess:
		return "what others quote cannot call an operation succeeded"
	case r.Verdict.Resends() && r.Processed == policy.ProcessedNo:
		return "what others quote cannot promise that a request was not looked at"
	}
	return ""
}

// key returns k with what the preset says of it.
func (p *Preset) key(k IdempotencyKey) IdempotencyKey {
	k.Header, k.Window, k.Replayed = p.Header.Value, p.Window.Value, p.Replayed.Value
	if p.MaxLength.Value > 0 {
		k.MaxLength = p.MaxLength.Value
	}
	return k
}

// inquiry returns the inquiry for a kind that names none; nil: the preset has none for
// what it sends.
func (p *Preset) inquiry(k *Kind) *Inquiry {
	q := p.Inquiry
	if q == nil || k.Request.Method != q.Method || pathOnly(k.Request.Path) != q.Path {
		return nil
	}
	own := *q.Inquiry.Value
	names := append(k.Results.Names(), own.Results.Names()...)
	slices.Sort(names)
	// Under one name the kind may mean something else, and two values would look like a
	// double effect: then what the kind keeps is enough.
	if len(slices.Compact(names)) < len(k.Results.Names())+len(own.Results.Names()) || len(names) > policy.MaxResults {
		own.Results = nil
	}
	return &own
}

// pathOnly returns a path without its query.
func pathOnly(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}
