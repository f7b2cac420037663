package torture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTorture is the run. Its seed is printed, and repeats script and orders.
func TestTorture(t *testing.T) {
	span := time.Duration(*seconds) * time.Second
	script := drawScript(*seed, span, *tailCuts)
	t.Logf("seed %d, %d steps in %s", *seed, len(script), span)
	r := newRig(t, *seed)
	out := run{seed: *seed, span: span, startedAt: time.Now(), moments: &r.moments, shop: r.shop}
	r.play(script, span, *perSecond)
	var err error
	if out.rest, err = r.rest(); err != nil {
		t.Error(err) // the judge says which, and why
	}
	e := r.gather()
	e.recoverWithin = timeout + 6*time.Second
	if span < time.Minute {
		e.recoverWithin += 10 * time.Second // few kills, on a machine that runs all other tests besides
	}
	out.verdict, out.requests = judge(e), r.door.requests
	for _, s := range r.slots {
		out.starts += s.starts
	}
	r.stopWorkers()
	t.Logf("\n%s", out.markdown())
	if *reportFile != "" {
		if err := os.WriteFile(*reportFile, []byte(out.markdown()), 0o644); err != nil {
			t.Error(err)
		}
	}
	for _, text := range r.shop.breaches {
		t.Errorf("%s (seed %d)", text, *seed)
	}
	if out.verdict.broken() > 0 {
		t.Errorf("%d breaches\n%s", out.verdict.broken(), out.breaches())
	}
	if n := r.shop.counts["orders"]; n < int(span.Seconds())**perSecond/4 {
		t.Errorf("%d orders were handed over in %s: too few to say anything", n, span)
	}
}

// stopWorkers ends them in order, and looks for panics in what they said.
func (r *rig) stopWorkers() {
	for _, s := range r.slots {
		if wrong := s.stop(); wrong != "" {
			r.t.Error(wrong)
		}
		text, err := os.ReadFile(s.log.Name())
		if err != nil {
			r.t.Error(err)
		}
		if at := strings.Index(string(text), "panic"); at >= 0 {
			r.t.Errorf("%s panicked (%s):\n%.3000s", s.name, filepath.Base(s.log.Name()), text[at:])
		}
	}
}
