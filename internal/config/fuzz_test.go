package config

import (
	"errors"
	"testing"
)

// FuzzParse: Parse never panics, fails only with an *Error that has a text, and
// what it accepts is valid by itself and can be published.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"working_*.yaml", "busted_*.yaml"} {
		for _, data := range fixtures(f, pattern) {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yaml", data)
		if err != nil {
			var list *Error
			if !errors.As(err, &list) || len(list.Problems) == 0 || err.Error() == "" {
				t.Fatalf("got %v", err)
			}
			for _, p := range list.Problems {
				if p.Line < 1 || p.Column < 1 || p.Message == "" {
					t.Errorf("no place or message in %+v", p)
				}
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("accepted, but: %v", err)
		}
		if specs := c.KindSpecs(); len(specs) != len(c.Kinds) || len(specs) == 0 {
			t.Errorf("%d specs of %d kinds", len(specs), len(c.Kinds))
		}
		c.Warnings()
		// With every reference set to something, it resolves or says what is wrong.
		if err := c.ResolveSecrets(func(string) string { return "x" }); err == nil && c.Validate() != nil {
			t.Errorf("resolved, but: %v", c.Validate())
		}
	})
}

// FuzzSecret: a text is refused, or resolves to itself when it has no dollars.
func FuzzSecret(f *testing.F) {
	for _, text := range []string{"", "plain", "${A}", "$$", "$${A}", "${file:/x}", "a$", "${", "$$$", "${A}$${B}$"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := NewSecret(text)
		if err != nil {
			if !s.IsZero() {
				t.Error("an error and a secret")
			}
			return
		}
		if s.String() != "" && s.String() != masked {
			t.Errorf("it shows %q", s)
		}
		if s.HasRefs() {
			return
		}
		got, err := s.Resolve(noEnv)
		if err != nil || len(got) > len(text) {
			t.Errorf("%q resolves to %q, %v", text, got, err)
		}
		// Written again with its dollars doubled, it is the same text.
		again, err := NewSecret(escapeDollars(got))
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := again.Resolve(noEnv); err != nil || twice != got {
			t.Errorf("%q becomes %q, %v", got, twice, err)
		}
	})
}

func escapeDollars(s string) string {
	out := ""
	for _, b := range []byte(s) {
		if b == '$' {
			out += "$"
		}
		out += string([]byte{b})
	}
	return out
}
