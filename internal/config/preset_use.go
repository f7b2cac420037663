package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"redrive/internal/jobs"
)

// PresetUse is what became of the preset of one dependency.
type PresetUse struct {
	Dependency jobs.Dependency
	Preset     *Preset
	Sets       []string // what is in force because of it, one clause each
	Overrides  []string // where the configuration says something else than it, one clause each
}

// PresetUses returns what presets set, and what the configuration overrides, for each
// dependency that has one, in the order of their names.
func (c *Config) PresetUses() []PresetUse {
	var uses []PresetUse
	for _, name := range slices.Sorted(maps.Keys(c.Dependencies)) {
		d := c.Dependencies[name]
		p := d.preset()
		if p == nil {
			continue
		}
		u := PresetUse{Dependency: name, Preset: p}
		u.key("dependencies."+string(name)+".idempotency_key", d.IdempotencyKey, nil)
		u.rules(d)
		for _, kind := range slices.Sorted(maps.Keys(c.Kinds)) {
			if k := c.Kinds[kind]; k.Dependency == name {
				u.kind(k, d)
			}
		}
		uses = append(uses, u)
	}
	return uses
}

// preset returns the preset of d, nil if it has none.
func (d *Dependency) preset() *Preset {
	p, _, _ := FindPreset(d.Preset) // a file of the program's own, which tests keep sound
	return p
}

// key compares a key with the preset's. Of a kind's only what differs from its
// dependency's, above, which is compared by itself; nil: it is a dependency's.
func (u *PresetUse) key(path string, k IdempotencyKey, above *IdempotencyKey) {
	p := u.Preset
	field := func(name, is, preset, source string, asAbove bool) {
		switch {
		case above != nil && asAbove:
		case is != preset:
			u.Overrides = append(u.Overrides, fmt.Sprintf("%s.%s: %s instead of %s (%s)", path, name, is, preset, p.ref(source)))
		case above == nil:
			u.Sets = append(u.Sets, fmt.Sprintf("%s.%s: %s", path, name, preset))
		}
	}
	var same IdempotencyKey
	if above != nil {
		same = *above
	}
	field("header", quoteEmpty(k.Header), quoteEmpty(p.Header.Value), p.Header.Source, k.Header == same.Header)
	field("window", spanText(k.Window), spanText(p.Window.Value), p.Window.Source, k.Window == same.Window)
	if p.MaxLength.Value > 0 {
		field("max_length", fmt.Sprint(k.MaxLength), fmt.Sprint(p.MaxLength.Value), p.MaxLength.Source, k.MaxLength == same.MaxLength)
	}
	if p.Replayed.Value != (ReplayMark{}) {
		field("replayed", quoteEmpty(k.Replayed.String()), p.Replayed.Value.String(), p.Replayed.Source, k.Replayed == same.Replayed)
	}
}

func quoteEmpty(text string) string {
	if text == "" {
		return `""`
	}
	return text
}

func (u *PresetUse) rules(d *Dependency) {
	path := "dependencies." + string(u.Dependency) + ".rules"
	own := 0
	for _, s := range d.Rules.Specs() {
		if s.Preset == "" {
			own++
		}
	}
	if own > 0 && len(u.Preset.Rules) > 0 {
		u.Overrides = append(u.Overrides, fmt.Sprintf("%s: %d of its own, asked before the preset's", path, own))
	}
	if len(u.Preset.Rules) == 0 {
		return
	}
	names := make([]string, len(u.Preset.Rules))
	for i, r := range u.Preset.Rules {
		names[i] = r.Value.Name
	}
	u.Sets = append(u.Sets, fmt.Sprintf("%s: %s", path, strings.Join(names, ", ")))
}

func (u *PresetUse) kind(k *Kind, d *Dependency) {
	path := "operations." + string(k.Name)
	if k.IdempotencyKey != d.IdempotencyKey {
		u.key(path+".idempotency_key", k.IdempotencyKey, &d.IdempotencyKey)
	}
	if stronger(k.Idempotency, u.Preset.Idempotency.Value) {
		u.Overrides = append(u.Overrides, fmt.Sprintf("%s.idempotency: %s instead of %s (%s)", path, k.Idempotency, u.Preset.Idempotency.Value, u.Preset.ref(u.Preset.Idempotency.Source)))
	}
	u.inquiry(path+".inquiry", k, d)
}

// inquiry compares the inquiry of k with the preset's: they read answers by the same
// rules if it is the preset's, with a word or two of its own.
func (u *PresetUse) inquiry(path string, k *Kind, d *Dependency) {
	preset := d.presetInquiry(k)
	switch {
	case preset == nil || k.Inquiry == nil:
		return
	case k.Inquiry.Read != preset.Read:
		u.Overrides = append(u.Overrides, path+": its own instead of the preset's")
		return
	}
	u.Sets = append(u.Sets, fmt.Sprintf("%s: %s %s, where %s", path, k.Inquiry.Method, k.Inquiry.Path, u.Preset.Inquiry.Needs))
	is, was := *k.Inquiry, *preset
	for _, f := range []struct {
		name    string
		differs bool
	}{{"settle", is.Settle != was.Settle}, {"after_not_found", is.AfterNotFoundDead != was.AfterNotFoundDead}, {"failed_means", is.FailedNotApplied != was.FailedNotApplied},
		{"backoff", is.Backoff != was.Backoff}, {"give_up_after", is.GiveUpAfter != was.GiveUpAfter}, {"result", is.Results != was.Results}} {
		if f.differs {
			u.Overrides = append(u.Overrides, fmt.Sprintf("%s.%s: its own instead of the preset's", path, f.name))
		}
	}
}

