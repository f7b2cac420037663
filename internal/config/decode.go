package config

import (
	"log/slog"
	"net/textproto"
	"slices"
	"strings"

	"redrive/internal/jobs"

	"github.com/goccy/go-yaml/ast"
)

// config reads the whole document into c, which holds the defaults.
func (d *decoder) config(root ast.Node, c *Config) {
	o := d.value("", position{1, 1}, root).object("redis, dependencies, operations, ...")
	if v, ok := o.take("redis"); ok {
		d.redis(v, &c.Redis)
	}
	o.late("listen", &c.Listen)
	o.span("shutdown_grace", &c.ShutdownGrace)
	if v, ok := o.take("log"); ok {
		d.log(v, &c.Log)
	}
	if v, ok := o.take("dependencies"); ok {
		for _, e := range d.named(v, "dependency", "name: {base_url: ...}") {
			dep := NewDependency(jobs.Dependency(e.key), "")
			d.dependency(e.value, dep)
			c.Dependencies[dep.Name] = dep
		}
	}
	if v, ok := o.take("operations"); ok {
		for _, e := range d.named(v, "kind", "name: {dependency: ..., request: {path: ...}}") {
			kind := jobs.Kind(e.key)
			c.Kinds[kind] = d.kind(e.value, kind, c)
		}
	}
	if v, ok := o.take("retention"); ok {
		d.retention(v, &c.Retention)
	}
	d.api(o, c)
	o.entries = slices.DeleteFunc(o.entries, func(e entry) bool { return strings.HasPrefix(e.key, "x-") })
	o.done()
}

// named returns the entries of a mapping whose keys are names.
func (d *decoder) named(v value, what, example string) []entry {
	entries, _ := v.entriesOf(example)
	return slices.DeleteFunc(entries, func(e entry) bool {
		if err := jobs.CheckName(e.key); err != nil {
			d.hide(e.node)
			d.findings = append(d.findings, finding{at: e.at, path: v.path, message: what + ": " + err.Error()})
			return true
		}
		return e.node == nil
	})
}

func (d *decoder) redis(v value, r *Redis) {
	o := v.object("url: redis://127.0.0.1:6379/0")
	o.secret("url", &r.URL)
	o.text("namespace", &r.Namespace)
	word(o, "durability", "durability", &r.Durability, Durabilities)
	if v, ok := o.take("assume"); ok {
		a := v.object("maxmemory_policy: noeviction, persistence: aof")
		word(a, "maxmemory_policy", "maxmemory policy", &r.Assume.MaxmemoryPolicy, maxmemoryPolicies)
		word(a, "persistence", "persistence", &r.Assume.Persistence, persistences)
		a.done()
	}
	integer(o, "wait_replicas", &r.WaitReplicas)
	o.done()
}

// maxmemoryPolicies are Redis' own words, persistences ours for what INFO tells.
var (
	maxmemoryPolicies = []string{"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random",
		"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"}
	persistences = []string{"none", "rdb", "aof"}
)

func (d *decoder) log(v value, l *Log) {
	o := v.object("level: info, format: auto")
	var level logLevel
	if word(o, "level", "log level", &level, logLevels); level != "" {
		l.Level = level.slog()
	}
	word(o, "format", "log format", &l.Format, LogFormats)
	o.done()
}

// logLevel is a log level as people write it.
type logLevel string

var logLevels = []logLevel{"debug", "info", "warn", "error"}

// slog returns the level that l names; l is one of logLevels.
func (l logLevel) slog() slog.Level {
	return slog.Level(slices.Index(logLevels, l)-1) * 4 // slog's levels lie 4 apart, info at 0
}

