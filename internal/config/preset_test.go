package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

func mustPreset(t *testing.T, name string) *Preset {
	t.Helper()
	p, ok, err := FindPreset(name)
	if err != nil || !ok {
		t.Fatalf("preset %s: ok %v, %v", name, ok, err)
	}
	return p
}

// eachPreset runs one subtest for each preset.
func eachPreset(t *testing.T, test func(*testing.T, *Preset)) {
	t.Parallel()
	for _, name := range PresetNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, mustPreset(t, name))
		})
	}
}

func TestThePresetsAreThoseThatWereAskedFor(t *testing.T) {
	t.Parallel()
	want := []string{"adyen", "braintree", "checkout", "dwolla", "generic", "gocardless", "klarna", "mollie", "paypal", "razorpay", "sendgrid", "square", "stripe", "twilio", "worldpay"}
	if got := PresetNames(); !slices.Equal(got, want) {
		t.Errorf("presets %v, want %v", got, want)
	}
	if p, ok, err := FindPreset("nobody"); p != nil || ok || err != nil {
		t.Errorf("a preset that is not there: %v, %v, %v", p, ok, err)
	}
}

// What is in force has a source that is named, and is more than a memory.
func TestEveryFactInForceHasASource(t *testing.T) {
	eachPreset(t, func(t *testing.T, p *Preset) {
		check := func(what, source string, c Confidence) {
			if p.ref(source) == source || c == ConfidenceMemory {
				t.Errorf("%s: source %q, confidence %q", what, source, c)
			}
		}
		check("idempotency", p.Idempotency.Source, p.Idempotency.Confidence)
		if p.Header.Value != "" {
			check("header", p.Header.Source, p.Header.Confidence)
		}
		if p.Window.Value > 0 {
			check("window", p.Window.Source, p.Window.Confidence)
		}
		for _, r := range p.Rules {
			check("rule "+r.Value.Name, r.Source, r.Confidence)
		}
		if p.Inquiry != nil {
			check("inquiry", p.Inquiry.Inquiry.Source, p.Inquiry.Inquiry.Confidence)
		}
		if len(p.Uncertain) == 0 {
			t.Error("nothing is uncertain, which cannot be")
		}
	})
}

func TestAPresetFileThatOverreachesIsRefused(t *testing.T) {
	t.Parallel()
	const head = "title: T\nsources: {docs: somewhere}\nidempotency: {class: keyed, source: docs, confidence: documented}\n" +
		"idempotency_key: {header: {value: K, source: docs, confidence: documented}, window: {value: 24h, source: docs, confidence: documented}}\nno_inquiry: none\n"
	rule := func(more string) string {
		return head + "rules: [{name: r, when: status == 503, fact: f, source: docs, " + more + "}]\n"
	}
	if _, err := readPreset("sound", []byte(rule("verdict: retry_same_key, processed: maybe, confidence: quoted"))); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		rule("verdict: hold_operator, processed: no, confidence: memory"):                                               "memory alone",
		rule("verdict: retry_after, processed: no, confidence: quoted"):                                                 "not looked at",
		rule("verdict: succeeded, processed: yes, confidence: quoted"):                                                  "cannot call",
		rule("verdict: retry_after, confidence: documented"):                                                            "what it says of processed",
		rule("verdict: retry_after, processed: no, confidence: certain"):                                                "unknown confidence",
		rule("verdict: retry_after, processed: no"):                                                                     "required: confidence",
		strings.Replace(rule("verdict: retry_after, processed: no, confidence: documented"), "== 503", "= 503", 1):      "syntax error",
		strings.Replace(rule("verdict: retry_after, processed: no, confidence: documented"), "f, source: docs", "f", 1): "none of the sources",
		strings.Replace(head, "no_inquiry: none\n", "", 1):                                                              "one of inquiry and no_inquiry",
		strings.Replace(head, "somewhere", "somewhere, other: else", 1):                                                 "no fact names this source",
		strings.Replace(head, "title: T\n", "", 1):                                                                      "required in every preset",
		head + "colour: red\n": "unknown key",
		strings.Replace(head, "no_inquiry: none", "inquiry: {for: {path: /p}, needs: n, source: docs, confidence: documented, ask: {request: {path: '/p?r={key}'}, succeeded: body.ok == true, settle: 1m, after_not_found: resend}}", 1): "after_not_found must be dead",
	} {
		_, err := readPreset("overreaching", []byte(text))
		var list *Error
		if !errors.As(err, &list) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v for\n%s", want, err, text)
		}
	}
}