// ref returns what a source stands for.
func (p *Preset) ref(source string) string {
	for _, s := range p.Sources {
		if s.Name == source {
			return s.Ref
		}
	}
	return source
}

// stronger reports whether a promises more than b about a second send under the same
// key. A natural operation needs no promise of the gateway.
func stronger(a, b jobs.Idempotency) bool {
	order := []jobs.Idempotency{jobs.IdempotencyNone, jobs.IdempotencyConditional, jobs.IdempotencyKeyed}
	return slices.Index(order, a) > slices.Index(order, b)
}

// presetInquiry returns the inquiry that the preset of d has for k; nil: none.
func (d *Dependency) presetInquiry(k *Kind) *Inquiry {
	if p := d.preset(); p != nil {
		return p.inquiry(k)
	}
	return nil
}

// preset warns where a configuration is bolder than what is known of the gateway.
func (w *warnings) preset(c *Config, d *Dependency) {
	p := d.preset()
	if p == nil {
		return
	}
	path := "dependencies." + string(d.Name)
	var sends bool // a keyed kind sends the dependency's own key header
	for _, k := range c.Kinds {
		sends = sends || k.Dependency == d.Name && k.Idempotency == jobs.IdempotencyKeyed && k.IdempotencyKey.Header == d.IdempotencyKey.Header
	}
	w.presetKey(path, d.IdempotencyKey, p, sends)
	for _, name := range slices.Sorted(maps.Keys(c.Kinds)) {
		k := c.Kinds[name]
		if k.Dependency != d.Name {
			continue
		}
		at := "operations." + string(name)
		w.presetKey(at, k.IdempotencyKey.beside(d.IdempotencyKey), p, k.Idempotency == jobs.IdempotencyKeyed)
		w.presetInquiry(at+".inquiry", k, d, p)
		if stronger(k.Idempotency, p.Idempotency.Value) {
			w.add("preset-weaker-class", at+".idempotency", string(p.Idempotency.Value)+", unless the gateway promised more", "%s promises more than preset %s knows of: %s", k.Idempotency, p.Name, p.Idempotency.Text)
		}
	}
}

// beside returns k without what the key above it says as well: there it was looked at.
func (k IdempotencyKey) beside(above IdempotencyKey) IdempotencyKey {
	if k.Header == above.Header {
		k.Header = ""
	}
	if k.Window == above.Window {
		k.Window = 0
	}
	if k.MaxLength == above.MaxLength {
		k.MaxLength = 0
	}
	return k
}

// presetKey warns of a key that trusts the gateway further than p knows of; what is
// empty or 0 in k trusts nothing. keyed: a keyed kind sends its header.
func (w *warnings) presetKey(path string, k IdempotencyKey, p *Preset, keyed bool) {
	path += ".idempotency_key"
	if keyed && k.Header != "" && p.Header.Value != "" && k.Header != p.Header.Value {
		w.add("preset-key-header", path+".header", p.Header.Value, "preset %s knows %s: where the gateway does not read %s, every resend acts again", p.Name, p.Header.Value, k.Header)
	}
	if p.Window.Value > 0 && k.Window > p.Window.Value {
		w.add("preset-key-window", path+".window", "at most "+spanText(p.Window.Value), "%s is longer than preset %s knows of (%s): a resend in between could act again",
			spanText(k.Window), p.Name, spanText(p.Window.Value))
	}
	if p.MaxLength.Value > 0 && k.MaxLength > p.MaxLength.Value {
		w.add("preset-key-length", path+".max_length", fmt.Sprintf("at most %d", p.MaxLength.Value), "%d is more than preset %s knows of (%d): a longer key may be refused, or cut and then be another operation's",
			k.MaxLength, p.Name, p.MaxLength.Value)
	}
}

// presetInquiry warns where k has the preset's inquiry and draws more from it. One that
// reads answers by rules of its own is all the file's.
func (w *warnings) presetInquiry(path string, k *Kind, d *Dependency, p *Preset) {
	preset := d.presetInquiry(k)
	if preset == nil || k.Inquiry == nil || k.Inquiry.Read != preset.Read {
		return
	}
	if k.Inquiry.Settle < preset.Settle {
		w.add("preset-settle-short", path+".settle", "at least "+spanText(preset.Settle), "%s is less than preset %s has (%s): what was done may not be found yet", spanText(k.Inquiry.Settle), p.Name, spanText(preset.Settle))
	}
	if preset.AfterNotFoundDead && !k.Inquiry.AfterNotFoundDead {
		w.add("preset-resends-not-found", path+".after_not_found", "dead, unless what the preset needs is so", "resend instead of dead, which preset %s has: it acts again unless %s", p.Name, p.Inquiry.Needs)
	}
}

// lacksHeader completes an error about a key without a header; "" if p, which may be
// nil, is not the reason.
func (p *Preset) lacksHeader() string {
	if p == nil || p.Header.Value != "" {
		return ""
	}
	return fmt.Sprintf("; preset %s has none: %s", p.Name, p.Header.Text)
}

// lacksWindow is lacksHeader for a window that is too short.
func (p *Preset) lacksWindow() string {
	if p == nil || p.Window.Value > 0 {
		return ""
	}
	return fmt.Sprintf("; preset %s knows none: %s", p.Name, p.Window.Text)
}
