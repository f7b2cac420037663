package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// Limits of values.
const (
	maxSlots       = 10_000    // goroutines and sockets of one process
	maxTokens      = 1_000_000 // keeps thousandths times seconds exact in Lua
	maxFloor       = 10_000    // tokens a second: beyond it, there is no budget
	maxAttempts    = 1000      // each attempt is kept in the operation's record
	maxKeyLength   = 1000      // bytes; RFC 8941 strings in the wild stay far below
	maxBacklog     = 1_000_000_000
	maxMaxInFlight = 1_000_000
	maxReplicas    = 10 // more than anybody waits for
)

// validator collects what is wrong with a Config built by whomever.
type validator struct {
	c        *Config
	findings []finding
}

func (v *validator) fail(path, format string, args ...any) {
	v.failFrom(path, "", format, args...)
}

// failFrom is fail for a value that may come from another path's default.
func (v *validator) failFrom(path, fallback, format string, args ...any) {
	v.findings = append(v.findings, finding{path: path, fallback: fallback, message: fmt.Sprintf(format, args...)})
}

// Validate reports as an [*Error] every value that cannot work, by itself or with
// another. [Parse] has done so already; it is for a Config built or changed in code.
func (c *Config) Validate() error { return c.validate(true) }

// validate is Validate; without needURL Redis may be named later, by a flag.
func (c *Config) validate(needURL bool) error {
	v := &validator{c: c}
	v.redis(needURL)
	if !hasRefs(c.Listen) {
		v.check("listen", checkListen(c.Listen))
	}
	v.span("shutdown_grace", c.ShutdownGrace)
	v.word("log.format", "log format", string(c.Log.Format), words(LogFormats))
	if len(c.Dependencies) == 0 {
		v.fail("dependencies", "required: at least one dependency with a base_url")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Dependencies)) {
		v.dependency("dependencies."+string(name), c.Dependencies[name])
	}
	if len(c.Kinds) == 0 {
		v.fail("operations", "required: at least one kind with dependency and request")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Kinds)) {
		v.kind("operations."+string(name), c.Kinds[name])
	}
	v.retention()
	v.api()
	return c.source.err(v.findings)
}

func (v *validator) check(path string, err error) {
	if err != nil {
		v.fail(path, "%v", err)
	}
}

// name checks the name of what stands at path, which the path ends with.
func (v *validator) name(path, name string) {
	if !strings.HasSuffix(path, "."+name) {
		v.fail(path, "is named %q inside: the two must be the same", name)
	}
	v.check(path, jobs.CheckName(name))
}

func (v *validator) word(path, what, text string, allowed []string) {
	if _, err := jobs.Parse(what, text, allowed); err != nil {
		v.fail(path, "%v%s", err, didYouMean(text, allowed))
	}
}

// span checks a span that may be 0 and reports whether it is sound.
func (v *validator) span(path string, d time.Duration) bool {
	err := checkSpan(d)
	v.check(path, err)
	return err == nil
}

// spanUpTo checks a span that may be 0 and is at most top.
func (v *validator) spanUpTo(path string, d, top time.Duration) bool {
	if d > top {
		v.fail(path, "%s is more than %s", spanText(d), spanText(top))
		return false
	}
	return v.span(path, d)
}

// positive checks a span that may not be 0.
func (v *validator) positive(path string, d time.Duration, why string) bool {
	if d == 0 {
		v.fail(path, "must be above 0: %s", why)
		return false
	}
	return v.span(path, d)
}

// backoff checks the two bounds of a wait; why is what a base of 0 would lead to.
func (v *validator) backoff(path string, base, top time.Duration, why string) {
	if v.positive(path+".base", base, why) && v.span(path+".cap", top) && top < base {
		v.fail(path+".cap", "%s is less than the base of %s", spanText(top), spanText(base))
	}
}

func (v *validator) between(path string, n, low, high int64, zero string) {
	switch {
	case n == 0 && low > 0 && zero != "":
		v.fail(path, "must be from %d to %d: %s", low, high, zero)
	case n < low || n > high:
		v.fail(path, "%d is not from %d to %d", n, low, high)
	}
}

// milliUpTo checks n thousandths, from 0 to high whole ones.
func (v *validator) milliUpTo(path string, n, high int64) {
	if n < 0 || n > high*1000 {
		v.fail(path, "%s is not from 0 to %d", milliText(n), high)
	}
}

func checkSpan(d time.Duration) error {
	switch {
	case d < 0:
		return fmt.Errorf("%s is negative: a span cannot be", spanText(d))
	case d > MaxDuration:
		return fmt.Errorf("%s is more than ten years (%s)", spanText(d), spanText(MaxDuration))
	case d%time.Millisecond != 0:
		return fmt.Errorf("%s is finer than a millisecond, the resolution of Redis' clock here", d)
	}
	return nil
}

