package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
	"redrive/internal/wire"
)

// lineOf is a charge as one line of a file.
func lineOf(key string, amount int) string {
	return fmt.Sprintf(`{"kind":"charge","key":%q,"body":{"amount":%d,"currency":"GBP"}}`, key, amount)
}

func TestImportTakesGoodLinesAndTellsOfBadOnes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		rejects := filepath.Join(t.TempDir(), "rejects.jsonl")
		bad := map[int]string{
			4:  `{"kind":"charge","key":"bad1","body":{"amount":1},"dedline":"2h"}`,
			6:  `{"kind":"charge","key":"bad2","body":`,
			7:  `{"kind":"nothing","key":"bad3","body":{}}`,
			8:  lineOf("o1", 4201),
			9:  `  {"kind":"charge","key":"bad4","body":{},"deadline":"-2h"}  `,
			11: `{"kind":"charge","key":"bad5","body":{},"deadline":"` + time.Now().Add(-time.Minute).UTC().Format(time.RFC3339) + `"}`,
		}
		lines := []string{"# our failed charges", lineOf("o1", 4200), "", bad[4], lineOf("o1", 4200), bad[6], bad[7], bad[8], bad[9], "   # more", bad[11], lineOf("o2", 1)}
		got := b.mustWith(exitPartly, strings.Join(lines, "\n"), "import", "-", "--rejects", rejects)
		says(t, got.stdout, "accepted   2", "duplicate  1", "conflict   1", "refused    5")
		says(t, got.stderr, `line 4, column 51: unknown field "dedline"`, "line 6, column 38: not valid JSON", `line 7, column 9: kind: unknown kind "nothing"`,
			"line 8, conflict: charge/o1 is known with another body", "line 9, column 54: deadline: a span of -2h0m0s lies in the past",
			"line 11, refused: deadline:", "6 lines went to "+rejects)
		hides(t, strings.ReplaceAll(got.stderr, rejects, ""), "4200", "4201") // the folder has random digits
		written, err := os.ReadFile(rejects)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range bad {
			if !strings.Contains(string(written), "\n"+line+"\n") && !strings.HasPrefix(string(written), line) && !strings.HasSuffix(string(written), "\n"+line) {
				t.Errorf("line %d is not unchanged in the rejects:\n%s", n, written)
			}
			says(t, string(written), fmt.Sprintf("# line %d: ", n))
		}
		if info, err := os.Stat(rejects); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("rejects hold payload, but their mode is %v %v", info.Mode(), err)
		}

		// Mended and imported again, with the comments still in it.
		mended := string(written)
		for _, r := range [][2]string{{"dedline", "deadline"}, {bad[6], lineOf("bad2", 2)}, {"nothing", "charge"}, {lineOf("o1", 4201), lineOf("o1", 4200)}, {"-2h", "2h"}, {bad[11], lineOf("bad5", 5)}} {
			mended = strings.ReplaceAll(mended, r[0], r[1])
		}
		sum := into[summary](t, b.mustWith(exitOK, mended, "import", "-", "-o", "json"))
		if sum.Lines != 6 || sum.Accepted != 5 || sum.Duplicate != 1 {
			t.Errorf("mended: %+v\n%s", sum, mended)
		}
	})
}

// A line of a client's spool that is imported too late was refused, where the client's own
// delivery kept it.
func TestImportRefusedWhatHadLainInASpoolForTooLong(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339Nano) }
		line := strings.TrimSuffix(lineOf("o1", 4200), "}") + fmt.Sprintf(`,"created_at":%q,"deadline":%q,"attempted":{"id":"req-1","outcome":"not_sent","counted":true}}`, at(time.Hour), at(time.Minute))
		b.mustWith(exitOK, line, "import", "-")
		says(t, b.mustWith(exitOK, "", "show", "charge/o1").stdout, "dead", "deadline")
	})
}

