package luascript

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/redistest"
)

const head = "--[[ probe: for tests\nKEYS[1]  slot\nARGV     any\nRETURNS  any\nLIMIT    none\nINVARIANT none\n]]\n"

func TestAScriptWithoutAFullHeaderIsRefused(t *testing.T) {
	t.Parallel()
	for _, word := range header {
		body := strings.Replace(head, "\n"+word, "\nelse", 1) + "return {'x'}"
		if _, err := New("probe", body, Base); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("header without %s: %v", word, err)
		}
	}
	for _, body := range []string{"", "return {}", "-- " + head, "--[[ never closed"} {
		if _, err := New("probe", body, Base); err == nil {
			t.Errorf("%q was taken", body)
		}
	}
}

func TestBannedConstructsAreRefusedInCodeAlone(t *testing.T) {
	t.Parallel()
	for code, wanted := range map[string]bool{
		"return {cjson.encode(A)}": false, "return {tostring(1)}": false, "return {tostring (1)}": false, "return {bit.band(1, 2)}": false,
		"return {cmsgpack.pack(1)}": false, "return {struct.pack('i', 1)}": false, "return {os.time()}": false, "return {math.random()}": false,
		"return redis.call('KEYS', '*')": false, "return redis.call('FLUSHALL')": false, "return {'--', tostring(1)}": false,
		"return {cjson.decode(A.x)} -- not cjson.encode": true, "return {A.cos.x}": true, "return {'x'} --[[ tostring(1) ]]": true,
		"return {math.floor(1)}": true, "local mytostring = 1 return {mytostring}": true,
	} {
		_, err := New("probe", head+code, Base)
		if (err == nil) != wanted {
			t.Errorf("%s: %v", code, err)
		}
		if err != nil && !strings.Contains(err.Error(), "script probe line 8") {
			t.Errorf("%s: %v does not name the line", code, err)
		}
	}
	if _, err := New("probe", head+"return {}", Library{Name: "bad", Source: "\nlocal x = tostring(1)\n"}); err == nil || !strings.Contains(err.Error(), "library bad line 2") {
		t.Errorf("a banned construct in a library: %v", err)
	}
}

func TestMustPanicsOnABrokenScript(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Must("probe", "return {}")
}

func TestStripLeavesCodeAndStrings(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"a = 1 -- it's one\nb = 2":         "a = 1  \nb = 2",
		"a = '-- no comment' -- yes":       "a = '-- no comment'  ",
		`a = "\"-- no" .. '\'-- no' -- x`:  `a = "\"-- no" .. '\'-- no'  `,
		"a = [[ -- no\n--[[ no ]] -- yes":  "a = [[ -- no\n--[[ no ]]  ",
		"a = [==[ ]] -- no ]==] -- yes":    "a = [==[ ]] -- no ]==]  ",
		"--[[ one\ntwo ]]a = b[c[1]] --[[": " \na = b[c[1]]  ",
		"--[=[ ]] ]=] a":                   "  a",
		"a--[[x]]b":                        "a b",
		"a - -1":                           "a - -1",
		"-":                                "-",
		"'open\nnext -- x":                 "'open\nnext  ",
		"":                                 "",
	} {
		if got := strip(source); got != want {
			t.Errorf("%q became %q, want %q", source, got, want)
		}
	}
}

// FuzzStrip: what is stripped once stays as it is, keeps its lines, and no string
// that is written into a script is changed.
func FuzzStrip(f *testing.F) {
	for _, s := range []string{"a -- b", "'--'", "[[--]]", "--[[\n]]x", `"\\"--`, "--[=[x]=]", "a[ [=[x]=] ]", "-\n-x", "--\n"} {
		f.Add(s, "it's -- \"fine\" ]]")
	}
	f.Fuzz(func(t *testing.T, source, value string) {
		once := strip(source)
		if strings.Count(once, "\n") != strings.Count(source, "\n") {
			t.Fatalf("%q has other lines than %q", once, source)
		}
		if len(once) > len(source)+1 {
			t.Fatalf("%q grew to %q", source, once)
		}
		quoted := "return " + luaString(value) + " -- comment\n"
		if got := strip(quoted); !strings.HasPrefix(got, "return "+luaString(value)+" ") || strings.Contains(got[len(luaString(value))+7:], "comment") {
			t.Fatalf("%q became %q", quoted, got)
		}
	})
}

