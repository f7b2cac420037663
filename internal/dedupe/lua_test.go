package dedupe

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/luascript"
	"redrive/internal/redistest"
)

// probe runs one expression of the identity library, so that Go's fingerprints and
// the Lua that reads them cannot drift apart.
func probe(t *testing.T, c redis.UniversalClient, expression string, args *luascript.Args) string {
	t.Helper()
	script, err := luascript.New("probe", "--[[ probe\nKEYS -\nARGV -\nRETURNS -\nLIMIT -\nINVARIANT -\n]]\nreturn {"+expression+"}", luascript.Base, Identity)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := script.Run(t.Context(), c, "test:{d}", args)
	if err != nil {
		t.Fatal(err)
	}
	return reply.At(0)
}

func TestLuaReadsFingerprintsAsGoWritesThem(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		for field, change := range map[string]func(*Request){
			"content_type": func(r *Request) { r.ContentType = "text/plain" }, "params": func(r *Request) { r.Params = nil },
			"headers": func(r *Request) { r.Headers = nil }, "credential": func(r *Request) { r.Credential = "m2" },
			"idempotency_key": func(r *Request) { r.IdempotencyKey = "k2" }, "body": func(r *Request) { r.Body = []byte("{}") },
		} {
			r := sample()
			change(&r)
			args := new(luascript.Args).Str("a", string(Of(sample()))).Str("b", string(Of(r)))
			if got := probe(t, c, "identity.differs(A.a, A.b)", args); !strings.Contains(","+got+",", ","+field+",") {
				t.Errorf("a changed %s is named as %q", field, got)
			}
			if got := probe(t, c, "identity.same(A.a, A.b) and 'same' or 'other'", args); got != "other" {
				t.Errorf("a changed %s: %s", field, got)
			}
		}
		same := new(luascript.Args).Str("a", string(Of(sample()))).Str("b", string(Of(sample())))
		if got := probe(t, c, "identity.same(A.a, A.b) and identity.differs(A.a, A.b) == '' and 'same' or 'other'", same); got != "same" {
			t.Errorf("equal requests are %s", got)
		}
	})
}

func TestReportsAreToldApart(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		named := map[string]string{}
		seen := func(all, name string) string {
			return probe(t, c, "identity.seen(A.all, A.name, '3,17') and 'yes' or 'no'", new(luascript.Args).Str("all", all).Str("name", name))
		}
		all := ""
		for _, report := range []string{
			"{id = 'req-1', outcome = 'unknown', n = 1}", "{id = 'req-2', outcome = 'unknown', n = 1}", "{id = 'req-1', outcome = 'refused', n = 1}",
			"{outcome = 'unknown', n = 1, first = 1764490000000}", "{outcome = 'unknown', n = 2, first = 1764490000000}",
			"{outcome = 'unknown', n = 1, first = 1764490000001}", "{outcome = 'refused', n = 1}",
			"{outcome = 'unknown', n = 1, first = 1764490000000, class = '5xx'}", "{outcome = 'unknown', n = 1, first = 1764490000000, status = 202}",
			"{outcome = 'unknown', n = 1, first = 1764490000000, step = 'ask'}", "{outcome = 'unknown', n = 1, first = 1764490000000, step = 'ask', acted = true}",
			"{outcome = 'unknown', n = 1, first = 1764490000000, step = 'ask', original = true}", "{outcome = 'unknown', n = 1, first = 1764490000000, keyed = true}",
			"{outcome = 'refused', n = 1, step = 'end', reason = 'permanent'}", "{outcome = 'refused', n = 1, step = 'end', reason = 'misconfigured'}",
			"{outcome = 'refused', n = 1, refused_credential = true}", "{id = 'req-1', outcome = 'unknown', n = 1}, 'another request'",
		} {
			name := probe(t, c, "identity.report("+report+")", new(luascript.Args))
			if other, twice := named[name]; twice {
				t.Errorf("%s and %s have one name", report, other)
			}
			if len(name) != 11 || strings.Trim(name, "0123456789abcdef") != "" {
				t.Errorf("name %q of %s", name, report)
			}
			named[name] = report
			if got := seen(all, name); got != "no" {
				t.Errorf("%s is seen in %q", report, all)
			}
			all += name + "."
			if got := seen(all, name); got != "yes" {
				t.Errorf("%s is not seen in %q", report, all)
			}
		}
		for entry, want := range map[string]string{"01234567890@1.": "no", "01234567890@7.": "no", "01234567890@17.": "yes", "01234567890@1.01234567890@3.": "yes"} {
			if got := seen(entry, "01234567890"); got != want {
				t.Errorf("seen in %s while 3 and 17 are unknown: %s", entry, got)
			}
		}
		for report, want := range map[string]string{
			"{outcome = 'unknown'}": "x@4.", "{outcome = 'unknown', first = 5}": "x.", "{outcome = 'unknown', id = 'req-1'}": "x.", "{outcome = 'refused'}": "x.",
		} {
			if got := probe(t, c, "identity.entry("+report+", 'x', 4)", new(luascript.Args)); got != want {
				t.Errorf("entry of %s: %s, want %s", report, got, want)
			}
		}
	})
}