func TestImportingAgainIsAllDuplicates(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		var lines strings.Builder
		for i := range 1000 {
			fmt.Fprintln(&lines, lineOf(fmt.Sprintf("o%d", i), i))
		}
		sum := into[summary](t, b.mustWith(exitOK, lines.String(), "import", "-", "-o", "json"))
		if sum.Lines != 1000 || sum.Accepted != 1000 {
			t.Errorf("first: %+v", sum)
		}
		sum = into[summary](t, b.mustWith(exitOK, lines.String(), "import", "-", "-o", "json"))
		if sum.Duplicate != 1000 {
			t.Errorf("again: %+v", sum)
		}
		changed := strings.Replace(lines.String(), `"amount":77,`, `"amount":78,`, 1)
		got := b.mustWith(exitPartly, changed, "import", "-", "-o", "json")
		sum = into[summary](t, got)
		if sum.Duplicate != 999 || sum.Conflict != 1 {
			t.Errorf("with one changed: %+v", sum)
		}
		says(t, got.stderr, "line 78, conflict: charge/o77 is known with another body")
	})
}

// Lines of one operation are submitted one after the other, however many batches
// are on their way at once.
func TestTheSameKeyTwiceInOneFileBehavesAsLineByLine(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		var lines strings.Builder
		for i := range 300 {
			fmt.Fprintln(&lines, lineOf(fmt.Sprintf("o%d", i%30), 7))
			fmt.Fprintf(&lines, `{"kind":"refund","key":"o%d","body":{"amount":7}}`+"\n", i%30)
		}
		got := b.mustWith(exitOK, lines.String(), "import", "-", "-o", "jsonl")
		first := map[jobs.ID]int{}
		accepted := 0
		for _, line := range strings.Split(strings.TrimSpace(got.stdout), "\n") {
			var r struct {
				Line int
				jobs.Receipt
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.Answer == jobs.Accepted {
				accepted++
				first[r.Operation] = r.Line
			}
		}
		if accepted != 60 {
			t.Errorf("%d accepted, want 60", accepted)
		}
		for id, line := range first {
			if line > 60 {
				t.Errorf("%s was accepted by line %d, although an earlier one names it", id, line)
			}
		}
	})
}

func TestImportReadsFilesAsTheyComeFromOtherSystems(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		file := filepath.Join(t.TempDir(), "in.jsonl")
		long := `{"kind":"charge","key":"long","body":"` + strings.Repeat("x", maxLineBytes) + `"}`
		text := "\xef\xbb\xbf" + lineOf("bom", 1) + "\r\n\r\n" + long + "\r\n# " + strings.Repeat("y", maxLineBytes) + "\r\n" + lineOf("last", 2)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rejects := filepath.Join(t.TempDir(), "rejects.jsonl")
		got := b.must(exitPartly, "import", file, "-o", "json", "--rejects", rejects)
		if sum := into[summary](t, got); sum.Accepted != 2 || sum.Refused != 1 || deref(sum.Rejects) != rejects {
			t.Errorf("%+v", sum)
		}
		says(t, got.stderr, "line 3, column 1: more than 524288 bytes")
		if len(got.stderr) > 1000 {
			t.Errorf("stderr repeats the line: %d bytes", len(got.stderr))
		}
		written, err := os.ReadFile(rejects)
		if err != nil || !bytes.Contains(written, []byte("\n"+long+"\r\n")) {
			t.Errorf("the line that is too long is not unchanged in the rejects (%d bytes, %v)", len(written), err)
		}
		got = b.mustWith(exitUsage, "\xef\xbb\xbf{\"kind\":7}", "import", "-")
		says(t, got.stderr, "line 1, column 10: kind: want a string") // the mark counts as a character
	})
}

func TestImportTellsTheFirstTwentyAndThenACount(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		got := b.mustWith(exitUsage, strings.Repeat("nonsense\n", 50), "import", "-")
		if n := strings.Count(got.stderr, "column 2: not valid JSON"); n != maxShown {
			t.Errorf("%d lines told, want %d:\n%s", n, maxShown, got.stderr)
		}
		says(t, got.stderr, "and 30 lines more that were not taken")
	})
}

func TestImportRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		dir := t.TempDir()
		there := filepath.Join(dir, "there.jsonl")
		if err := os.WriteFile(there, []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		says(t, b.must(exitUsage, "import", filepath.Join(dir, "none")).stderr, "no such file")
		says(t, b.must(exitUsage, "import", dir).stderr, "is a directory")
		says(t, b.must(exitUsage, "import", there, "--rejects", there).stderr, "file exists")
		if kept, err := os.ReadFile(there); err != nil || string(kept) != "{}\n" {
			t.Errorf("the file that was to be imported is gone: %q %v", kept, err)
		}
		says(t, b.must(exitUsage, "import", there, "-o", "csv").stderr, "-o csv is not a form of enqueue import")
		rejects := filepath.Join(dir, "rejects")
		b.mustWith(exitOK, lineOf("o1", 1), "import", "-", "--rejects", rejects)
		if _, err := os.Stat(rejects); !os.IsNotExist(err) {
			t.Errorf("a file of rejects without a line is left: %v", err)
		}
	})
}

func TestImportWithoutKindsSaysHowToGetThem(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		for _, args := range [][]string{{"import", "-"}, {"add", "charge/o1", "--body", "{}"}} {
			got := b.mustWith(exitError, lineOf("o1", 1), append(args, "--namespace", "empty")...)
			says(t, got.stderr, `no kinds are known in namespace "empty": start a worker once`, "--config")
		}
	})
}

// failingReader gives some bytes and then an error.
type failingReader struct {
	text string
	err  error
}

func (r *failingReader) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, r.err
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	return n, nil
}

func TestAnInputThatBreaksOffSaysWhatWasTaken(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		var stdout, stderr bytes.Buffer
		in := &failingReader{text: lineOf("o1", 1) + "\n" + lineOf("o2", 2) + "\n{\"kind", err: os.ErrClosed}
		code := Run(t.Context(), []string{"import", "-"}, in, &stdout, &stderr, b.getenv)
		if code != exitUsage {
			t.Errorf("exit %d, want %d", code, exitUsage)
		}
		says(t, stderr.String(), "read line 3", "surely taken", "importing the same file again is safe")
	})
}

// Redis goes away in the middle: the import says how much is sure, and importing the
// whole file again ends with everything accepted once.
func TestImportSaysWhatIsSureWhenRedisGoesAway(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	b := setup(t, srv.Client(t))
	b.env["REDRIVE_REDIS_URL"] = srv.URL()
	in, feed := io.Pipe()
	var stdout, stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() { ended <- Run(t.Context(), []string{"import", "-"}, in, &stdout, &stderr, b.getenv) }() // ends with Redis; waited for below
	var file strings.Builder
	write := func(from, upto int) {
		for i := from; i < upto; i++ {
			line := lineOf(fmt.Sprintf("o%d", i), i) + "\n"
			file.WriteString(line)
			if _, err := io.WriteString(feed, line); err != nil {
				return // the import has ended
			}
		}
	}
	write(0, 500)
	waitFor(t, func() bool {
		n, err := srv.Client(t).ZCard(t.Context(), "rd:{payrail}:waiting").Result()
		return err == nil && n > 0
	})
	srv.Kill9()
	go func() { // ends with the pipe: the import stops reading
		write(500, 5000)
		feed.Close()
	}()
	select {
	case code := <-ended:
		in.Close()
		if code != exitAgain {
			t.Errorf("exit %d, want %d: %s", code, exitAgain, stderr.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the import did not end within 30 s of Redis going away")
	}
	says(t, stderr.String(), "redis at "+srv.Addr(), "surely taken; importing the same file again is safe")
	srv.Restart()
	var whole strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&whole, lineOf(fmt.Sprintf("o%d", i), i))
	}
	sum := into[summary](t, b.mustWith(exitOK, whole.String(), "import", "-", "-o", "json"))
	if sum.Accepted+sum.Duplicate != 5000 || sum.Duplicate == 0 {
		t.Errorf("again: %+v", sum)
	}
}

