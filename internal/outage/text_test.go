package outage

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"redrive/internal/picture"
)

var update = flag.Bool("update", false, "write what is wanted anew, and play every rehearsal for the manual")

// golden compares with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-update writes it anew):\n%s", path, got)
	}
}

func TestTextIsAsAPersonReadsIt(t *testing.T) {
	t.Parallel()
	var plain, coloured bytes.Buffer
	if err := fixture(3).WriteText(&plain, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "text.golden", plain.Bytes())
	if err := fixture(3).WriteText(&coloured, true); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(coloured.String(), "\x1b[31mMISSED \x1b[0m") {
		t.Errorf("colours only where they are wanted:\n%q", coloured.String())
	}
}

func TestMarkdownIsAsTheManualShowsIt(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	err := fixture(3).WriteMarkdown(&b, func(name string) string {
		if name == "calls" {
			return "img/rehearsal-slow-calls.svg"
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "markdown.golden", b.Bytes())
	if strings.Contains(b.String(), "<script") {
		t.Error("words of the report stand as HTML in the manual")
	}
	if n := strings.Count(b.String(), "!["); n != 1 {
		t.Errorf("%d figures, want the one that has a place", n)
	}
}

func TestAReportSurvivesJSON(t *testing.T) {
	t.Parallel()
	r := fixture(3)
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*r, back) {
		t.Error("what was read back differs from what was written")
	}
}

func TestOneMissedTargetIsAMissedRehearsal(t *testing.T) {
	t.Parallel()
	r := fixture(3)
	if r.Reached() {
		t.Error("a target was missed, and the report says reached")
	}
	r.Targets = r.Targets[:2]
	if !r.Reached() {
		t.Error("every target was reached, and the report says missed")
	}
}

func TestEveryNumberOfAnAccountStandsInTheTable(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, m := range measures {
		shown[m.key] = true
	}
	for key := range numbers(t, Account{}) {
		if !shown[key] {
			t.Errorf("%s stands nowhere in the table of clients", key)
		}
	}
}

func TestSpansAndNumbersAreSaidAsPeopleDo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0 ms", 991_300 * time.Microsecond: "991 ms", time.Second: "1 s", 3980 * time.Millisecond: "3.98 s",
		2 * time.Minute: "2 min", 387 * time.Second: "6 min 27 s", 59_999 * time.Millisecond: "1 min", 999_900 * time.Microsecond: "1 s"} {
		if got := spanText(d); got != want {
			t.Errorf("%d ns is %q, want %q", d, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.5: "1,234,567.5", -12345: "-12,345", 0.30000000000000004: "0.3"} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

// busy is a picture with the longest words and numbers that can stand in it.
func busy() Progress {
	return Progress{At: 9*time.Minute + 59*time.Second, Took: 61 * time.Minute, Part: "recovered", Tokens: 1000, Breaker: "half_open", Backlog: 123456,
		Calls: map[Client]int{Naive: 1234567, Stacked: 12345678, Redrive: 123456}}
}

func TestThePictureFitsTheTerminalItAsksFor(t *testing.T) {
	t.Parallel()
	text := drawProgress(busy(), false)
	if n := picture.Columns(text); n > picture.Width {
		t.Errorf("%d columns, a terminal of %d would wrap it:\n%s", n, picture.Width, text)
	}
}

func TestThePictureIsRedrawnInItsPlace(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	show := Table(&b, false)
	show(busy())
	first := b.String()
	show(busy())
	lines := strings.Count(first, "\n")
	if rest := strings.TrimPrefix(b.String(), first); lines < 3 || strings.Contains(first, "\x1b") || rest != fmt.Sprintf("\x1b[%dA\x1b[J", lines)+first {
		t.Errorf("first %q, then %q", first, rest)
	}
}

func TestWithoutATerminalThereIsALineForEachPartAndQuarterOfAMinute(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	show := Lines(&b)
	p := busy()
	for _, s := range []int{0, 1, 14, 16, 20, 31, 45} {
		p.At, p.Part = time.Duration(s)*time.Second, "normal"
		if s >= 20 {
			p.Part = "outage"
		}
		show(p)
	}
	p.At, p.Part = p.Took+time.Second, "drain" // which takes as long as it takes
	show(p)
	var at []string
	for line := range strings.Lines(b.String()) {
		at = append(at, strings.Fields(line)[0])
	}
	if got := strings.Join(at, " "); got != "0:00 0:16 0:20 0:45 61:01" || !strings.Contains(b.String(), "naive 1234567  stacked 12345678  redrive 123456  tokens 1000  breaker half open  backlog 123456\n") {
		t.Errorf("lines at %s:\n%s", got, b.String())
	}
}