// A preset may stand before kinds of every class, with every inquiry that it has.
func TestEveryPresetStandsInAConfigurationOfEveryClass(t *testing.T) {
	eachPreset(t, func(t *testing.T, p *Preset) {
		path := "/v1/charges"
		if p.Inquiry != nil {
			path = p.Inquiry.Path
		}
		text := fmt.Sprintf("redis: {url: \"redis://127.0.0.1:6379/0\"}\ndependencies: {d: {base_url: https://api.example, timeout: 10s, preset: %s}}\noperations:\n", p.Name)
		for _, class := range jobs.Idempotencies {
			text += fmt.Sprintf("  %s: {dependency: d, request: {path: %s}, idempotency: %s", class, path, class)
			if class == jobs.IdempotencyKeyed {
				text += ", idempotency_key: {header: X-Key, window: 6h}"
			}
			text += "}\n"
		}
		c := mustParse(t, text)
		d := c.Dependencies["d"]
		if d.Preset != p.Name || d.IdempotencyKey.Header != p.Header.Value || d.IdempotencyKey.Window != p.Window.Value || len(d.Rules.Specs()) != len(p.Rules) {
			t.Errorf("filled %+v with %d rules", d.IdempotencyKey, len(d.Rules.Specs()))
		}
		for name, k := range c.Kinds {
			if has := k.Inquiry != nil; has != (p.Inquiry != nil) || has && (!k.Inquiry.AfterNotFoundDead || k.Inquiry == p.Inquiry.Inquiry.Value) {
				t.Errorf("%s: inquiry %+v", name, k.Inquiry)
			}
		}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatTheFileWritesWinsOverThePreset(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
redis: {url: "redis://127.0.0.1:6379/0"}
dependencies:
  pay:
    base_url: https://api.example
    idempotency_key: {window: 48h}
    rules: [{when: status == 409, verdict: hold_operator}]
    preset: checkout
  unsure: {base_url: https://api.example, preset: dwolla, idempotency_key: {window: 0}}
  bold: {base_url: https://api.example, preset: stripe, idempotency_key: {header: X-Whatever, max_length: 300}}
  spare: {base_url: https://api.example, preset: stripe, idempotency_key: {header: X-Whatever}}
  text: {base_url: https://api.example, preset: twilio, idempotency_key: {header: X-Key, window: 1h}}
operations:
  charge: {dependency: pay, request: {path: "/payments?x=1"}, idempotency: keyed, idempotency_key: {header: X-Mine}}
  refund: {dependency: pay, request: {path: "/payments/{params.id}/refunds"}, idempotency: keyed}
  capture: {dependency: pay, request: {path: /payments, method: PUT}}
  full: {dependency: pay, request: {path: /payments}, result: {a: body.a, b: body.b, c: body.c, d: body.d}}
  same: {dependency: pay, request: {path: /payments}, result: {id: body.action_id}}
  trusted: {dependency: pay, request: {path: /payments}, idempotency: keyed, inquiry: {after_not_found: resend, settle: 30m}}
  hasty: {dependency: pay, request: {path: /payments}, idempotency: keyed, inquiry: {settle: 1m}}
  sold: {dependency: bold, request: {path: /v1/charges}, idempotency: keyed}
  usual: {dependency: bold, request: {path: /v1/charges}, idempotency: keyed, idempotency_key: {header: idempotency-key, max_length: 255}}
  weak: {dependency: spare, request: {path: /v1/charges}, idempotency: none}
  own: {dependency: pay, request: {path: /payments}, inquiry: {request: {path: "/p?r={key}"}, succeeded: body.ok == true, settle: 1m}}
  message: {dependency: text, request: {path: /m}, idempotency: keyed}
`)
	pay := c.Dependencies["pay"]
	if k := pay.IdempotencyKey; k.Header != "Cko-Idempotency-Key" || spanText(k.Window) != "48h" || k.MaxLength != 255 {
		t.Errorf("key %+v", k)
	}
	if k := c.Kinds["charge"].IdempotencyKey; k.Header != "X-Mine" || spanText(k.Window) != "48h" {
		t.Errorf("key of the kind %+v", k)
	}
	sample := func(status int) policy.Sample { return policy.Sample{Phase: policy.PhaseAnswered, Status: status} }
	if cl, i, _, errs := pay.Rules.Classify(sample(409), jobs.IdempotencyKeyed); cl.Row != "R1" || i != 0 || errs != nil {
		t.Errorf("409: %+v, rule %d, %v", cl, i, errs)
	}
	if cl, i, _, errs := pay.Rules.Classify(sample(500), jobs.IdempotencyKeyed); cl.Row != "checkout/server_error" || i != 2 || errs != nil || !strings.HasPrefix(cl.Reason, "preset checkout: ") {
		t.Errorf("500: %+v, rule %d, %v", cl, i, errs)
	}
	for name, path := range map[jobs.Kind]string{"charge": "/payments?reference={key}&limit=100", "refund": "", "capture": "", "full": "/payments?reference={key}&limit=100", "own": "/p?r={key}", "message": ""} {
		got := ""
		if q := c.Kinds[name].Inquiry; q != nil {
			got = q.Path
		}
		if got != path {
			t.Errorf("%s asks %q, want %q", name, got, path)
		}
	}
	if got := c.Kinds["charge"].Inquiry.Results.Names(); !slices.Equal(got, []string{"id"}) {
		t.Errorf("the inquiry of charge tells %v", got)
	}
	for _, name := range []jobs.Kind{"full", "same"} { // one has no room, the other means something of its own by id
		if got := c.Kinds[name].Inquiry.Results.Names(); len(got) > 0 {
			t.Errorf("the inquiry of %s tells %v", name, got)
		}
	}
	if q := c.Kinds["trusted"].Inquiry; q.AfterNotFoundDead || spanText(q.Settle) != "30m" || q.Path != c.Kinds["charge"].Inquiry.Path || q.Read != c.Kinds["charge"].Inquiry.Read {
		t.Errorf("what the file leaves out of an inquiry is the preset's: %+v", q)
	}
	uses := c.PresetUses()
	if len(uses) != 5 || uses[1].Preset.Name != "checkout" || uses[3].Preset.Name != "twilio" {
		t.Fatalf("uses %+v", uses)
	}
	got := ""
	for _, u := range uses {
		got += fmt.Sprintf("%s sets\n%s\noverrides\n%s\n", u.Dependency, strings.Join(u.Sets, "\n"), strings.Join(u.Overrides, "\n"))
	}
	golden(t, "preset_uses.golden.txt", got+"warnings\n"+strings.Join(slices.DeleteFunc(c.Warnings(), func(w string) bool { return !strings.Contains(w, "preset") }), "\n")+"\n")
}

func TestAConfigurationBuiltInCodeNamesAPresetThatExists(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal)
	c.Dependencies["payrail"].Preset = "strpe"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `did you mean "stripe"?`) {
		t.Errorf("got %v", err)
	}
}

func TestThePageOfPresetsListsThemAsTheyAre(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "presets.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	code := func(text string) string {
		if text == "" {
			return "-"
		}
		return "`" + text + "`"
	}
	for _, name := range PresetNames() {
		p := mustPreset(t, name)
		window, inquiry := "-", ""
		if p.Window.Value > 0 {
			window = spanText(p.Window.Value)
		}
		if p.Inquiry != nil {
			inquiry = p.Inquiry.Method + " " + p.Inquiry.Path
		}
		want += fmt.Sprintf("| `%s` | %s | %s | %s | %d | %s | %s |\n", name, p.Idempotency.Value, code(p.Header.Value), window, len(p.Rules), code(inquiry), p.Title)
	}
	if !strings.Contains(string(page), want) || strings.Count(string(page), "\n| `") != len(PresetNames())+3+len(Confidences) {
		t.Errorf("docs/presets.md lists other presets; as they are:\n%s", want)
	}
	for _, c := range Confidences {
		if !strings.Contains(string(page), "| `"+string(c)+"` |") {
			t.Errorf("docs/presets.md does not explain %s", c)
		}
	}
}
