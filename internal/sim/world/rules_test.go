package world

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"redrive/internal/luascript"
)

// rule is a protection of the scripts that can be taken out, to see that a world
// then finds harm.
type rule struct {
	name     string
	in       string // the script; "": every one that has the code
	from, to string // of the code without comments
	seed     uint64 // of a world that finds it missing
	quick    bool   // the short form takes it out, too

	mu    sync.Mutex // guards found, made
	found bool
	made  map[string]*luascript.Script
}

// outOf returns the script without the rule; the script itself for a nil rule.
func (r *rule) outOf(s *luascript.Script) *luascript.Script {
	if r == nil || r.in != "" && r.in != s.Name() {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.made = map[string]*luascript.Script{}
	}
	if r.made[s.Name()] == nil {
		edited, changed := s.Edited(r.from, r.to)
		r.found = r.found || changed
		r.made[s.Name()] = edited
	}
	return r.made[s.Name()]
}

var rules = []*rule{
	{name: "begin grants only what is released", in: "begin", from: `if op.f.state ~= 'released' or op.f.delivery ~= A.delivery then`, to: `if op.f.delivery ~= A.delivery then`},
	{name: "begin grants again only to the run that holds the claim", in: "begin", from: `if claim.held_by(op, A.run) then`, to: `if op.f.state == 'attempting' then`},
	{name: "begin looks whether a resend is safe now", in: "begin", from: `elseif not settle.safe(op, class, target, now) then`, to: `elseif false then`, seed: 181, quick: true},
	{name: "a begin after an abandon is stale", in: "abandon", from: `record.move(op, 'waiting', now, now + wait)`, to: `record.set(op, 'orphan', nil)`},
	{name: "a resend goes to the target of every unknown attempt", from: `if op.f.target ~= digest then return false end`, to: ``, seed: 181, quick: true},
	{name: "what is unknown leaves for no end", from: "now, at)\n  if not settle.marked(op) then", to: "now, at)\n  if true then", seed: 1, quick: true},
	{name: "a keyed resend is safe inside the window only", from: `return class == 'keyed' and at < num(op.f.safe)`, to: `return class == 'keyed'`},
	{name: "a reported send is merged, never dropped", in: "submit", from: `merge(op, e, merged_target(op, e), name)`, to: ``, seed: 2, quick: true},
	{name: "not found must be seen twice", in: "inquired", from: `if not op.f.nf then`, to: `if false then`, seed: 7, quick: true},
	{name: "what is lost is unknown", in: "finish", from: `settle.mark(op, n, target, over)`, to: ``, seed: 1, quick: true},
	{name: "an answer speaks for its own attempt alone", from: `if num(n) < from or num(n) > upto then`, to: `if false then`},
	{name: "a record with an unknown outcome never expires", from: `if span == 0 or op.f.unk then return '+inf' end`, to: `if span == 0 then return '+inf' end`, seed: 44, quick: true},

	// Those of the gate.
	{name: "begin grants in the generation of its release", in: "begin", from: `if not why and generation ~= '' and num(generation) ~= g.generation then why, wait = 'breaker', 1000 end`, to: ``, seed: 105, quick: true},
	{name: "a retry takes a token", from: `g.tokens = g.tokens - CALL`, to: ``, seed: 6, quick: true},
	{name: "a bucket starts low", from: `g.tokens, g.rest, g.filled = math.min(most, g.p.floor), 0, g.now`, to: `g.tokens, g.rest, g.filled = 1000 * most, 0, g.now`, seed: 4, quick: true},
	{name: "no more probes than permits", from: `return math.max(g.p.probes - g.probes_ok - #g.probes, 0)`, to: `return 9`, seed: 34, quick: true},
	{name: "no fill while the breaker is open", from: `closed and math.max(g.now - g.filled, 0) or 0`, to: `math.max(g.now - g.filled, 0)`, seed: 447},
	{name: "the breaker stays open for its time", from: `if g.state == 'open' and now >= g.untl then`, to: `if g.state == 'open' then`, seed: 447},
	{name: "nothing leaves while paused", from: `if held(g) then return g.hold, g.hold_until == 0 and 1000 or g.hold_until - g.now end`, to: ``, seed: 11, quick: true},
	{name: "a flush counts once", in: "first_attempts", from: `local taken = num(redis.call('HGET', seqs, A.process)) < arg('seq')`, to: `local taken = true`, seed: 45, quick: true},
	{name: "the rate counts what leaves", from: `if g.p.per_second > 0 then g.rate_tokens = math.max(g.rate_tokens - n * CALL, -math.max(g.p.per_second, CALL)) end`, to: ``, seed: 6, quick: true},
	{name: "spare parameters hold beyond the first flush", from: `if not A.gate and not string.find(said, PARAMS) then said = A.gate_spare or '' end`, to: ``, seed: 17, quick: true},
	{name: "a lost gate strands nobody aside", from: `g.news[1], g.aside, g.repaired = 'repaired', true, true`, to: `g.news[1], g.repaired = 'repaired', true`, seed: 447},
}

// The long form alone takes all of them out, and found one only by hand whose code had
// been written anew.
func TestEveryRuleHasItsCode(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, pattern := range []string{"../../ledger/lua/*.lua", "../../budget/lua/*.lua"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	for _, r := range rules {
		if !strings.Contains(all.String(), r.from) {
			t.Errorf("%s: no script has its code", r.name)
		}
	}
}

// searched is how many worlds may pass until one finds a rule missing.
const searched = 100

// TestWithoutARuleAWorldFindsHarm takes rules out of the scripts, one at a time. The
// short form begins at a world that is known to find it, and does only those that are
// found soon; the long form looks for the first one.
func TestWithoutARuleAWorldFindsHarm(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		from, n := r.seed, searched
		if long {
			from, n = 1, 2000
		} else if !r.quick {
			continue
		}
		var mu sync.Mutex // guards caught, why
		caught, why := uint64(0), ""
		each(t, n, r, func(c *setup, s *store, i int) bool {
			w := played(c, s, from+uint64(i))
			if len(w.harm) == 0 {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			if caught == 0 || from+uint64(i) < caught {
				caught, why = from+uint64(i), w.harm[0]
			}
			return true
		})
		switch {
		case !r.found:
			t.Errorf("%s: no script has its code", r.name)
		case caught == 0:
			t.Errorf("%s: none of %d worlds finds it missing", r.name, n)
		default:
			t.Logf("%s: world %d: %s", r.name, caught, why)
		}
	}
}
