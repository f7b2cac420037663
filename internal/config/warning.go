package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"redrive/internal/jobs"
)

// Warning is something that works and is probably not meant.
type Warning struct {
	ID   string // which sort it is, in kebab-case; never changed once released
	Path string // where it stands in the file
	What string // what is so, with the numbers
	Why  string // what follows from it
	Want string // what would be right, with the numbers
}

// String is the warning in one line, without what would be right.
func (w Warning) String() string { return w.Path + ": " + w.What + ": " + w.Why }

// Warnings returns, each as [Warning.String] has it, what [Config.Warned] does.
func (c *Config) Warnings() []string {
	var texts []string
	for _, w := range c.Warned() {
		texts = append(texts, w.String())
	}
	return texts
}

// Warned returns what the file shows by itself to be probably not meant, in the order
// of dependencies and kinds. What takes a load to see is found by package analysis,
// which joins these to its own.
func (c *Config) Warned() []Warning {
	w := &warnings{}
	w.api(c)
	for _, name := range slices.Sorted(maps.Keys(c.Dependencies)) {
		w.dependency(c, c.Dependencies[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Kinds)) {
		w.kind(c, c.Kinds[name])
	}
	return w.list
}

type warnings struct{ list []Warning }

// add adds a warning whose text is "what: why".
func (w *warnings) add(id, path, want, format string, args ...any) {
	what, why, _ := strings.Cut(fmt.Sprintf(format, args...), ": ")
	w.list = append(w.list, Warning{ID: id, Path: path, What: what, Why: why, Want: want})
}

func (w *warnings) dependency(c *Config, d *Dependency) {
	path := "dependencies." + string(d.Name)
	used := false
	for _, k := range c.Kinds {
		used = used || k.Dependency == d.Name
	}
	if !used {
		w.add("dependency-unused", path, "remove it, or bind a kind to it", "no kind is bound to it: nothing is ever sent there")
	}
	if c.ShutdownGrace < d.Timeout {
		w.add("shutdown-cuts-attempts", "shutdown_grace", "at least "+spanText(d.Timeout)+", and less than the orchestrator's kill time", "%s is less than the timeout of %s (%s): a slow attempt is cut at every restart and its outcome becomes unknown",
			spanText(c.ShutdownGrace), d.Name, spanText(d.Timeout))
	}
	if d.MinResponse > d.Timeout {
		w.add("min-response-above-timeout", path+".min_response", "less than "+spanText(d.Timeout), "%s is more than the timeout of %s: attempts that had the time are not made", spanText(d.MinResponse), spanText(d.Timeout))
	}
	if d.MaxInFlight > 0 && d.MaxInFlight < d.Slots {
		w.add("in-flight-below-slots", path+".max_in_flight", fmt.Sprintf("at least %d, or fewer slots", d.Slots), "%d is less than slots (%d): a process never uses the rest", d.MaxInFlight, d.Slots)
	}
	w.slowCall(c, path, d)
	w.preset(c, d)
	if u, err := url.Parse(d.BaseURL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		w.add("plain-http", path+".base_url", "https://", "http:// to another machine: requests and credentials travel in the clear")
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
			w.add("secret-in-file", path+"."+name, "${NAME} or ${file:/path}", "a secret stands in the file: write ${NAME} or ${file:/path} instead")
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
		w.add("deadline-below-timeout", path+".deadline", "more than "+spanText(d.Timeout), "%s is less than the timeout of %s (%s): the deadline cuts the first attempt", spanText(k.Deadline), d.Name, spanText(d.Timeout))
	}
	if k.Backoff.Base > k.Deadline {
		w.add("backoff-beyond-deadline", path+".backoff.base", "far less than "+spanText(k.Deadline), "%s is more than the deadline of %s: many operations would never be retried", spanText(k.Backoff.Base), spanText(k.Deadline))
	}
	w.inquiry(path, k)
}

func (w *warnings) inquiry(path string, k *Kind) {
	if k.Inquiry == nil && (k.Idempotency == jobs.IdempotencyNone || k.Idempotency == jobs.IdempotencyConditional) {
		w.add("no-inquiry", path, "an inquiry, or a class that the gateway keeps", "it is of class %s and has no inquiry: unknown outcomes end as dead(%s) and need a person", k.Idempotency, jobs.ReasonUnsafe)
	}
	if k.Inquiry == nil {
		return
	}
	at := path + ".inquiry.request.path"
	if k.IdempotencyKey.Header == "" && slices.Contains(placeholders(k.Inquiry.Path, ""), "idempotency_key") {
		w.add("inquiry-asks-unsent-key", at, "{key} or {params.NAME}, whichever the request bears", "{idempotency_key} is asked for, but no key is sent (idempotency_key.header is empty): unless the body bears it, nothing is ever found")
	}
	for _, name := range placeholders(k.Inquiry.Path, "result.") {
		w.add("inquiry-asks-late-result", at, "ask by what the request bears: {key}, {idempotency_key} or {params.NAME}", "{result.%s} is known only after an answer: what timed out cannot be asked about", name)
	}
	if k.VoidLate == nil {
		return
	}
	for _, param := range slices.Sorted(maps.Keys(k.VoidLate.Params)) {
		if name, ok := strings.CutPrefix(k.VoidLate.Params[param], "result."); ok && !slices.Contains(k.Inquiry.Results.Names(), name) {
			w.add("void-result-unknown", path+".void.params."+param, "read "+name+" in inquiry.result too", "result.%s is not among inquiry.result: a late success that is learnt by inquiry could not be voided", name)
		}
	}
}