// luaString writes s as a Lua string by decimal escapes of all but letters and dashes.
func luaString(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteString("\\" + string(c))
		case c == '-' || c == '[' || c == ']' || c == '"' || c == ' ' || c >= 'a' && c <= 'z':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "\\%03d", c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

func TestBaseLibrary(t *testing.T) {
	t.Parallel()
	script := Must("probe", head+`
if A.last then redis.call('HSET', P .. 'gate', 'last_now', A.last) end
local t = redis.call('TIME')
return {P, A.name or 'none', int(num(A.n)), int(arg('n')), int(clock()), int(tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)), A.flag or 'off'}`, Base)
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		run := func(args *Args) Reply {
			t.Helper()
			r, err := script.Run(t.Context(), c, "ns:{d}", args)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := run(new(Args).Str("name", "it's [[x]]").Int("n", 1764490000000).Flag("flag", true))
		if r.At(0) != "ns:{d}:" || r.At(1) != "it's [[x]]" || r.Int(2) != 1764490000000 || r.Int(3) != 1764490000000 || r.At(6) != "1" {
			t.Errorf("%q", r)
		}
		if r := run(new(Args).Flag("flag", false)); r.At(1) != "none" || r.Int(2) != 0 || r.At(6) != "off" {
			t.Errorf("%q", r)
		}
		for text, want := range map[string]int64{"12": 12, "-3": -3, "1.9": 1, "": 0, "x": 0, "nan": 0, "9007199254740991": 9007199254740991} {
			if got := run(new(Args).Str("n", text)).Int(2); got != want {
				t.Errorf("num(%q) is %d, want %d", text, got, want)
			}
		}
		now := run(new(Args)).Int(5)
		for name, c := range map[string]struct {
			last  int64
			still bool
		}{"a short step back": {now + 59_000, true}, "a long step back": {now + 3_600_000, false}, "no step": {now - 1000, false}} {
			r := run(new(Args).Int("last", c.last))
			// miniredis reads the clock anew within a script: a little may lie between both.
			if still := r.Int(4) == c.last; still != c.still || !still && (r.Int(4) < r.Int(5) || r.Int(4) > r.Int(5)+1000) {
				t.Errorf("%s: clock says %d at %d, last seen %d", name, r.Int(4), r.Int(5), c.last)
			}
		}
	})
}

func TestRunReportsErrorsByNameAndReloadsWhatRedisForgot(t *testing.T) {
	t.Parallel()
	fails := Must("fails", head+"return redis.call('LPUSH', P .. 'gate', 1)", Base)
	works := Must("works", head+"return {'done'}", Base)
	text := Must("text", head+"return 'no list'", Base)
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		if err := c.HSet(t.Context(), "ns:{d}:gate", "x", 1).Err(); err != nil {
			t.Fatal(err)
		}
		var reply redis.Error
		if _, err := fails.Run(t.Context(), c, "ns:{d}", new(Args)); err == nil || !errors.As(err, &reply) || !strings.Contains(err.Error(), "fails") {
			t.Errorf("%v, want an error of redis that names the script", err)
		}
		if _, err := text.Run(t.Context(), c, "ns:{d}", new(Args)); err == nil {
			t.Error("an answer that is no list was taken")
		}
		for range 2 {
			if r, err := works.Run(t.Context(), c, "ns:{d}", new(Args)); err != nil || r.At(0) != "done" {
				t.Errorf("%q, %v", r, err)
			}
			if err := c.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestReplyIsReadSafely(t *testing.T) {
	t.Parallel()
	r := Reply{"granted", "n", "12", "odd"}
	if r.At(-1) != "" || r.At(9) != "" || r.Int(2) != 12 || r.Int(0) != 0 || r.Int(9) != 0 {
		t.Error("reading past the end, or words as numbers")
	}
	if m := r.Named(1); len(m) != 1 || m["n"] != "12" {
		t.Errorf("named %v", m)
	}
	if m := r.Named(9); len(m) != 0 {
		t.Errorf("named past the end %v", m)
	}
}
