package luascript

import (
	"strings"
	"testing"
)

func TestAScriptCarriesOnlyTheFunctionsThatItNeeds(t *testing.T) {
	t.Parallel()
	one := Library{"one", `local one = {}
local LIMIT = 3
local function inner(x) return x + LIMIT end
function one.used(x)
  return inner(x)
end
function one.unused(x) return one.only_unused(x) end
function one.only_unused(x)
  local function deep()
    return x
  end
  return deep()
end
local function hook() return 1 end
after[#after + 1] = hook
`}
	two := Library{"two", `local two = {}
-- one.unused is named by this comment alone
function two.of(a) return a.one.used(1) end
function two.named(x) return 'one.only_unused' end
`}
	carried := func(body string) string {
		t.Helper()
		s, err := New("s", head+body, Base, one, two)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, name := range []string{"inner", "one.used", "one.unused", "one.only_unused", "hook", "two.of", "two.named"} {
			if strings.Contains(s.Source(), "function "+name+"(") {
				out = append(out, name)
			}
		}
		if !strings.Contains(s.Source(), "local LIMIT = 3") {
			t.Errorf("what is no function is gone:\n%s", s.Source())
		}
		return strings.Join(out, " ")
	}
	for body, want := range map[string]string{
		"return {}":                     "hook",
		"return {one.used(1)}":          "inner one.used hook",
		"return {1 ..one.used(1)}":      "inner one.used hook",
		"return {one.unused(1)}":        "one.unused one.only_unused hook",
		"return {two.of(A)}":            "hook two.of",
		"return {two.named()}":          "one.only_unused hook two.named",
		"return {other.one.used}":       "hook",
		"local f = one.used return {f}": "inner one.used hook",
	} {
		if got := carried(body); got != want {
			t.Errorf("%s carries %q, want %q", body, got, want)
		}
	}
}

func TestALibraryWhoseFunctionsCannotBeToldApartIsRefused(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"local function f()\n  return 1\n  end\n":                                "function f has no line that is just end",
		"local function f()\n  return 1\n  end\nlocal function g() return 2 end": "function g begins inside f",
	} {
		if _, err := New("s", head+"return {}", Base, Library{"odd", source}); err == nil || !strings.Contains(err.Error(), "library odd: "+want) {
			t.Errorf("%q: %v, want %q", source, err, want)
		}
	}
}
