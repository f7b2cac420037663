package redrive

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// spoolIn opens one in a folder of its own.
func spoolIn(t *testing.T, name string) *spool {
	t.Helper()
	s, err := openSpool(filepath.Join(t.TempDir(), name), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	return s
}

func (s *spool) wantText(t *testing.T, want string) {
	t.Helper()
	if text, err := os.ReadFile(s.path); err != nil || string(text) != want {
		t.Errorf("%s has %q, %v; want %q", filepath.Base(s.path), text, err, want)
	}
}

// The lock went by the name: two clients took each other's lines for their own, and removed
// what nobody had delivered.
func TestASecondClientGotIntoASpoolByAnotherName(t *testing.T) {
	t.Parallel()
	s := spoolIn(t, "spool")
	if err := s.add([]byte("first")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(s.path)
	for name, make := range map[string]func(string) error{
		"symbolic": func(to string) error { return os.Symlink(s.path, to) },
		"hard":     func(to string) error { return os.Link(s.path, to) },
		"folder":   func(to string) error { return os.Symlink(dir, to) },
		"unlocked": func(string) error { return os.RemoveAll(s.path + ".lock") },
	} {
		link := filepath.Join(dir, name)
		if err := make(link); err != nil {
			t.Fatal(err)
		}
		switch name {
		case "folder":
			link = filepath.Join(link, "spool")
		case "unlocked":
			link = s.path
		}
		if second, err := openSpool(link, s.log); err == nil {
			second.close()
			t.Errorf("%s: a second client has the spool", name)
		}
	}
	s.wantText(t, "first\n")
}

func TestASpoolWithTwoNamesIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spool")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, path+".too"); err != nil {
		t.Fatal(err)
	}
	if s, err := openSpool(path, slog.Default()); err == nil || !strings.Contains(err.Error(), "2 names") {
		t.Errorf("got %v, %v", s, err)
	}
	if s, err := openSpool(os.DevNull, slog.Default()); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a device: %v, %v", s, err)
	}
}

// A delivery put a file in the place of a link that the spool was named by.
func TestALinkToASpoolStaysOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "spool"), link); err != nil {
		t.Fatal(err)
	}
	s, err := openSpool(link, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, line := range []string{"a", "b"} {
		if err := s.add([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.remove([][]byte{[]byte("a")}); err != nil {
		t.Fatal(err)
	}
	s.wantText(t, "b\n")
	if to, err := os.Readlink(link); err != nil || to != s.path {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}

// Hand-overs were said to be spooled that went into a file without a name, or behind NULs.
func TestASpoolThatWasChangedUnderItsClientLostHandOvers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"removed":    {os.Remove, "one\ntwo\n"},
		"moved away": {func(path string) error { return os.Rename(path, path+".1") }, "one\ntwo\n"},
		"cut":        {func(path string) error { return os.Truncate(path, 0) }, "two\n"},
		"cut inside": {func(path string) error { return os.Truncate(path, 2) }, "on\ntwo\n"},
		"replaced": {func(path string) error {
			return firstErr(os.WriteFile(path+".new", []byte("theirs\n"), 0o600), os.Rename(path+".new", path))
		}, "theirs\none\ntwo\n"},
	} {
		s := spoolIn(t, "spool")
		if err := s.add([]byte("one")); err != nil {
			t.Fatal(err)
		}
		if err := tc.change(s.path); err != nil {
			t.Fatal(err)
		}
		if err := s.add([]byte("two")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.wantText(t, tc.want)
	}
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Who cannot write where the path leads must not say that it is spooled.
func TestWhatCannotBeSpooledIsNotSaidToBe(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"another client's now": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			theirs, err := openSpool(path, slog.Default())
			if err == nil {
				t.Cleanup(func() { theirs.close() })
			}
			return err
		},
		"a folder now":   func(path string) error { return firstErr(os.Remove(path), os.Mkdir(path, 0o700)) },
		"no folder left": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		s := spoolIn(t, "spool")
		if err := change(s.path); err != nil {
			t.Fatal(err)
		}
		if err := s.add([]byte("one")); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// Lines of a spool whose name another client took were lost with the process.
func TestASpoolWhoseNameIsAnothersIsDeliveredAllTheSame(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	s := spoolIn(t, "spool")
	for _, key := range []string{"c-1", "c-2"} {
		if err := s.add(fmt.Appendf(nil, `{"kind":"charge","key":%q,"body_text":"{}","deadline":"2h"}`, key)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.add([]byte("garbage")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	theirs, err := openSpool(s.path, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing left to deliver or to reject
		if err := s.deliver(t.Context(), b.Client); err == nil {
			t.Error("it does not say that its file is another client's")
		}
	}
	for _, key := range []string{"c-1", "c-2"} {
		if _, err := b.Get(t.Context(), "charge", key); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(s.path + ".rejected"); err != nil || strings.Count(string(text), "garbage\n") != 1 {
		t.Errorf("rejected: %q, %v", text, err)
	}
	theirs.close()
	if err := s.add([]byte("more")); err != nil {
		t.Fatal(err)
	}
	s.wantText(t, "more\n")
}

// Only what was delivered goes, whatever became of the file meanwhile.
func TestOnlyWhatWasDeliveredLeavesTheSpool(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"nothing": func(string) error { return nil },
		"removed": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, int64(len("one\n"))) },
	} {
		s := spoolIn(t, "spool")
		for _, line := range []string{"one", "two", "two"} {
			if err := s.add([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.read(); err != nil {
			t.Fatal(err)
		}
		if err := change(s.path); err != nil {
			t.Fatal(err)
		}
		if err := s.add([]byte("three")); err != nil {
			t.Fatal(err)
		}
		if err := s.remove([][]byte{[]byte("one"), []byte("two")}); err != nil {
			t.Fatal(err)
		}
		want := "two\nthree\n"
		if name == "cut" {
			want = "three\n"
		}
		s.wantText(t, want)
	}
}

func TestEveryLineOfASpoolThatIsRemovedAgainAndAgainIsThere(t *testing.T) {
	t.Parallel()
	s := spoolIn(t, "spool")
	const writers, lines = 4, 50
	var writing sync.WaitGroup
	var mu sync.Mutex // guards said
	said := map[string]bool{}
	for w := range writers {
		writing.Go(func() { // ends with its lines
			for i := range lines {
				line := fmt.Sprintf("%d-%d", w, i)
				if i%10 == 0 {
					_ = os.Remove(s.path)
				}
				if err := s.add([]byte(line)); err == nil {
					mu.Lock()
					said[line] = true
					mu.Unlock()
				}
			}
		})
	}
	writing.Wait()
	_ = os.Remove(s.path)
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		there[strings.TrimSuffix(line, "\n")] = true
	}
	for line := range said {
		if !there[line] {
			t.Errorf("%s was said to be spooled", line)
		}
	}
	if len(said) < writers*lines/2 {
		t.Errorf("only %d of %d lines were taken", len(said), writers*lines)
	}
}

// Lines of <spool>.rejected ran together where a full disk had cut one.
func TestARejectedLineIsApart(t *testing.T) {
	t.Parallel()
	s := spoolIn(t, "spool")
	if err := os.WriteFile(s.path+".rejected", []byte("# cu"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"a", "b"} {
		if err := s.reject([]byte(line), "why\nnot"); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(s.path + ".rejected"); err != nil || string(text) != "# cu\n# why not\na\n# why not\nb\n" {
		t.Errorf("got %q, %v", text, err)
	}
}
