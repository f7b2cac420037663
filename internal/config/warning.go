package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"redrive/internal/jobs"
)

// Warnings returns what works but is probably not meant, each with its path, in
// the order of dependencies and kinds. They are for a person to read at the start
// of worker run and in worker check.
func (c *Config) Warnings() []string {
	w := &warnings{}
	for _, name := range slices.Sorted(maps.Keys(c.Dependencies)) {
		w.dependency(c, c.Dependencies[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Kinds)) {
		w.kind(c, c.Kinds[name])
	}
	return w.texts
}

type warnings struct{ texts []string }

func (w *warnings) add(path, format string, args ...any) {
	w.texts = append(w.texts, path+": "+fmt.Sprintf(format, args...))
}

func (w *warnings) dependency(c *Config, d *Dependency) {
	path := "dependencies." + string(d.Name)
	used := false
	for _, k := range c.Kinds {
		used = used || k.Dependency == d.Name
	}
	if !used {
		w.add(path, "no kind is bound to it")
	}
	if c.ShutdownGrace < d.Timeout {
		w.add("shutdown_grace", "%s is less than the timeout of %s (%s): a slow attempt is cut at every restart and its outcome becomes unknown",
			spanText(c.ShutdownGrace), d.Name, spanText(d.Timeout))
	}
	if d.MinResponse > d.Timeout {
		w.add(path+".min_response", "%s is more than the timeout of %s: attempts that had the time are not made", spanText(d.MinResponse), spanText(d.Timeout))
	}
	if d.MaxInFlight > 0 && d.MaxInFlight < d.Slots {
		w.add(path+".max_in_flight", "%d is less than slots (%d): a process never uses the rest", d.MaxInFlight, d.Slots)
	}
	w.slowCall(c, path, d)
	w.preset(c, d)
	if u, err := url.Parse(d.BaseURL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		w.add(path+".base_url", "http:// to another machine: requests and credentials travel in the clear")
	}
	w.headers(path+".headers", d.Headers)
	for _, name := range slices.Sorted(maps.Keys(d.Credentials)) {
		w.headers(path+".credentials."+name+".headers", d.Credentials[name].Headers)
	}
}

// headers warns of a header that by its name is a secret and stands in the file.
func (w *warnings) headers(path string, headers map[string]Secret) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if !headers[name].HasRefs() && confidential(name) {
			w.add(path+"."+name, "a secret stands in the file: write ${NAME} or ${file:/path} instead")
		}
	}
}

func confidential(header string) bool {
	header = strings.ToLower(header)
	for _, word := range []string{"authorization", "cookie", "api-key", "apikey", "token", "secret", "password"} {
		if strings.Contains(header, word) {
			return true
		}
	}
	return false
}

func (w *warnings) kind(c *Config, k *Kind) {
	d := c.Dependencies[k.Dependency]
	path := "operations." + string(k.Name)
	if k.Deadline < d.Timeout {
		w.add(path+".deadline", "%s is less than the timeout of %s (%s): the deadline cuts the first attempt", spanText(k.Deadline), d.Name, spanText(d.Timeout))
	}
	if k.Backoff.Base > k.Deadline {
		w.add(path+".backoff.base", "%s is more than the deadline of %s: many operations would never be retried", spanText(k.Backoff.Base), spanText(k.Deadline))
	}
	w.inquiry(path, k)
}

func (w *warnings) inquiry(path string, k *Kind) {
	if k.Inquiry == nil && (k.Idempotency == jobs.IdempotencyNone || k.Idempotency == jobs.IdempotencyConditional) {
		w.add(path, "it is of class %s and has no inquiry: unknown outcomes end as dead(%s) and need a person", k.Idempotency, jobs.ReasonUnsafe)
	}
	if k.Inquiry == nil {
		return
	}
	at := path + ".inquiry.request.path"
	if k.IdempotencyKey.Header == "" && slices.Contains(placeholders(k.Inquiry.Path, ""), "idempotency_key") {
		w.add(at, "{idempotency_key} is asked for, but no key is sent (idempotency_key.header is empty): unless the body bears it, nothing is ever found")
	}
	for _, name := range placeholders(k.Inquiry.Path, "result.") {
		w.add(at, "{result.%s} is known only after an answer: what timed out cannot be asked about", name)
	}
	if k.VoidLate == nil {
		return
	}
	for _, param := range slices.Sorted(maps.Keys(k.VoidLate.Params)) {
		if name, ok := strings.CutPrefix(k.VoidLate.Params[param], "result."); ok && !slices.Contains(k.Inquiry.Results.Names(), name) {
			w.add(path+".void.params."+param, "result.%s is not among inquiry.result: a late success that is learnt by inquiry could not be voided", name)
		}
	}
}