func TestAnInterruptedImportWaitsForItsBatchesAndSaysSo(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		ctx, interrupt := context.WithCancel(t.Context())
		in, feed := io.Pipe()
		defer in.Close()
		var stdout, stderr bytes.Buffer
		ended := make(chan int, 1)
		go func() { ended <- Run(ctx, []string{"import", "-"}, in, &stdout, &stderr, b.getenv) }() // ends by interrupt; waited for below
		if _, err := io.WriteString(feed, lineOf("o1", 1)+"\n"); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { return b.client.ZCard(t.Context(), "rd:{payrail}:waiting").Val() == 1 })
		interrupt()
		if code := <-ended; code != exitError {
			t.Errorf("exit %d, want %d", code, exitError)
		}
		says(t, stderr.String(), "interrupted; 1 line surely taken")
	})
}

func TestAnImportHasATimeLimitOnlyIfOneIsGiven(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		in, feed := io.Pipe()
		defer in.Close()
		go func() { _, _ = io.WriteString(feed, lineOf("o1", 1)+"\n") }() // ends when the import has read it
		var stdout, stderr bytes.Buffer
		code := Run(t.Context(), []string{"import", "-", "--command-timeout", "2s", "-o", "json"}, in, &stdout, &stderr, b.getenv)
		if code != exitAgain {
			t.Errorf("exit %d, want %d", code, exitAgain)
		}
		says(t, stderr.String(), "not done within 2s (--command-timeout); 1 line surely taken")
		hides(t, stderr.String()+stdout.String(), "redis at")
	})
}

func waitFor(t testing.TB, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if met() {
			return
		}
	}
	t.Fatal("not met within 10 s")
}

func TestTheProgressBarIsForTerminalsOnly(t *testing.T) {
	t.Parallel()
	var plain, drawn bytes.Buffer
	p := newProgram(strings.NewReader(""), &plain, &plain, func(string) string { return "" })
	if b := newBar(p, 100); b != nil {
		t.Error("a bar where stderr is no terminal")
	}
	var none *bar
	none.add(1)
	none.clear()
	none.finish()
	b := drawnBar(&drawn, 100)
	b.add(50)
	b.clear()
	b.add(50)
	b.finish()
	says(t, drawn.String(), "importing", "50%")
}

func TestImportShowsABarAndKeepsWordsApart(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *testBundle) {
		var stdout, stderr bytes.Buffer
		p := newProgram(strings.NewReader(lineOf("o1", 1)+"\nnonsense\n"), &stdout, &stderr, b.getenv)
		p.drawn = true
		if code := p.run(t.Context(), []string{"import", "-"}); code != exitPartly {
			t.Errorf("exit %d: %s", code, stderr.String())
		}
		says(t, stderr.String(), "importing", "\renqueue: line 2, column 2: not valid JSON")
		hides(t, stdout.String(), "importing", "\r")
	})
}