func (v *validator) redis(needURL bool) {
	r := v.c.Redis
	switch {
	case r.URL.IsZero():
		if needURL {
			v.fail("redis.url", "required: write one such as redis://127.0.0.1:6379/0")
		}
	case !r.URL.HasRefs():
		v.check("redis.url", CheckRedisURL(r.URL.literal()))
	}
	v.check("redis.namespace", jobs.CheckNamespace(r.Namespace))
	v.word("redis.durability", "durability", string(r.Durability), words(Durabilities))
	if p := r.Assume.MaxmemoryPolicy; p != "" {
		v.word("redis.assume.maxmemory_policy", "maxmemory policy", p, maxmemoryPolicies)
	}
	if p := r.Assume.Persistence; p != "" {
		v.word("redis.assume.persistence", "persistence", p, persistences)
	}
	v.between("redis.wait_replicas", int64(r.WaitReplicas), 0, maxReplicas, "")
}

func (v *validator) dependency(path string, d *Dependency) {
	v.name(path, string(d.Name))
	if !hasRefs(d.BaseURL) {
		v.check(path+".base_url", checkBaseURL(d.BaseURL))
	}
	v.headers(path+".headers", d.Headers, d.IdempotencyKey.Header)
	for _, name := range slices.Sorted(maps.Keys(d.Credentials)) {
		at := path + ".credentials." + name
		v.check(at, jobs.CheckName(name))
		if len(d.Credentials[name].Headers) == 0 {
			v.fail(at, "a credential without headers is none: write headers: {Authorization: \"Bearer ${NAME}\"}")
		}
		v.headers(at+".headers", d.Credentials[name].Headers, d.IdempotencyKey.Header)
	}
	if v.positive(path+".timeout", d.Timeout, "an attempt without a time limit could hold its slot for ever") && d.Timeout > maxBreakerWindow {
		v.fail(path+".timeout", "%s is more than %s: a call must be over within the breaker's window, which is at most so long", spanText(d.Timeout), spanText(maxBreakerWindow))
	}
	v.span(path+".min_response", d.MinResponse)
	v.between(path+".slots", int64(d.Slots), 1, maxSlots, "without a slot nothing is ever sent; to stop for a while, pause the dependency")
	v.between(path+".max_in_flight", int64(d.MaxInFlight), 0, maxMaxInFlight, "")
	v.budget(path+".budget", d.Budget)
	v.gate(path, d)
	v.idempotencyKey(path+".idempotency_key", "", d.IdempotencyKey)
	v.between(path+".max_backlog", d.MaxBacklog, 1, maxBacklog, "with 0 nothing could be submitted")
	if _, known, err := FindPreset(d.Preset); d.Preset != "" && (!known || err != nil) {
		v.fail(path+".preset", "unknown preset %q%s", d.Preset, NearestPreset(d.Preset))
	}
	v.rules(path+".rules", d)
}

func (v *validator) headers(path string, headers map[string]Secret, keyHeader string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at := path + "." + name
		if err := checkHeader(name, keyHeader); err != nil {
			v.fail(at, "%v", err)
		} else if headers[name].IsZero() {
			v.fail(at, "has no value: write one, or remove the header")
		}
	}
}

func (v *validator) budget(path string, b Budget) {
	if b.RatioMilli < 0 || b.RatioMilli > 1000 {
		v.fail(path+".ratio", "%s is not from 0 to 1: a dependency gets at most one call more for each first attempt", milliText(b.RatioMilli))
	}
	v.between(path+".cap", b.Cap, 1, maxTokens, "without a token nothing would ever be retried")
	v.milliUpTo(path+".floor_per_second", b.FloorMilliPerSecond, maxFloor)
	if b.RatioMilli == 0 && b.FloorMilliPerSecond == 0 {
		v.fail(path, "nothing would ever be retried: ratio and floor_per_second are both 0")
	}
}

// milliText writes thousandths as people write them.
func milliText(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%s%d.%03d", sign, n/1000, n%1000), "0"), ".")
}

func (v *validator) idempotencyKey(path, fallback string, k IdempotencyKey) {
	if k.Header != "" {
		if err := checkKeyHeader(k.Header); err != nil {
			v.failFrom(path+".header", fallback+".header", "%v", err)
		}
	}
	if k.Replayed != (ReplayMark{}) {
		if err := checkToken(k.Replayed.Header); err != nil {
			v.failFrom(path+".replayed", fallback+".replayed", "%v", err)
		}
	}
	v.span(path+".window", k.Window)
	v.between(path+".max_length", int64(k.MaxLength), 1, maxKeyLength, "no key would be short enough; for no key at all write header: \"\"")
}

