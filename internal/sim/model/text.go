package model

import (
	"fmt"
	"strings"
)

// describe fills in who a step is of: a letter for %c, a number for %d.
func describe(text string, place int, who names) string {
	switch {
	case strings.HasPrefix(text, "worker %c"):
		return fmt.Sprintf(text, 'A'+rune(who.workers[place]))
	case strings.Contains(text, "%c"):
		return fmt.Sprintf(text, 'I'+rune(who.inquiries[place]))
	case strings.Contains(text, "%d"):
		return fmt.Sprintf(text, who.sends[place]+1)
	}
	return text
}

var disturbanceNames = [...]string{crash: "crash", lostBeginReply: "lost begin reply", delayedBegin: "delayed begin", lostFinishReply: "lost finish reply",
	lostInquiredReply: "lost inquired reply", secondDelivery: "second delivery", lostTask: "lost task", lag: "lagging gateway", slowInquiry: "slow inquiry",
	stall: "stall", shutdown: "shutdown", move: "changed target", reclass: "changed class", report: "reported send", cancel: "cancel", requeue: "requeue",
	resolve: "resolve", reconcile: "reconcile", expire: "expiry"}

func (d disturbance) String() string { return disturbanceNames[d] }

// text is the operation as the ledger has it.
func (s *state) text() string {
	t := s.phase.String()
	switch {
	case s.phase == unresolved:
		t += "(intent " + s.intent.String() + ")"
	case s.phase == dead:
		t += [...]string{"", "(settled)", "(unsafe)", "(unresolved)"}[s.reason]
	}
	if s.marked() {
		t += ", unknown"
	}
	if s.notFound > 0 {
		t += fmt.Sprintf(", not found %d", s.notFound)
	}
	if s.failedRecord {
		t += ", the gateway shows a failed one"
	}
	return t
}
