package ledger

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"redrive/internal/luascript"
)

// Each rule of the design that prevents a second charge or a lost operation is taken
// out of the scripts here, one at a time, and a test must notice. The test binary runs
// itself with the rule's name in this variable.
const withoutRule = "REDRIVE_TEST_WITHOUT_RULE"

type rule struct {
	name     string
	in       string // the script; "": every one that has the code
	from, to string // of the code without comments
	caughtBy string // a pattern of tests; all of them run on miniredis
}

var rules = []rule{
	{"begin grants only the delivery that is released", "begin", `if op.f.state ~= 'released' or op.f.delivery ~= A.delivery then`, `if op.f.state ~= 'released' then`, "TestBegin$|TestWalk"},
	{"begin grants again only to the run that holds the claim", "begin", `if claim.held_by(op, A.run) then`, `if op.f.state == 'attempting' then`, "TestBegin$|TestWalk"},
	{"begin looks whether a resend is safe now", "begin", `elseif not settle.safe(op, class, target, now) then`, `elseif false then`, "TestBeginResendsUnknownOnlyWhenSafe|TestWalk"},
	{"begin looks at the deadline and the attempts", "begin", `local doomed = settle.doomed(op, arg('max_attempts'), now)`, `local doomed`, "TestBeginEndsWhatCannotBeSent|TestT56"},
	{"begin spends a token", "begin", `and not gate.spend(g) then`, `and false then`, "TestBeginIsHeldByTheGate|TestWalk"},
	{"a begin after an abandon is stale", "abandon", `record.move(op, 'waiting', now, now + wait)`, `record.set(op, 'orphan', nil)`, "TestAbandon$|TestWalk"},
	{"an abandoned attempt is closed as not sent", "abandon", `settle.close_attempt(op, num(op.f.attempt), 0, 'n,,0,', 0)`, ``, "TestAbandon$"},
	{"what is unknown leaves for no end", "", "now, at)\n  if not settle.marked(op) then", "now, at)\n  if true then", "TestFinishMovesByStep|TestWalk"},
	{"the sweep looks at the end of the key's window", "sweep", `elseif settle.stuck(op, now) then`, `elseif false then`, "TestSweep$|TestT02"},
	{"a keyed resend is safe inside the window only", "", `return class == 'keyed' and at < num(op.f.safe)`, `return class == 'keyed'`, "TestBeginResends|TestT02|TestWalk"},
	{"the key's window never starts anew", "", `{'unk', 'target', 'acted', 'intent', 'uend'}) do`, `{'unk', 'target', 'acted', 'intent', 'uend', 'first', 'safe'}) do`, "TestTheKeysWindow"},
	{"a refused send that was reported starts the key's window", "submit", `or (att.outcome ~= 'not_sent' and att.keyed)`, ``, "TestTheKeysWindow"},
	{"a resend goes to the target of every unknown attempt", "", `if op.f.target ~= digest then return false end`, ``, "TestBeginResends|TestWalk"},
	{"the class in force is the weaker one", "", `if (RANK[a] or 0) <= (RANK[b] or 0) then return a end`, ``, "TestBeginResends|TestWalk"},
	{"a reported send is merged, never dropped", "submit", `merge(op, e, merged_target(op, e), name)`, ``, "TestMerge$|TestMergeByState"},
	{"a conflicting report of an unknown send is merged", "submit", `elseif att.outcome == 'unknown' then`, `elseif false then`, "TestMerge"},
	{"a merged unknown send makes a delivery stale", "submit", `if unsafe then`, `if false then`, "TestMergeByState|TestWalk"},
	{"the same report is merged once", "submit", `if identity.seen(op.f.reports, name, op.f.unk) then return true end`, ``, "TestMerge$"},
	{"an anonymous report is another send once the one it looks like is settled", "submit", `if string.find(',' .. (unk or '') .. ',', ',' .. n .. ',', 1, true) then return true end`, `if true then return true end`, "TestASecondSend"},
	{"what an answer forbids no later step does", "submit", `if speaks(e.att) then return settle.apart`, `if false then return settle.apart`, "TestTheStrictestWord"},
	{"an end that is reported during an attempt is kept", "submit", `if ends and not op.f.ends then record.set(op, 'ends', ends) end`, ``, "TestTheStrictestWord"},
	{"an end that is reported while asked about is the intent", "", `and (op.f.intent or 'waiting') == 'waiting' then record.set`, `and false then record.set`, "TestTheStrictestWord"},
	{"a worker's own unknown attempt keeps its mark", "submit", `if by == 'p' and went == target then`, `if went == target then`, "TestReportsWithoutEnd"},
	{"the marks of many reports keep every target", "submit", `if by == 'p' and went == target then`, `if by == 'p' then`, "TestReportsWithoutEnd"},
	{"what was not sent ends nothing that others wait for", "submit", `if att.outcome == 'not_sent' then return nil end`, ``, "TestAReportOfAnother"},
	{"who changes an operation by a report is told", "submit", `if A.by and way(op) ~= before then record.audit`, `if false then record.audit`, "TestAReportOfAnother"},
	{"what is merged while asked about voids the inquiry", "submit", "    ask.renew(op, now)\n  elseif", "  elseif", "TestNotFoundSettlesOnlyWhenSeenTwice|TestWalk"},
	{"not found must be seen twice", "inquired", `if not op.f.nf then`, `if false then`, "TestNotFound|TestWalk"},
	{"the second not found is asked a settle time later", "inquired", `elseif asked >= num(op.f.nf) + apart then`, `elseif asked >= num(op.f.nf) then`, "TestNotFound|TestWalk"},
	{"any other answer starts the count anew", "inquired", `if said ~= 'not_found' then record.set(op, 'nf', nil) end`, ``, "TestNotFound"},
	{"not found proves nothing before the settle time is over", "inquired", `and not early then`, `then`, "TestNotFound|TestWalk|TestAnUnknown|TestReconcile"},
	{"failed proves nothing before the settle time is over", "inquired", `if said == 'failed' and early then said = 'pending' end`, ``, "TestFailedProves|TestWalk"},
	{"what the other side took is not settled by the failure of another attempt", "inquired", `if said == 'failed' and op.f.acted and num(op.f.sends) > 1 then said = 'pending' end`, ``, "TestFailedProves"},
	{"a grant is repeated only while it is safe", "begin", `if settle.safe(op, class, target, now) then return granted`, `if true then return granted`, "TestBegin$|TestWalk"},
	{"an inquiry elsewhere proves nothing", "", `if target and string.sub(target, -6) ~= place then return true end`, ``, "TestNotFound|TestWalk"},
	{"not applied is believed only when no send can act any more", "resolve", `if A.verdict == 'not_applied' and now < ask.settled_at(op) then`, `if false then`, "TestNotAppliedIsBelieved"},
	{"the settle time counts from the lease's end", "finish", `local over = math.max(now, num(op.f.lease))`, `local over = now`, "TestAnUnknownOutcomeIsAskedAbout|TestWalk"},
	{"what the other side took is never settled by not found", "inquired", `if said == 'not_found' and op.f.acted then said = 'pending' end`, ``, "TestNotFound|TestWalk"},
	{"an answer counts once, and for the attempts it asked about", "inquired", `if op.f.state ~= 'unresolved' or op.f.irun ~= A.run then`, `if op.f.state ~= 'unresolved' then`, "TestNotFound|TestWalk"},
	{"a result counts once for its run", "finish", `if not own and not (recorded == 'u' and lost_before) then`, `if false then`, "TestFinish$|TestWalk"},
	{"recover is fenced by run and lease", "finish", `if A.lost and (not own or num(op.f.lease) > now) then`, `if false then`, "TestT04|TestT05|TestRecover|TestWalk"},
	{"what is lost is unknown", "finish", `settle.mark(op, n, target, over)`, ``, "TestFinish|TestRecover|TestWalk"},
	{"a late success while attempting is kept", "finish", `record.set(op, 'known_ok', '1')`, ``, "TestLateSuccess|TestWalk"},
	{"an answer speaks for its own attempt alone", "", `if num(n) < from or num(n) > upto then`, `if false then`, "TestLateRefusal|TestWalk"},
	{"a record with an unknown outcome never expires", "", `if span == 0 or op.f.unk then return '+inf' end`, `if span == 0 then return '+inf' end`, "TestRetention|TestCancel|TestResolve|TestWalk"},
	{"a dead letter with an unknown outcome never expires", "retention", `elseif not settle.marked(op) then`, `elseif true then`, "TestRetention|TestWalk"},
	{"requeue refuses what is unsafe", "requeue", `if not settle.safe(op, class, target, at) then`, `if false then`, "TestRequeue|TestWalk"},
	{"discard refuses what is unknown", "cancel", `elseif from == 'dead' and settle.marked(op) then`, `elseif false then`, "TestCancel|TestWalk"},
	{"inquire hands an inquiry to one process", "inquire", `ask.handed(op, A.run, now, arg('lease'))`, `ask.handed(op, A.run, now, 0)`, "TestAnUnknownOutcomeIsAskedAbout"},
	{"a rollback is noticed", "", `if arg('seen') <= rollback.seq() then return end`, `if true then return end`, "TestARollback"},
	{"after a rollback only what is surely safe is sent", "", `return class == 'keyed' and num(op.f.window) > 0 and now < settle.window_end(op, num(op.f.created))`, `return true`, "TestARollback"},
	{"begin grants only in the generation of the release", "begin", `if not why and generation ~= '' and num(generation) ~= g.generation then why, wait = 'breaker', 1000 end`, ``, "TestTheBreakerOpens"},
	{"a probe needs a permit", "release", `if probing then return gate.probe(g, id, now + arg('release_lease')) and 'probe' or nil end`, `if probing then return 'probe' end`, "TestT72|TestProbes"},
	{"probes go to what was sent least", "release", `if from == 'retry' and (probing or not gate.healthy(g)) then least_sent(heads) end`, ``, "TestProbes"},
	{"there are no more permits than probes", "", `return math.max(g.p.probes - g.probes_ok - #g.probes, 0)`, `return 100`, "TestT72|TestProbes"},
	{"a lost probe frees its place", "", `if ends > now and ends <= now + 3600000 then`, `if true then`, "TestT71"},
	{"results of an older generation are ignored", "", `if sign == 'nothing' or generation ~= g.generation then return end`, `if sign == 'nothing' then return end`, "TestTheBreakerOpens"},
	{"open, nothing leaves", "", `if g.state == 'open' then return 'breaker', g.untl - g.now end`, ``, "TestTheBreakerOpens"},
	{"declines are no failures", "", `local failed = (sign == 'failed' or sign == 'slow' or sign == 'throttled') and 1 or 0`, `local failed = sign ~= 'ok' and 1 or 0`, "TestT74|TestT71"},
	{"closing, it starts low", "", `g.tokens, g.rest, g.filled = math.min(g.tokens, g.p.floor, limit(g)), 0, g.now`, ``, "TestProbes"},
	{"a gate that is gone starts low", "", `g.tokens, g.rest, g.filled = math.min(most, g.p.floor), 0, g.now`, `g.tokens, g.rest, g.filled = most, 0, g.now`, "TestALostOrGarbled"},
	{"what came due while held is backlog", "", `function gate.deferred(g, due) return not plain(g) or due < g.fresh end`, `function gate.deferred(g, due) return false end`, "TestBacklog"},
	{"what came due while nobody worked is backlog", "", `if gap(g) then g.fresh = now end`, ``, "TestBacklog"},
	{"deferred first attempts fill nothing", "begin", `if grant == 'first' then gate.first(g, 1) end`, `if op.f.sends == nil then gate.first(g, 1) end`, "TestBacklog"},
	{"the rate bounds what leaves", "release", `gate.take_rate(g, first + retries)`, ``, "TestRate|TestT39"},
	{"first attempts of the request path count once", "first_attempts", `local taken = num(redis.call('HGET', seqs, A.process)) < arg('seq')`, `local taken = true`, "TestFirstAttempts"},
	{"three that ask to wait park the dependency", "", `if g.hints >= 3 then`, `if false then`, "TestADependencyThatAsks"},
	{"an override ends", "", `if (whole(untl) or 0) <= now then return end`, `if not untl then return end`, "TestAnOverride"},
	{"a refused credential costs no operation", "finish", `if A.denied and step == 'end' and reason == 'misconfigured' and held.paused(g, op.f.cred or 'default') then`, `if false then`, "TestARefusedCredential"},
	{"what stands aside hides nothing", "release", `elseif g.aside and op.f.cred and redis.call('HEXISTS', P .. 'credentials', op.f.cred) == 1 then`, `elseif false then`, "TestARefusedCredential"},
	{"a clock that stepped back a little stands still", "", `if last > instant and last - instant < 60000 then instant = last end`, ``, "TestASmallStepBack"},
	{"a new attempt needs an original that did not succeed", "submit", `if state == 'succeeded' then return op.id`, `if false then return op.id`, "TestNewAttemptNeeds"},
	{"a new attempt needs an original whose outcome is known", "submit", `if state == 'unresolved' or op.f.unk then`, `if false then`, "TestNewAttemptNeeds"},
	{"a new attempt needs an original that is not on its way", "submit", `if state ~= 'dead' and state ~= 'cancelled' then`, `if false then`, "TestNewAttemptNeeds"},
	{"a new attempt needs an original that is no conflict", "submit", `if op.f.reason == 'conflict' then`, `if false then`, "TestNewAttemptNeeds"},
	{"a new attempt looks at every member of its chain", "submit", "for _, m in ipairs(list) do\n    local why = chain.effect(m)", "for _, m in ipairs({op}) do\n    local why = chain.effect(m)", "TestNewAttemptLooks"},
	{"a member knows what followed it", "submit", `record.set(last, 'tried', op.id)`, ``, "TestNewAttemptLooks"},
	{"a tombstone knows what followed it", "retention", `tried = 1,`, ``, "TestNewAttemptLooks"},
	{"what followed and is forgotten bars", "submit", `if gone then return`, `if false then return`, "TestNewAttemptLooks"},
	{"a key whose answer is final is not sent again", "submit", `if not m.f.tombstone and under(m.id, m.f.ikey) == under(e.id, e.ikey) then`, `if false then`, "TestNewAttemptLooks"},
	{"new attempts are bounded", "submit", `if #times < limit then return nil end`, `if true then return nil end`, "TestNewAttemptIsCounted"},
	{"new attempts are counted in the submission's step", "submit", `redis.call('ZADD', name, int(now), op.id)`, ``, "TestNewAttemptIsCounted"},
	{"the first operation of a chain is counted too", "submit", `if #list == 1 then redis.call('ZADD', name, int(submitted(last)), last.id) end`, ``, "TestNewAttemptIsCounted"},
	{"never again bars the whole chain", "submit", `if m.f.again == 'never' and after_never ~= 'allow' then`, `if m.f.again == '-' then`, "TestNeverAgain"},
	{"never again is kept", "finish", `if A.again then record.set(op, 'again', A.again) end`, ``, "TestNeverAgain"},
	{"what was tried again is not requeued", "requeue", `if op.f.tried then return`, `if false then return`, "TestOnlyTheLast"},
	{"nothing is requeued behind what may have taken effect", "requeue", `local why = m.id ~= op.id and chain.effect(m)`, `local why = nil`, "TestOnlyTheLast"},
	{"a success of what was tried again is a conflict", "", `if state == 'succeeded' and op.f.tried then record.flag(op, 'conflict') end`, ``, "TestNewAttemptLooks"},
	{"what was sent against the rules is never sent again", "submit", `settle.leave(op, 'dead', 'permanent', now)`, `settle.leave(op, 'waiting', nil, now)`, "TestAnAttemptThatWasSent"},
	{"what was sent against the rules has no safe resend", "submit", `local apart = barred and 'barred' or old and 'old'`, `local apart = old and 'old'`, "TestAnAttemptThatWasSent"},
}

