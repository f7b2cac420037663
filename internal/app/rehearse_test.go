package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/outage"
)

// plays makes the program play nothing, and report that every target was reached or
// not. asked gets what it was asked to play.
func (b *testBundle) plays(reached bool) (asked *[]outage.Options) {
	asked = &[]outage.Options{}
	b.program.rehearseFunc = func(_ context.Context, o outage.Options) (*outage.Report, error) {
		*asked = append(*asked, o)
		o.ShowFunc(outage.Progress{At: time.Second, Took: time.Minute, Part: "normal", Breaker: "closed"})
		return &outage.Report{Scenario: o.Scenario.Name, Text: o.Scenario.Text, Seed: o.Seed, Speed: 10, Took: time.Minute, Every: time.Second,
			Clients: []outage.Account{{Client: outage.Redrive, Calls: 1234}},
			Targets: []outage.Target{{Name: "charged twice", Want: "0", Got: "0", Reached: reached}}}, nil
	}
	return asked
}

func TestARehearsalLeavesItsReportInTheFolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := b.plays(true)
	folder := filepath.Join(t.TempDir(), "new", "folder")
	if code := b.run(t, "rehearse", "lost-replies", "--out", folder, "--seed", "7", "--speed", "12.5", "--store", "memory"); code != exitDone {
		t.Fatalf("exit %d:\n%s", code, b.stderr)
	}
	if len(*asked) != 1 {
		t.Fatalf("%d rehearsals, want one", len(*asked))
	}
	if o := (*asked)[0]; o.Scenario.Name != "lost_replies" || o.Seed != 7 || o.Speed != 12.5 || o.Store != "memory" || o.Log == nil {
		t.Errorf("played %+v", o)
	}
	page, err := os.ReadFile(filepath.Join(folder, "report.html"))
	if err != nil || !bytes.Contains(page, []byte("<h1>Rehearsal: lost_replies</h1>")) {
		t.Errorf("report.html: %v, %.80q", err, page)
	}
	data, err := os.ReadFile(filepath.Join(folder, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back outage.Report
	if err := json.Unmarshal(data, &back); err != nil || back.Clients[0].Calls != 1234 {
		t.Errorf("report.json: %v, %+v", err, back)
	}
	if !strings.Contains(b.stdout.String(), "1,234") || !strings.Contains(b.stdout.String(), "reached") || strings.Contains(b.stdout.String(), "written") {
		t.Errorf("standard output:\n%s", b.stdout)
	}
	want := "written: " + filepath.Join(folder, "report.html") + "\nwritten: " + filepath.Join(folder, "report.json") + "\n"
	if got := b.stderr.String(); !strings.HasPrefix(got, "  0:01 of 1:00  normal") || !strings.HasSuffix(got, want) {
		t.Errorf("standard error:\n%s\nwant at its end\n%s", got, want)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
		t.Errorf("%d files in the folder, want the two of the report: %v", len(left), err)
	}
}

func TestTheReportOfARehearsalAsJSON(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.plays(true)
	if code := b.run(t, "rehearse", "slow", "--out", t.TempDir(), "-o", "json"); code != exitDone {
		t.Fatalf("exit %d:\n%s", code, b.stderr)
	}
	var back outage.Report
	if err := json.Unmarshal([]byte(b.stdout.String()), &back); err != nil || back.Scenario != "slow" {
		t.Errorf("%v in %s", err, b.stdout)
	}
}

func TestAMissedTargetEndsARehearsalWith1(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.plays(false)
	folder := t.TempDir()
	if code := b.run(t, "rehearse", "slow", "--out", folder); code != exitError || !strings.Contains(b.stdout.String(), "MISSED") {
		t.Errorf("exit %d, standard output:\n%s", code, b.stdout)
	}
	if _, err := os.Stat(filepath.Join(folder, "report.html")); err != nil {
		t.Errorf("whoever missed a target wants to see the report: %v", err)
	}
}

func TestScenariosAreListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.plays(true)
	if code := b.run(t, "rehearse"); code != exitDone {
		t.Errorf("exit %d:\n%s", code, b.stderr)
	}
	unknown := setup(t)
	asked := unknown.plays(true)
	if code := unknown.run(t, "rehearse", "slwo", "--out", filepath.Join(t.TempDir(), "never")); code != exitUsage || len(*asked) != 0 {
		t.Errorf("exit %d, %d rehearsals", code, len(*asked))
	}
	if !strings.HasPrefix(unknown.stderr.String(), "worker rehearse: unknown scenario \"slwo\": want one of\n") {
		t.Errorf("standard error:\n%s", unknown.stderr)
	}
	completed := setup(t)
	if code := completed.run(t, "__complete", "rehearse", ""); code != exitDone {
		t.Errorf("completion: exit %d:\n%s", code, completed.stderr)
	}
	for _, s := range outage.Scenarios() {
		for _, text := range []string{b.stdout.String(), unknown.stderr.String()} {
			if _, rest, ok := strings.Cut(text, "  "+s.Name+" "); !ok || !strings.HasPrefix(strings.TrimLeft(rest, " "), s.Text+"\n") {
				t.Errorf("%s is not listed with what it plays:\n%s", s.Name, text)
			}
		}
		if !strings.Contains(completed.stdout.String(), s.Name+"\t"+s.Text) {
			t.Errorf("%s is not completed:\n%s", s.Name, completed.stdout)
		}
	}
}