// Every line is accepted, skipped or rejected with its number, whatever it holds.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{lineOf("o1", 1) + "\n\n# x\n" + lineOf("o1", 2), "\xef\xbb\xbf{}\r\n", "{\n}\n", fullLine + "\n" + fullLine, "\x00\n\xff", `{"kind":"void","key":"a","body":1,"params":{"id":"1"}}`} {
		f.Add([]byte(seed))
	}
	spec := map[jobs.Kind]jobs.KindSpec{}
	for _, s := range testSpecs() {
		spec[s.Kind] = s
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r := newLineReader(bytes.NewReader(file))
		var read []byte
		for n := 1; ; n++ {
			line, err := r.next()
			if err == io.EOF {
				break
			}
			if err != nil || line.number != n {
				t.Fatalf("line %d, %v; want line %d", line.number, err, n)
			}
			read = append(read, line.raw...)
			if line.tooLong {
				var rest bytes.Buffer
				if err := r.rest(&rest); err != nil {
					t.Fatal(err)
				}
				read = append(read, rest.Bytes()...)
				continue
			}
			if line.skipped() {
				continue
			}
			text, before := line.text()
			sub, err := wire.DecodeSubmission(text)
			if err == nil {
				kind, known := spec[sub.Kind]
				if !known {
					continue
				}
				if _, err = prepare(sub, kind); err == nil {
					continue
				}
			}
			if c := column(text, before, err); c.column < 1 || c.Error() == "" {
				t.Fatalf("line %d: column %d: %q", n, c.column, c)
			}
		}
		if !bytes.Equal(read, file) {
			t.Fatalf("lines put together are not the file:\n%q\n%q", read, file)
		}
	})
}

// An operation that is known to one process only by its file is found by all.
func TestTheKindsOfAFileAreBoundWhenTheyAreSubmittedTo(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		file := configFile(t, b.env["REDRIVE_REDIS_URL"], "fresh", "payrail")
		b.must(exitOK, "add", "capture/o1", "--body", "{}", "--config", file, "--namespace", "fresh")
		got := b.must(exitOK, "list", "-o", "name", "--namespace", "fresh")
		if got.stdout != "capture/o1\n" {
			t.Errorf("without the file: %q", got.stdout)
		}
		other := configFile(t, b.env["REDRIVE_REDIS_URL"], "fresh", "otherrail")
		got = b.must(exitConflict, "add", "capture/o2", "--body", "{}", "--config", other, "--namespace", "fresh")
		says(t, got.stderr, "kind capture is bound to dependency payrail")
		got = b.mustWith(exitUsage, `{"kind":"capture","key":"o2","body":{}}`, "import", "-", "--config", other, "--namespace", "fresh")
		says(t, got.stderr, "line 1, column 9: kind: kind capture is bound to dependency payrail")
	})
}

// configFile writes a configuration with one kind, capture, of dependency dep, whose
// target is a secret.
func configFile(t testing.TB, redisURL, namespace, dep string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redrive.yaml")
	text := fmt.Sprintf(`redis: {url: %q, namespace: %s, durability: volatile}
dependencies:
  %s: {base_url: "${RAIL_URL}", headers: {Authorization: "Bearer ${RAIL_KEY}"}}
operations:
  capture:
    dependency: %s
    request: {path: /v1/captures}
    idempotency: keyed
`, redisURL, namespace, dep, dep)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhereToIsTakenFromTheWorkersWhenTheFileKeepsItSecret(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, b *testBundle) {
		file := configFile(t, b.env["REDRIVE_REDIS_URL"], "rd", "payrail")
		unknown := []string{"add", "capture/o1", "--body", "{}", "--config", file, "--attempted", "unknown", "--idempotency-key", "k", "--first-sent-at", time.Now().UTC().Format(time.RFC3339)}
		says(t, b.must(exitUsage, unknown...).stderr, "where kind capture is sent to is not known here")
		published := b.specs["charge"]
		published.Kind, published.Path = "capture", "/v1/captures"
		if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{published}); err != nil {
			t.Fatal(err)
		}
		b.must(exitOK, unknown...)
		b.specs["capture"] = published
		if o := b.wantState("capture/o1", jobs.Waiting); o.Applied != jobs.AppliedUnknown {
			t.Errorf("applied %s", o.Applied)
		}
		kinds, err := b.ledger.Kinds(t.Context())
		if err != nil || kinds["capture"].BaseURL != published.BaseURL {
			t.Errorf("what the workers published was overwritten: %+v %v", kinds["capture"], err)
		}
		// The resend is safe by the workers' word: begin grants it.
		b.attempt("capture/o1", succeeded())
		b.wantState("capture/o1", jobs.Succeeded)
	})
}
