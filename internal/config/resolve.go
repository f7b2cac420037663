package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ResolveURL returns the Redis URL with every ${...} looked up. Both programs call
// it when they connect: the URL is the one secret that enqueue needs too, and
// whoever may not have it is told by the error which variable or file is missing.
// The result may hold a password: it is for the client's parser alone.
func (r Redis) ResolveURL(getenv func(string) string) (string, error) {
	raw, err := r.URL.Resolve(getenv)
	if err != nil {
		return "", fmt.Errorf("redis.url: %w", err)
	}
	if err := CheckRedisURL(raw); err != nil {
		return "", fmt.Errorf("redis.url: %w", err)
	}
	return raw, nil
}

// ResolveSecrets looks up every ${...} once and reports as an [*Error] all that are
// missing, each with its path. Secrets stay as they are, to be resolved again at
// each use; Listen and each BaseURL become what they stand for, as both must hold
// still while the program runs. It is for worker run and worker check, before
// anything else reads the Config; enqueue never calls it.
func (c *Config) ResolveSecrets(getenv func(string) string) error {
	v := &validator{c: c}
	v.lookUp("redis.url", c.Redis.URL, getenv, CheckRedisURL)
	v.settle("listen", &c.Listen, getenv, checkListen)
	for _, name := range slices.Sorted(maps.Keys(c.Dependencies)) {
		d, path := c.Dependencies[name], "dependencies."+string(name)
		v.settle(path+".base_url", &d.BaseURL, getenv, checkBaseURL)
		v.lookUpAll(path+".headers", d.Headers, getenv)
		for _, name := range slices.Sorted(maps.Keys(d.Credentials)) {
			v.lookUpAll(path+".credentials."+name+".headers", d.Credentials[name].Headers, getenv)
		}
	}
	return c.source.err(v.findings)
}

// lookUp resolves s, reports what is missing, and then what check says.
func (v *validator) lookUp(path string, s Secret, getenv func(string) string, check func(string) error) (string, bool) {
	text, errs := s.resolve(getenv)
	for _, err := range errs {
		v.fail(path, "%v", err)
	}
	if len(errs) > 0 {
		return "", false
	}
	if err := check(text); err != nil {
		v.fail(path, "%v", err)
		return "", false
	}
	return text, true
}

func (v *validator) lookUpAll(path string, headers map[string]Secret, getenv func(string) string) {
	anything := func(string) error { return nil }
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		v.lookUp(path+"."+name, headers[name], getenv, anything)
	}
}

// settle replaces a text with ${...} by what it stands for.
func (v *validator) settle(path string, text *string, getenv func(string) string, check func(string) error) {
	if !hasRefs(*text) {
		return
	}
	s, err := NewSecret(*text)
	if err != nil {
		v.fail(path, "%v", err)
		return
	}
	if resolved, ok := v.lookUp(path, s, getenv, check); ok {
		*text = resolved
	}
}

// hasRefs reports whether text, which was read by object.late, waits for
// ResolveSecrets: no other dollar can stand in it.
func hasRefs(text string) bool { return strings.Contains(text, "${") }
