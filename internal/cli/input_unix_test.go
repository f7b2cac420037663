//go:build unix

package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"redrive/internal/redistest"
)

// blocked runs a command line in front of a stdin that says nothing, and ends it once it
// waits there: by its time limit, or by a signal.
func (b *testBundle) blocked(t *testing.T, signal bool, release func(), args ...string) printed {
	t.Helper()
	stdin, source := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	if !signal {
		args = append(args, "--command-timeout", "50ms")
	}
	var stdout, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() { // ends with the command: release lets it go on at the latest
		code <- Run(ctx, args, stdin, &stdout, &stderr, b.getenv)
	}()
	if signal {
		interrupt()
	}
	late := false
	got := 0
	select {
	case got = <-code:
	case <-time.After(20 * time.Second):
		late = true
	}
	_ = source.Close() // a reader that was left behind ends now
	release()
	if late {
		t.Errorf("enqueue %s: still waits 20 s after it should have ended", strings.Join(args, " "))
		got = <-code
	}
	return printed{got, stdout.String(), stderr.String()}
}

func TestWaitingForInputOutlastedTheTimeLimitAndTheSignal(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	server, tokenFile := b.env["REDRIVE_SERVER"], b.env["REDRIVE_TOKEN_FILE"]
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// Without a writer whoever opens it to read waits.
	release := func() {
		f, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			return
		}
		_ = f.Close()
	}
	for _, args := range [][]string{
		{"list", "--server", server, "--token-file", pipe}, {"add", "charge/x", "--body", "-"}, {"add", "charge/x", "--body", "@" + pipe},
		{"import", pipe}, {"import", "-"}, line("dlq discard - -y --note x"), line("cancel - -y --note x"), line("dlq requeue - --dry-run"),
		line("reconcile - --note x"), line("reconcile --note x --from -"), {"reconcile", "--note", "x", "--from", pipe},
		line("resolve - --applied --note x"), line("resolve --note x --from -"), {"resolve", "--note", "x", "--from", pipe},
	} {
		b.env["REDRIVE_TOKEN_FILE"] = tokenFile
		for _, signal := range []bool{true, false} {
			got := b.blocked(t, signal, release, args...)
			if signal && (got.code != exitError || !strings.Contains(got.stderr, "interrupted")) {
				t.Errorf("%s: interrupted: exit %d, %q", strings.Join(args, " "), got.code, got.stderr)
			}
			if !signal && (got.code != exitAgain || !strings.Contains(got.stderr, "not done within 50ms")) {
				t.Errorf("%s: out of time: exit %d, %q", strings.Join(args, " "), got.code, got.stderr)
			}
		}
	}
}

// A token may come through a pipe, as a shell's <(command) gives one.
func TestATokenComesThroughAPipe(t *testing.T) {
	t.Parallel()
	b := served(t, nil)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- os.WriteFile(pipe, []byte(testToken+"\n"), 0o600) }() // ends when it is read
	b.must(exitOK, "list", "--token-file", pipe, "--server", b.env["REDRIVE_SERVER"])
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

func TestAnEmptyRejectsFileOfAKilledImportWasInTheWay(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := setup(t, client)
	wrong := `{"kind":"charge"}` + "\n"
	rejects := filepath.Join(t.TempDir(), "rejects")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(rejects, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	b.mustWith(exitUsage, wrong, "import", "-", "--rejects", rejects)
	text, err := os.ReadFile(rejects)
	if err != nil || !strings.Contains(string(text), wrong) {
		t.Fatalf("%q %v", text, err)
	}
	if info, err := os.Stat(rejects); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v: others may read it", info.Mode(), err)
	}
	says(t, b.mustWith(exitUsage, wrong, "import", "-", "--rejects", rejects).stderr, "--rejects", "file exists")
	if again, err := os.ReadFile(rejects); err != nil || string(again) != string(text) {
		t.Errorf("it was overwritten: %q %v", again, err)
	}

	// One that is at work has an empty file too, until there is something in it.
	if err := os.Remove(rejects); err != nil {
		t.Fatal(err)
	}
	other, err := createRejects(rejects)
	if err != nil {
		t.Fatal(err)
	}
	says(t, b.mustWith(exitUsage, wrong, "import", "-", "--rejects", rejects).stderr, "file exists")
	if err := other.write(1, "x", []byte(wrong)); err != nil {
		t.Fatal(err)
	}
	if err := other.close(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	write("")
	if err := os.Symlink(rejects, link); err != nil {
		t.Fatal(err)
	}
	says(t, b.mustWith(exitUsage, wrong, "import", "-", "--rejects", link).stderr, "file exists")
}