// scripts lets a rule be taken out.
func scriptVariables() []**luascript.Script {
	return []**luascript.Script{&submitScript, &releaseScript, &beginScript, &abandonScript, &finishScript, &recoverScript, &sweepScript,
		&retentionScript, &cancelScript, &requeueScript, &resolveScript, &stopScript, &pauseScript, &inquireScript, &inquiredScript, &reconcileScript, &voidedScript,
		&firstsScript, &spendScript, &overrideScript}
}

// takeOut removes the rule of that name from the scripts of this process.
func takeOut(name string) error {
	for _, r := range rules {
		if r.name != name {
			continue
		}
		found := false
		for _, s := range scriptVariables() {
			if r.in != "" && (*s).Name() != r.in {
				continue
			}
			edited, changed := (*s).Edited(r.from, r.to)
			if changed {
				*s, found = edited, true
			}
		}
		if !found {
			return fmt.Errorf("rule %q: no script has the code %q", r.name, r.from)
		}
		return nil
	}
	return fmt.Errorf("no rule %q", name)
}

func TestWithoutARuleATestFails(t *testing.T) {
	if os.Getenv(withoutRule) != "" {
		return
	}
	t.Parallel()
	atOnce := make(chan struct{}, 2)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			for pattern := range strings.SplitSeq(r.caughtBy, "|") {
				out, failed := runWithout(t, r.name, pattern)
				if strings.Contains(out, "no script has the code") || strings.Contains(out, "Error compiling script") || strings.Contains(out, "parse error") {
					t.Fatal(out)
				}
				if failed {
					return
				}
			}
			t.Errorf("without it, %s still pass", r.caughtBy)
		})
	}
}

// runWithout runs tests of this binary with a rule taken out, and reports whether any failed.
func runWithout(t *testing.T, rule, pattern string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if !strings.Contains(pattern, "TestWalk") && !strings.Contains(pattern, "TestASmall") {
		pattern += "/miniredis"
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", pattern, "-test.failfast", "-rapid.checks=150", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	cmd.Env = append(os.Environ(), withoutRule+"="+rule)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s did not end: %s", pattern, out)
	}
	if strings.Contains(string(out), "no tests to run") {
		t.Fatalf("%s: no such test", pattern)
	}
	return string(out), err != nil
}
