package ledger

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"redrive/internal/jobs"
)

// ResendUnsafe says why one more send at an instant would not be safe, "" when it
// would be: settle.safe of the Lua library, in words. spec is the kind as it is
// configured now; nil if nobody knows it.
func (d *Detail) ResendUnsafe(spec *jobs.KindSpec, at time.Time) string {
	if !d.marked {
		return ""
	}
	if spec == nil {
		return "nobody knows its kind now"
	}
	class := d.Idempotency.Weaker(spec.Idempotency)
	switch class {
	case jobs.IdempotencyNone:
		return fmt.Sprintf("its class is none: %s would take it for a new one", d.Dependency)
	case jobs.IdempotencyConditional:
		return "its class is conditional: only a rejected duplicate would show that it is one"
	}
	if why := d.elsewhere(spec, class); why != "" {
		return why
	}
	if class == jobs.IdempotencyKeyed && (d.KeySafeUntil == nil || !at.Before(d.KeySafeUntil.Time)) {
		if d.KeySafeUntil == nil {
			return "it is not known until when its key is remembered"
		}
		return fmt.Sprintf("its key's window is over: a resend was safe until %s", d.KeySafeUntil)
	}
	return ""
}

// elsewhere says what of the target of the unknown attempts differs from where an
// attempt would go now.
func (d *Detail) elsewhere(spec *jobs.KindSpec, class jobs.Idempotency) string {
	if d.target == d.digest(*spec) {
		return ""
	}
	why, _, _ := strings.Cut(d.target, "-") // see settle.apart
	switch why {
	case "nokey":
		return "it was sent without its key, or nobody said under which"
	case "other":
		return "another request was sent under its name, or a person doubts it"
	case "old":
		return "it may be older than an expired record of it: what was sent before is not known"
	case "barred":
		return "what it was a new attempt of may have taken effect, or had been tried too often"
	case "answered":
		return "what one of its sends was answered allows no other before it is known what became of it"
	case "mixed":
		return "its attempts with an unknown outcome differ in base_url, credential, key or class"
	case "":
		return "where it went is not known"
	}
	for _, c := range jobs.Idempotencies {
		if d.target == digestOf(c, spec.BaseURL, d.Credential, spec.KeyHeader, d.IdempotencyKey) {
			return fmt.Sprintf("its class was %s when it was sent and is %s now", c, class)
		}
	}
	for _, credential := range spec.Credentials {
		if d.target == digestOf(class, spec.BaseURL, credential, spec.KeyHeader, d.IdempotencyKey) {
			return fmt.Sprintf("it was sent under credential %s, and its credential is %s now", credential, d.Credential)
		}
	}
	if d.target == digestOf(class, spec.BaseURL, d.Credential, "", d.IdempotencyKey) {
		return fmt.Sprintf("it was sent without the key header %s that is configured now", spec.KeyHeader)
	}
	if spec.BaseURL == "" {
		return "where its kind is sent to is not known here: start a worker once, it publishes it"
	}
	return fmt.Sprintf("its target differs: it was sent to another base_url than %s, or under another key header", spec.BaseURL)
}

// digest is settle.digest of the Lua library: everything that must be equal before
// a resend is safe.
func (d *Detail) digest(spec jobs.KindSpec) string {
	return digestOf(d.Idempotency.Weaker(spec.Idempotency), spec.BaseURL, d.Credential, spec.KeyHeader, d.IdempotencyKey)
}

func digestOf(class jobs.Idempotency, base, credential, header, key string) string {
	under := header + ":" + key
	if class == jobs.IdempotencyNatural {
		under = ""
	}
	sum := sha1.Sum([]byte(strings.Join([]string{string(class), base, credential, under}, "\n")))
	place := sha1.Sum([]byte(base + "\n" + credential))
	return hex.EncodeToString(sum[:])[:10] + hex.EncodeToString(place[:])[:6]
}
