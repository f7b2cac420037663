package picture

import (
	"math"
	"strings"
	"testing"
)

func TestAPictureIsRedrawnInItsPlace(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	show := InPlace(&b, func(lines int) string { return strings.Repeat("line\n", lines) })
	show(2)
	show(3)
	show(1)
	if want := "line\nline\n" + "\x1b[2A\x1b[J" + "line\nline\nline\n" + "\x1b[3A\x1b[J" + "line\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestABarIsFilledByWhatIsDone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		done, all int64
		want      string
	}{
		{0, 0, "░░░░"}, {0, 10, "░░░░"}, {5, 10, "██░░"}, {9, 10, "███░"}, {10, 10, "████"}, {11, 10, "████"}, {-1, 10, "░░░░"},
		{math.MaxInt64 / 8, math.MaxInt64 / 4, "█░░░"},
	} {
		if got := Brush(false).Bar(4, test.done, test.all); got != test.want {
			t.Errorf("%d of %d: %s, want %s", test.done, test.all, got, test.want)
		}
	}
	if got := Brush(true).Bar(2, 1, 2); got != "\x1b[36m█\x1b[0m░" {
		t.Errorf("coloured: %q", got)
	}
}

func TestColumnsAreThoseOfTheWidestLine(t *testing.T) {
	t.Parallel()
	if got := Columns("ab\nä░█d\nabc"); got != 4 {
		t.Errorf("%d columns, want 4", got)
	}
}