// What cannot be written is said before anything is played.
func TestAFolderThatCannotBeWrittenIsFoundBeforeTheRehearsal(t *testing.T) {
	t.Parallel()
	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{taken, filepath.Join(taken, "below")} {
		b := setup(t)
		asked := b.plays(true)
		if code := b.run(t, "rehearse", "slow", "--out", folder); code != exitError || len(*asked) != 0 {
			t.Errorf("exit %d, %d rehearsals", code, len(*asked))
		}
		if !strings.HasPrefix(b.stderr.String(), "worker rehearse: folder of the report: ") || !strings.Contains(b.stderr.String(), taken) {
			t.Errorf("standard error: %s", b.stderr)
		}
	}
}

// A report that cannot be written in the end is shown all the same.
func TestAFolderThatIsLostMeanwhileTakesNotTheReportWithIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.plays(true)
	folder := filepath.Join(t.TempDir(), "folder")
	play := b.program.rehearseFunc
	b.program.rehearseFunc = func(ctx context.Context, o outage.Options) (*outage.Report, error) {
		if err := os.Remove(folder); err != nil {
			t.Error(err)
		}
		return play(ctx, o)
	}
	code := b.run(t, "rehearse", "slow", "--out", folder)
	if code != exitError || !strings.Contains(b.stdout.String(), "1,234") || !strings.Contains(b.stderr.String(), "worker rehearse: write the report: ") {
		t.Errorf("exit %d\n%s\n%s", code, b.stdout, b.stderr)
	}
}

func TestARehearsalThatFailsLeavesNoEmptyFolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.program.rehearseFunc = func(context.Context, outage.Options) (*outage.Report, error) {
		return nil, errors.New("start the store: no memory")
	}
	folder := filepath.Join(t.TempDir(), "folder")
	if code := b.run(t, "rehearse", "slow", "--out", folder); code != exitError || b.stderr.String() != "worker rehearse: start the store: no memory\n" {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestARehearsalIsNeverPlayedAgainstAStranger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.program.rehearseFunc = outage.Run
	code := b.run(t, "rehearse", "slow", "--out", filepath.Join(t.TempDir(), "folder"), "--against", "https://api.example.com")
	if code != exitError || !strings.Contains(b.stderr.String(), "api.example.com") || b.stdout.String() != "" {
		t.Errorf("exit %d\n%s\n%s", code, b.stdout, b.stderr)
	}
}

func TestARehearsalCanBeInterrupted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.program.rehearseFunc = outage.Run
	folder := filepath.Join(t.TempDir(), "folder")
	r := b.start(t, "rehearse", "deploy-during-outage", "--store", "memory", "--out", folder)
	await(t, b.stderr, "normal")
	if code := r.stop(t); code != exitError || !strings.Contains(b.stderr.String(), "worker rehearse: interrupted: everything was stopped in order") {
		t.Errorf("exit %d:\n%s", code, b.stderr)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder was left: %v", err)
	}
}

func TestWrongFlagsOfARehearsalAreAMatterOfUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--speed", "0"}, "--speed 0: want 1 to 20"},
		{[]string{"--speed", "0.5"}, "--speed 0.5: want 1 to 20"},
		{[]string{"--speed", "NaN"}, "--speed NaN: want 1 to 20"},
		{[]string{"--speed", "1000"}, "--speed 1000: want 1 to 20"},
		{[]string{"--store", "disk"}, "--store \"disk\": want one of auto, redis, memory"},
		{[]string{"-o", "yaml"}, "--output \"yaml\": want one of table, json"},
		{[]string{"--allow", "sandbox.internal"}, "--allow sandbox.internal: there is nothing to allow without --against"},
		{[]string{"down"}, "accepts at most 1 arg(s), received 2"},
	} {
		b := setup(t)
		asked := b.plays(true)
		code := b.run(t, append([]string{"rehearse", "slow", "--out", filepath.Join(t.TempDir(), "x")}, c.args...)...)
		if want := "worker rehearse: " + c.want + "\nSee worker rehearse --help.\n"; code != exitUsage || b.stderr.String() != want || len(*asked) != 0 {
			t.Errorf("%q: exit %d, %d rehearsals, %q, want %q", c.args, code, len(*asked), b.stderr, want)
		}
	}
}
