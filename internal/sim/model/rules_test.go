package model

import (
	"slices"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

// caughtBy is the exploration in which a missing rule shows. Class none unless
// said otherwise.
type caughtBy struct {
	rule      string
	class     jobs.Idempotency
	inquiry   bool
	violation string
	under     []disturbance // what may happen, each once
	overlook  string        // a lesser harm, which would be found first
}

var caught = []caughtBy{
	{rule: "WriteAhead", violation: sentTwice, under: only(crash), overlook: lie},
	{rule: "ClaimByRunID", violation: lie, under: only(secondDelivery), overlook: orphanClaim},
	{rule: "SameRunSameGrant", violation: orphanClaim, under: only(lostBeginReply)},
	{rule: "BeginOnlyReleased", violation: orphanClaim, under: only(delayedBegin)},
	{rule: "BeginSameDelivery", violation: orphanClaim, under: only(delayedBegin)},
	{rule: "AbandonTakesDeliveryBack", violation: orphanClaim, under: only(delayedBegin)},
	{rule: "AbandonClosesClaim", violation: orphanClaim, under: only(lostBeginReply)},
	{rule: "SettleOnEveryEnd", violation: endUnsettled},
	{rule: "LaterRefusalSettlesNothing", class: jobs.IdempotencyKeyed, violation: lie},
	{rule: "MergeNeverDropped", violation: sentTwice, under: only(report), overlook: lie},
	{rule: "MergeResetsNotFound", inquiry: true, violation: lie, under: only(report, lag)},
	{rule: "MergeStartsSettleAnew", inquiry: true, violation: sentTwice, under: only(report), overlook: lie},
	{rule: "SafeLookedAtByBegin", class: jobs.IdempotencyKeyed, violation: outsideKey},
	{rule: "SafeUntil", class: jobs.IdempotencyKeyed, violation: outsideKey},
	{rule: "StoredClassInForce", violation: sentTwice, under: only(reclass)},
	{rule: "ConfiguredClassInForce", class: jobs.IdempotencyKeyed, violation: sentTwice, under: only(reclass)},
	{rule: "SameTarget", class: jobs.IdempotencyKeyed, violation: outsideKey, under: only(move)},
	{rule: "SameKey", class: jobs.IdempotencyKeyed, violation: outsideKey},
	{rule: "NotFoundTwice", inquiry: true, violation: sentTwice, under: only(lag), overlook: lie},
	{rule: "NotFoundSpaced", inquiry: true, violation: sentTwice, under: only(lag), overlook: lie},
	{rule: "NotFoundAfterSettle", inquiry: true, violation: sentTwice, overlook: lie},
	{rule: "NotFoundAttemptsUnchanged", inquiry: true, violation: sentTwice, under: only(report), overlook: lie},
	{rule: "EnteringResetsNotFound", inquiry: true, violation: lie, under: only(stall, lag)},
	{rule: "SettleFromLeaseEnd", inquiry: true, violation: sentTwice, overlook: lie},
	{rule: "ActedNotSettledByNotFound", inquiry: true, violation: sentTwice, overlook: lie},
	{rule: "FailedOnlyOfAllAttempts", inquiry: true, violation: sentTwice, overlook: lie},
	{rule: "AskWhereItWasSent", inquiry: true, violation: sentTwice, under: only(move), overlook: lie},
	{rule: "ResultOncePerRun", inquiry: true, violation: endUnsettled, under: only(lostFinishReply, stall)},
	{rule: "FinishFencedByRun", inquiry: true, violation: sentTwice, under: only(stall), overlook: lie},
	{rule: "LateSuccessKept", class: jobs.IdempotencyKeyed, violation: outsideKey, under: only(stall), overlook: lie},
	{rule: "SuccessNeverOverwritten", violation: overwritten, under: only(report)},
	{rule: "SendBy", inquiry: true, violation: sentTwice, under: only(stall), overlook: lie},
	{rule: "ClockBeforeBegin", inquiry: true, violation: sentTwice, under: only(stall), overlook: lie},
	{rule: "DeadlineAtFirstByte", violation: sentLate},
	{rule: "NoBytesAfterLease", inquiry: true, violation: sentTwice, overlook: lie},
	{rule: "UnknownRefusedToPeople", violation: endUnsettled, under: only(cancel)},
	{rule: "ResolveAfterSettle", violation: sentTwice, under: only(resolve, requeue), overlook: lie},
	{rule: "MarkNeverExpires", violation: sentTwice, under: only(expire), overlook: lie},
}

// elsewhere are the rules whose absence does no harm in the model: why, and which
// test of the ledger notices it.
var elsewhere = map[string]string{
	"MergeTakesDeliveryBack":    "begin looks again whether a resend is safe. `TestMergeByState`",
	"SafeLookedAtBySweep":       "begin looks, too; the sweep spares the wait for it. `TestSweep`",
	"DeadlineAtBegin":           "the first byte is refused after the deadline anyway. `TestBeginEndsWhatCannotBeSent`",
	"NotFoundWrittenOnce":       "the second one must be asked after the first was written, which the same inquiry was not. `TestWithoutARuleATestFails`",
	"OtherAnswerResetsNotFound": "harm needs a gateway that lags twice, and against that two not-founds do not help either. `TestNotFoundSettlesOnlyWhenSeenTwice`",
}

func only(what ...disturbance) []disturbance { return what }

func (c caughtBy) model(without Rules) Model {
	m := Model{Class: c.class, Inquiry: c.inquiry, Disturbances: uint8(len(c.under)), Sends: 2, Without: without, only: c.under, overlook: c.overlook}
	if m.Class == "" {
		m.Class = jobs.IdempotencyNone
	}
	return m
}

func TestEveryRuleIsNeeded(t *testing.T) {
	t.Parallel()
	for _, c := range caught {
		t.Run(c.rule, func(t *testing.T) {
			if raceLimit > 0 && len(c.under) > 1 {
				return // too far away for the race detector
			}
			m := c.model(Without(c.rule))
			found := m.Explore(0)
			if found.Violation != c.violation {
				t.Fatalf("without the rule: found %q in %d states, want %q", found.Violation, found.States, c.violation)
			}
			t.Logf("%s, after %d states:\n%s", found.Violation, found.States, strings.Join(found.Steps, "\n"))
		})
	}
}

// A harm that is there with all rules would prove nothing about one of them. The
// short form leaves out what [TestTheDesignKeepsItsPromisesInEveryInterleaving]
// covers: every single disturbance.
func TestWithAllRulesNothingIsFoundWhereOneIsMissed(t *testing.T) {
	t.Parallel()
	for _, c := range caught {
		if !long && len(c.under) < 2 {
			continue
		}
		c.overlook = noViolation
		m := c.model(Rules{})
		stop := 30_000
		if long {
			stop = 0
		}
		if found := m.Explore(nearest(stop)); found.Violation != noViolation {
			t.Errorf("%s is not what is missing: %s\n%s", c.rule, found.Violation, strings.Join(found.Steps, "\n"))
		}
	}
}

// A rule that nobody lists would be one that nobody tests.
func TestEveryRuleIsListedOnce(t *testing.T) {
	t.Parallel()
	for _, rule := range AllRules() {
		listed := 0
		if _, ok := elsewhere[rule.Name]; ok {
			listed++
		}
		if slices.ContainsFunc(caught, func(c caughtBy) bool { return c.rule == rule.Name }) {
			listed++
		}
		if listed != 1 {
			t.Errorf("rule %s is listed %d times, want once", rule.Name, listed)
		}
		if rule.Text == "" {
			t.Errorf("rule %s does not say what it says", rule.Name)
		}
	}
}

// What is listed as not missed really is not, or its reason is wrong.
func TestRulesListedElsewhereAreNotMissed(t *testing.T) {
	t.Parallel()
	stop := 10_000
	if long {
		stop = 0
	}
	for rule := range elsewhere {
		for _, c := range []caughtBy{
			{class: jobs.IdempotencyNone, inquiry: true, under: only(lag)},
			{class: jobs.IdempotencyKeyed, under: only(report)},
			{class: jobs.IdempotencyNone, inquiry: true, under: only(lostInquiredReply)},
		} {
			m := c.model(Without(rule))
			if found := m.Explore(nearest(stop)); found.Violation != noViolation {
				t.Errorf("%s is missed: %s\n%s", rule, found.Violation, strings.Join(found.Steps, "\n"))
			}
		}
	}
}
