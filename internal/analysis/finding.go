package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"redrive/internal/config"
)

// Severity ranks findings.
type Severity string

// The severities, worst first.
const (
	Error   Severity = "error"   // the configuration contradicts itself, or cannot hold what it promises
	Warning Severity = "warning" // it works, and is probably not meant
	Note    Severity = "note"    // it works as meant; a person should know
)

// Severities lists the severities, worst first.
var Severities = []Severity{Error, Warning, Note}

// Finding is one thing about a configuration that a person should know.
type Finding struct {
	ID       string   `json:"id"` // which sort it is, in kebab-case; never changed once released
	Severity Severity `json:"severity"`
	Path     string   `json:"path"` // where it stands in the file
	What     string   `json:"what"` // what is so, with the numbers
	Why      string   `json:"why"`  // what follows from it
	Want     string   `json:"want"` // what would be right, with the numbers
}

// String is the finding in one line, without what would be right.
func (f Finding) String() string { return f.Path + ": " + f.What + ": " + f.Why }

// Findings returns what is wrong with c, which [config.Config.Validate] accepts, at a
// load that is valid: worst first, then by path and id. It is never nil.
func Findings(c *config.Config, l Load) []Finding {
	r := &report{c: c, load: l, list: []Finding{}}
	for _, w := range c.Warned() {
		r.list = append(r.list, Finding{w.ID, Warning, w.Path, w.What, w.Why, w.Want})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Dependencies)) {
		d := c.Dependencies[name]
		if !used(c, d) {
			continue // nothing is sent there: what it could bear is no matter
		}
		for _, look := range dependencyChecks {
			look(r, "dependencies."+string(name), d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Kinds)) {
		k := c.Kinds[name]
		for _, look := range kindChecks {
			look(r, "operations."+string(name), k, c.Dependencies[k.Dependency])
		}
	}
	slices.SortStableFunc(r.list, func(a, b Finding) int {
		if by := slices.Index(Severities, a.Severity) - slices.Index(Severities, b.Severity); by != 0 {
			return by
		}
		if by := strings.Compare(a.Path, b.Path); by != 0 {
			return by
		}
		return strings.Compare(a.ID, b.ID)
	})
	return r.list
}

func used(c *config.Config, d *config.Dependency) bool {
	for _, k := range c.Kinds {
		if k.Dependency == d.Name {
			return true
		}
	}
	return false
}

// report collects findings.
type report struct {
	c    *config.Config
	load Load
	list []Finding
}

// add adds a finding; format is what is so.
func (r *report) add(id string, s Severity, path, why, want, format string, args ...any) {
	r.list = append(r.list, Finding{ID: id, Severity: s, Path: path, What: fmt.Sprintf(format, args...), Why: why, Want: want})
}

// dependencyChecks and kindChecks are all that is looked for; each adds what it finds.
var (
	dependencyChecks = []func(*report, string, *config.Dependency){
		slotsExhausted, requestPathExhausted, breakerNeverOpens,
		budgetWithoutFloor, floorAboveLoad, capBelowSlots, rateBelowLoad, backlogSmall,
		ruleAlwaysTrue, ruleNeverTrue, ruleRepeated, againUnknown,
	}
	kindChecks = []func(*report, string, *config.Kind, *config.Dependency){
		keyWindowShort, retrySpanShort, oneAttemptFits, neverRetried, drainTooSlow,
		notFoundUnknown, givesUpEarly,
	}
)
