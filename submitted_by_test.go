package redrive

import (
	"errors"
	"strings"
	"testing"

	"redrive/internal/sandbox"
)

// A worker's timeline said that an operation had been submitted, and nothing said by which
// service.
func TestTheServiceThatSubmittedIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	light := b.another(func(o *Options) { o.Name, o.Mode, o.Spool = "checkout light", Light, b.spoolAt })
	if _, err := b.Submit(t.Context(), charge("submitted")); err != nil {
		t.Fatal(err)
	}
	if _, err := light.Submit(t.Context(), charge("submitted")); err != nil { // a duplicate
		t.Fatal(err)
	}
	if _, err := b.Do(t.Context(), charge("done"), nil); err != nil {
		t.Fatal(err)
	}
	b.fault(sandbox.LostReplies)
	var deferred *Deferred
	if _, err := light.Do(t.Context(), charge("handed-over"), nil); !errors.As(err, &deferred) {
		t.Fatal(err)
	}
	if err := light.spool.add([]byte(`{"kind":"charge","key":"spooled","body":{}}`)); err != nil {
		t.Fatal(err)
	}
	await(t, "the spool", func() bool { _, err := b.Get(t.Context(), "charge", "spooled"); return err == nil })
	for key, by := range map[string]string{"submitted": "checkout", "done": "checkout", "handed-over": "checkout light", "spooled": "checkout light"} {
		if r, err := b.Get(t.Context(), "charge", key); err != nil || r.SubmittedBy != by {
			t.Errorf("%s: %+v, %v; want it submitted by %s", key, r, err, by)
		}
	}
}

func TestANameThatTheAuditCannotKeepIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for name, part := range map[string]string{strings.Repeat("a", 65): "65 bytes, at most 64", "a\nb": "control characters", "\xff": "UTF-8"} {
		c, err := New(t.Context(), Options{RedisURL: b.srv.URL(), ConfigFile: b.config, Name: name})
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "options: Name: ") || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %s", name, err, part)
		}
	}
	if c := b.another(func(o *Options) { o.Name = "" }); !strings.HasPrefix(c.o.Name, "service@") {
		t.Errorf("without a name it is %q", c.o.Name)
	}
}
