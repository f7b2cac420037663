package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
)

// maxShown breaches of a promise are printed; of more there is a count.
const maxShown = 5

// run is what was done and what it came to.
type run struct {
	seed      uint64
	span      time.Duration
	rest      time.Duration
	startedAt time.Time
	moments   *moments
	shop      *shop
	requests  int
	starts    int // of workers
	verdict   *verdict
}

// markdown is the report: what docs/torture.md keeps of a long run.
func (r run) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d, %s of faults, everything at rest %s later; %d processors, %s/%s, %s\n\n",
		r.startedAt.UTC().Format(time.RFC3339), r.seed, r.span, r.rest.Round(100*time.Millisecond), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	b.WriteString("| promise | looked at | broken |\n|---|---:|---:|\n")
	for _, p := range r.verdict.promises {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", p.name, p.checked, len(p.broken))
	}
	b.WriteString("\n| figure | |\n|---|---:|\n")
	line := func(name string, v any) { fmt.Fprintf(&b, "| %s | %v |\n", name, v) }
	for _, a := range []action{killWorker, killRedis, stopWorker, freeze, cutLink, slowLink, muteLink, gateFault, cutTail} {
		line(string(a), r.moments.done[a])
	}
	line("workers started", r.starts)
	for _, name := range slices.Sorted(maps.Keys(r.shop.counts)) {
		line(name, r.shop.counts[name])
	}
	line("requests at the gateway", r.requests)
	line("of these by workers, each an attempt in the ledger", r.verdict.onWire)
	line("surplus attempts: the worker died between write-ahead and send", r.verdict.surplus)
	line("took effect inside a tail that was cut off, and counts as not applied", r.verdict.forgotten)
	for _, state := range slices.Sorted(maps.Keys(r.verdict.states)) {
		line("ended "+state, r.verdict.states[state])
	}
	if n := len(r.verdict.recovery); n > 0 {
		line("attempts of killed workers", n)
		for _, p := range []int{50, 99, 100} {
			line(fmt.Sprintf("closed after the kill, p%d", p), percentile(r.verdict.recovery, p).Round(time.Millisecond))
		}
	}
	return b.String()
}

// breaches says what was broken, with both accounts of each order.
func (r run) breaches() string {
	var b strings.Builder
	for _, p := range r.verdict.promises {
		for i, text := range p.broken {
			if i == maxShown {
				fmt.Fprintf(&b, "  … and %d more\n", len(p.broken)-maxShown)
				break
			}
			fmt.Fprintf(&b, "BROKEN %s\n  %s\n", p.name, text)
			id, _, _ := strings.Cut(text, ": ")
			if c := r.verdict.suspects[id]; c != nil {
				b.WriteString(c.account())
			}
		}
	}
	if b.Len() > 0 {
		fmt.Fprintf(&b, "seed %d: make torture SECONDS=%d SEED=%d\n", r.seed, int(r.span.Seconds()), r.seed)
	}
	return b.String()
}

// account is both sides' view of an order.
func (c *caseFile) account() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  order: way %d, deadline %q, accepted %t, settled in the shop %t, effects at the gateway %d\n", c.way, c.deadline, c.accepted, c.settled, c.effects)
	for _, a := range c.arrivals {
		fmt.Fprintf(&b, "  gateway: %s\n", a)
	}
	for _, r := range c.readings {
		fmt.Fprintf(&b, "  gateway: inquiry at %s, status %d, %d items\n", r.at.UTC().Format("15:04:05.000"), r.status, r.items)
	}
	if c.detail == nil {
		b.WriteString("  ledger: nothing\n")
		return b.String()
	}
	text, err := json.Marshal(c.detail.Operation)
	if err != nil {
		text = []byte(err.Error())
	}
	fmt.Fprintf(&b, "  ledger: %s\n", text)
	return b.String()
}