func (v *validator) kind(path string, k *Kind) {
	v.name(path, string(k.Name))
	d := v.c.Dependencies[k.Dependency]
	switch {
	case k.Dependency == "":
		v.fail(path+".dependency", "required: the name of one of the dependencies (%s)", strings.Join(v.dependencyNames(), ", "))
	case d == nil:
		v.fail(path+".dependency", "unknown dependency %q%s", k.Dependency, orNearest(string(k.Dependency), v.dependencyNames()))
	}
	v.request(path+".request", k.Request)
	v.word(path+".idempotency", "idempotency", string(k.Idempotency), words(jobs.Idempotencies))
	v.between(path+".max_attempts", int64(k.MaxAttempts), 1, maxAttempts, "nothing would ever be sent")
	v.backoff(path+".backoff", k.Backoff.Base, k.Backoff.Cap, "retries would follow each other without a pause")
	if v.positive(path+".deadline", k.Deadline, "every operation needs a deadline") && d != nil && k.Deadline <= d.MinResponse {
		v.fail(path+".deadline", "%s leaves no time for an attempt: min_response of %s is %s", spanText(k.Deadline), d.Name, spanText(d.MinResponse))
	}
	v.newAttempts(path+".new_attempts", k.NewAttempts)
	for _, name := range slices.Sorted(maps.Keys(k.Columns)) {
		at := path + ".columns." + name
		v.check(at, jobs.CheckName(name))
		v.check(at, checkPointer(k.Columns[name]))
	}
	v.inquiry(path+".inquiry", k, d)
	v.void(path+".void", k, k.VoidLate)
	v.void(path+".void", k, k.idleVoid)
	if d == nil {
		return // what follows compares with the dependency
	}
	if k.IdempotencyKey != d.IdempotencyKey { // else reported there
		v.idempotencyKey(path+".idempotency_key", "", k.IdempotencyKey)
		if h := k.IdempotencyKey.Header; h != "" {
			v.keyHeaderClash(path+".idempotency_key.header", h, d)
		}
	}
	if k.Idempotency == jobs.IdempotencyKeyed {
		v.keyed(path, k, d)
	}
}

// keyHeaderClash refuses a key header of a kind that its dependency sets itself.
func (v *validator) keyHeaderClash(path, header string, d *Dependency) {
	_, clash := d.Headers[header]
	for _, c := range d.Credentials {
		_, own := c.Headers[header]
		clash = clash || own
	}
	if clash {
		v.fail(path, "the header %s carries the idempotency key here, but headers of %s set it too", header, d.Name)
	}
}

// keyed checks that a resend of a keyed kind can be safe at all.
func (v *validator) keyed(path string, k *Kind, d *Dependency) {
	at, from := path+".idempotency_key", "dependencies."+string(d.Name)+".idempotency_key"
	key := k.IdempotencyKey
	if key.Header == "" {
		v.failFrom(at+".header", from+".header", "kind %s is keyed, so its key needs a header: write one such as Idempotency-Key%s", k.Name,
			d.preset().lacksHeader())
	}
	if lease := policy.ClaimLease(d.Timeout); policy.ResendSafe(key.Window, lease) <= 0 {
		v.failFrom(at+".window", from+".window",
			"kind %s is keyed, but a window of %s leaves no time in which a resend is safe: it must be longer than two claim leases of %s each (timeout of %s and %s)%s",
			k.Name, spanText(key.Window), spanText(lease), spanText(d.Timeout), spanText(lease-d.Timeout),
			d.preset().lacksWindow())
	}
}

func (v *validator) dependencyNames() []string {
	return words(slices.Sorted(maps.Keys(v.c.Dependencies)))
}

// retention checks that keys, the dedupe window, outlasts whatever relies on it.
func (v *validator) retention() {
	r := v.c.Retention
	v.span("retention.dead", r.Dead)
	v.span("retention.audit", r.Audit)
	sound := v.span("retention.succeeded", r.Succeeded)
	sound = v.span("retention.cancelled", r.Cancelled) && sound
	if sound = v.span("retention.keys", r.Keys) && sound; !sound {
		return
	}
	atLeast := func(name string, d time.Duration) {
		if outlasts(r.Keys, d) {
			return
		}
		v.failFrom("retention.keys", "retention."+name, "%s is less than %s (%s): keys is the dedupe window and must be at least as long; 0 is for ever",
			spanText(r.Keys), name, forEver(d))
	}
	atLeast("succeeded", r.Succeeded)
	atLeast("cancelled", r.Cancelled)
	for _, name := range slices.Sorted(maps.Keys(v.c.Kinds)) {
		k := v.c.Kinds[name]
		// A key window of 0 is one that is not known, not one without end.
		if k.IdempotencyKey.Header != "" && k.IdempotencyKey.Window > 0 && !outlasts(r.Keys, k.IdempotencyKey.Window) {
			v.fail("retention.keys", "%s is less than the idempotency window of kind %s (%s): an operation submitted again after %s would get the old answer",
				spanText(r.Keys), name, spanText(k.IdempotencyKey.Window), spanText(r.Keys))
		}
	}
}

// outlasts reports whether keeping for a is at least as long as keeping for b,
// where 0 is for ever.
func outlasts(a, b time.Duration) bool { return a == 0 || b != 0 && a >= b }

func forEver(d time.Duration) string {
	if d == 0 {
		return "for ever"
	}
	return spanText(d)
}

// spanText writes a span as people do: 2h, not 2h0m0s.
func spanText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