func (d *decoder) dependency(v value, dep *Dependency) {
	o := v.object("base_url: https://...")
	o.late("base_url", &dep.BaseURL)
	preset := d.presetOf(o)
	if preset != nil {
		dep.Preset, dep.IdempotencyKey = preset.Name, preset.key(dep.IdempotencyKey)
	}
	if v, ok := o.take("headers"); ok {
		dep.Headers = d.headers(v)
	}
	if v, ok := o.take("credentials"); ok {
		for _, e := range d.named(v, "credential", "name: {headers: {Authorization: ...}}") {
			c := e.object("headers: {Authorization: ...}")
			headers := map[string]Secret{}
			if v, ok := c.take("headers"); ok {
				headers = d.headers(v)
			}
			dep.Credentials[e.key] = Credential{Headers: headers}
			c.done()
		}
	}
	o.span("timeout", &dep.Timeout)
	o.span("min_response", &dep.MinResponse)
	integer(o, "slots", &dep.Slots)
	integer(o, "max_in_flight", &dep.MaxInFlight)
	if v, ok := o.take("budget"); ok {
		b := v.object("ratio: 0.1, cap: 100, floor_per_second: 1")
		b.milli("ratio", &dep.Budget.RatioMilli)
		integer(b, "cap", &dep.Budget.Cap)
		b.milli("floor_per_second", &dep.Budget.FloorMilliPerSecond)
		b.done()
	}
	d.gate(o, dep)
	if v, ok := o.take("idempotency_key"); ok {
		d.idempotencyKey(v, &dep.IdempotencyKey)
	}
	integer(o, "max_backlog", &dep.MaxBacklog)
	if v, ok := o.take("rules"); ok {
		dep.Rules = d.rules(v)
	}
	if preset != nil {
		dep.Rules = dep.Rules.Then(preset.rules)
	}
	o.done()
}

// headers reads names and values; the names become canonical, so that the same
// header written in two ways is the same header.
func (d *decoder) headers(v value) map[string]Secret {
	entries, _ := v.entriesOf(`Authorization: "Bearer ${NAME}"`)
	out := make(map[string]Secret, len(entries))
	for _, e := range entries {
		d.hide(e.node)
		name := textproto.CanonicalMIMEHeaderKey(e.key)
		if _, twice := out[name]; twice {
			e.fail("the header %s is given twice: header names have no case", name)
			continue
		}
		d.source.at[join(v.path, name)] = e.at
		if s, ok := e.secret(); ok {
			out[name] = s
		}
	}
	return out
}

// idempotencyKey reads what is written into k, which holds what applies otherwise.
func (d *decoder) idempotencyKey(v value, k *IdempotencyKey) {
	o := v.object("header: Idempotency-Key, window: 24h")
	o.text("header", &k.Header)
	k.Header = textproto.CanonicalMIMEHeaderKey(k.Header)
	o.span("window", &k.Window)
	integer(o, "max_length", &k.MaxLength)
	if v, ok := o.take("replayed"); ok {
		if text, ok := v.plain(); ok {
			var err error
			if k.Replayed, err = parseReplayMark(text); err != nil {
				v.fail("%v", err)
			}
		}
	}
	o.done()
}

func (d *decoder) kind(v value, name jobs.Kind, c *Config) *Kind {
	o := v.object("dependency: ..., request: {path: ...}")
	var dependency string
	o.text("dependency", &dependency)
	dep := c.Dependencies[jobs.Dependency(dependency)]
	if dep == nil { // validation says so; the rest is read against the defaults
		dep = NewDependency(jobs.Dependency(dependency), "")
	}
	k := NewKind(name, dep, "")
	if v, ok := o.take("request"); ok {
		r := v.object("method: POST, path: /...")
		r.text("method", &k.Request.Method)
		r.text("path", &k.Request.Path)
		r.text("content_type", &k.Request.ContentType)
		r.done()
	}
	word(o, "idempotency", "idempotency", &k.Idempotency, jobs.Idempotencies)
	if v, ok := o.take("idempotency_key"); ok {
		d.idempotencyKey(v, &k.IdempotencyKey)
	}
	integer(o, "max_attempts", &k.MaxAttempts)
	if v, ok := o.take("backoff"); ok {
		b := v.object("base: 1s, cap: 10m")
		b.span("base", &k.Backoff.Base)
		b.span("cap", &k.Backoff.Cap)
		b.done()
	}
	o.span("deadline", &k.Deadline)
	d.newAttempts(o, &k.NewAttempts)
	if v, ok := o.take("columns"); ok {
		for _, e := range d.named(v, "column", "amount: /amount") {
			if pointer, ok := e.plain(); ok {
				k.Columns[e.key] = pointer
			}
		}
	}
	if v, ok := o.take("result"); ok {
		k.Results = d.results(v)
	}
	k.Inquiry = dep.presetInquiry(k)
	if v, ok := o.take("inquiry"); ok {
		k.Inquiry = d.inquiry(v, k, k.Inquiry)
	}
	d.lateSuccesses(o, k)
	o.done()
	return k
}

func (d *decoder) retention(v value, r *Retention) {
	o := v.object("succeeded: 168h, keys: 2160h")
	o.span("succeeded", &r.Succeeded)
	o.span("cancelled", &r.Cancelled)
	o.span("dead", &r.Dead)
	o.span("keys", &r.Keys)
	o.span("audit", &r.Audit)
	o.done()
}
