package rehearsal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/picture"
	"redrive/internal/sandbox"
)

// full is a picture with the longest texts and numbers that can stand in it.
func full() Progress {
	states := map[jobs.State]int64{}
	for _, s := range shown {
		states[s] = MaxOperations
	}
	return Progress{Elapsed: 55 * time.Second, Store: "miniredis, in memory", Total: MaxOperations, Handed: MaxOperations, States: states,
		Fault: sandbox.LostReplies, FaultLeft: 5 * time.Second, Requests: 10 * MaxOperations, Effects: MaxOperations, Tokens: 666}
}

func TestThePictureFitsTheTerminalItAsksFor(t *testing.T) {
	t.Parallel()
	text := drawTable(full(), false)
	if n := picture.Columns(text); n > picture.Width {
		t.Errorf("%d columns, a terminal of %d would wrap it:\n%s", n, picture.Width, text)
	}
}

func TestThePictureIsRedrawnInItsPlace(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	show := Table(&b, false)
	show(full())
	first := b.String()
	show(full())
	lines := strings.Count(first, "\n")
	if rest := strings.TrimPrefix(b.String(), first); lines < 3 || strings.Contains(first, "\x1b") || rest != fmt.Sprintf("\x1b[%dA\x1b[J", lines)+first {
		t.Errorf("first %q, then %q", first, rest)
	}
}

func TestWithoutATerminalThereIsALineASecond(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	show := Lines(&b)
	p := full()
	p.States = map[jobs.State]int64{jobs.Waiting: 7}
	for _, at := range []time.Duration{0, 200 * time.Millisecond, 900 * time.Millisecond, 1100 * time.Millisecond, 1300 * time.Millisecond} {
		p.Elapsed = at
		show(p)
	}
	p.Elapsed, p.States, p.Fault = 1500*time.Millisecond, map[jobs.State]int64{jobs.Succeeded: MaxOperations}, sandbox.None
	show(p) // the last one is never left out
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 4 || lines[0] != "store: miniredis, in memory" || !strings.Contains(lines[1], "lost replies for 5 s") ||
		!strings.Contains(lines[2], "waiting 7") || !strings.Contains(lines[3], "healthy") || !strings.Contains(lines[3], "succeeded 10000") {
		t.Errorf("lines:\n%s", b.String())
	}
}
