package jobs

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckBy(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"loopback", "ann@desk", "Ann Lee, second line", "équipe", strings.Repeat("a", MaxByBytes)} {
		if err := CheckBy(by); err != nil {
			t.Errorf("%q: %v", by, err)
		}
	}
	for by, part := range map[string]string{"": "empty", strings.Repeat("a", MaxByBytes+1): "65 bytes", "a\nb": "control", "a\x00": "control", "a\u0085": "control", "a\xff": "UTF-8"} {
		if err := CheckBy(by); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %s", by, err, part)
		}
	}
}

func FuzzCutBy(f *testing.F) {
	for _, seed := range []string{"ann@desk", strings.Repeat("é", 40), "service@" + strings.Repeat("pod-", 20), "a\x00b\xff", "x" + strings.Repeat("日", 21)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		cut := CutBy(name)
		if cut != "" && CheckBy(cut) != nil {
			t.Errorf("%q: %v", cut, CheckBy(cut))
		}
		if CheckBy(name) == nil && cut != name {
			t.Errorf("%q became %q", name, cut)
		}
		if utf8.ValidString(name) && CheckBy("x"+name) == nil && !strings.HasPrefix(name, cut) {
			t.Errorf("%q is no beginning of %q", cut, name)
		}
	})
}
