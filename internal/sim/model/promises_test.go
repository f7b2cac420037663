package model

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
)

// long asks for the form that make sim runs: more disturbances in one run, more
// sends on record, nothing cut short.
var long = os.Getenv("REDRIVE_SIM") == "long"

// design is one exploration of the design with all its rules.
type design struct {
	class        jobs.Idempotency
	inquiry      bool
	disturbances uint8
	sends        int
	nearest      int // states after which it is cut short, 0 for none
}

// nearest is where an exploration is cut short, 0 for nowhere: sooner under the race
// detector, which has nothing to find in a model of one goroutine and makes it
// ten times slower.
func nearest(states int) int {
	if raceLimit > 0 && (states == 0 || states > raceLimit) {
		return raceLimit
	}
	return states
}

var short = []design{
	{jobs.IdempotencyNone, false, 2, 2, 0},
	{jobs.IdempotencyNone, true, 1, 2, 0},
	{jobs.IdempotencyConditional, false, 1, 2, 0},
	{jobs.IdempotencyConditional, true, 0, 2, 0},
	{jobs.IdempotencyKeyed, false, 1, 2, 0},
	{jobs.IdempotencyKeyed, true, 0, 2, 0},
	{jobs.IdempotencyNatural, false, 1, 2, 0},
	{jobs.IdempotencyNatural, true, 0, 2, 0},
}

var more = []design{
	{jobs.IdempotencyNone, false, 3, 3, 0},
	{jobs.IdempotencyNone, true, 2, 2, 0},
	{jobs.IdempotencyConditional, false, 3, 3, 0},
	{jobs.IdempotencyConditional, true, 1, 3, 0},
	{jobs.IdempotencyKeyed, false, 1, 3, 0},
	{jobs.IdempotencyKeyed, false, 2, 2, 0},
	{jobs.IdempotencyKeyed, true, 0, 3, 0},
	{jobs.IdempotencyKeyed, true, 1, 2, 2_000_000},
	{jobs.IdempotencyNatural, false, 1, 3, 0},
	{jobs.IdempotencyNatural, false, 2, 2, 0},
	{jobs.IdempotencyNatural, true, 0, 3, 0},
	{jobs.IdempotencyNatural, true, 1, 2, 0},
}

func TestTheDesignKeepsItsPromisesInEveryInterleaving(t *testing.T) {
	t.Parallel()
	designs := short
	if long {
		designs = more
	}
	for _, d := range designs {
		t.Run(d.name(), func(t *testing.T) {
			start := time.Now()
			m := Model{Class: d.class, Inquiry: d.inquiry, Disturbances: d.disturbances, Sends: d.sends}
			found := m.Explore(nearest(d.nearest))
			if found.Violation != noViolation {
				t.Fatalf("%s:\n%s", found.Violation, strings.Join(found.Steps, "\n"))
			}
			t.Logf("%d states, %d transitions, cut short: %v, %v", found.States, found.Transitions, found.Cut, time.Since(start).Round(10*time.Millisecond))
		})
	}
}

func (d design) name() string {
	asked := "without inquiry"
	if d.inquiry {
		asked = "with inquiry"
	}
	return fmt.Sprintf("%s %s, %d disturbances, %d sends", d.class, asked, d.disturbances, d.sends)
}

// Two workers that crash, twice each kind: only what processes and network do.
func TestBothWorkersMayCrash(t *testing.T) {
	t.Parallel()
	for _, class := range jobs.Idempotencies {
		m := Model{Class: class, Disturbances: 4, Each: 2, Sends: 2,
			only: []disturbance{crash, stall, secondDelivery, lostBeginReply, delayedBegin, lostFinishReply}}
		stop := 20_000
		if long {
			m.Inquiry, stop = true, 1_500_000
		}
		found := m.Explore(nearest(stop))
		if found.Violation != noViolation {
			t.Fatalf("%s: %s:\n%s", class, found.Violation, strings.Join(found.Steps, "\n"))
		}
		t.Logf("%s: %d states, %d transitions, cut short: %v", class, found.States, found.Transitions, found.Cut)
	}
}
