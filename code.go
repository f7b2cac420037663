package redrive

import (
	"errors"
	"fmt"
	"time"

	"redrive/internal/attempt"
	"redrive/internal/budget"
	"redrive/internal/config"
	"redrive/internal/jobs"
)

// Class says what a second send of the same operation would do.
type Class string

// The classes, weakest first.
const (
	None        Class = "none"        // it can repeat the effect; the default
	Conditional Class = "conditional" // the gateway rejects a duplicate recognisably
	Keyed       Class = "keyed"       // the gateway dedupes by the idempotency key for a window
	Natural     Class = "natural"     // it has the same effect
)

// Dependency is an outside system, as dependencies of the configuration file. What is 0
// has the file's default.
type Dependency struct {
	Name        string
	BaseURL     string        // that the paths of its kinds are added to; required
	Timeout     time.Duration // of one attempt; default 3s
	MinResponse time.Duration // no attempt with less time than this; default 150ms

	KeyHeader string        // that bears the idempotency key; "": Idempotency-Key, "-": none
	KeyWindow time.Duration // for which the gateway remembers a key; default 24h
}

// Kind is a sort of operation, as operations of the configuration file. What is 0 has the
// file's default.
type Kind struct {
	Name        string
	Dependency  string
	Path        string        // may use {key} and {params.NAME}
	Method      string        // default POST
	ContentType string        // default application/json
	Class       Class         // default None
	MaxAttempts int           // sends in all, the request path's counted in; default 25
	Deadline    time.Duration // span in which an operation that names none may be sent; default 2h
}

// configuration is what the options say of dependencies and kinds; nil: nothing.
func (o Options) configuration() (*config.Config, error) {
	if o.ConfigFile != "" {
		if len(o.Dependencies)+len(o.Kinds) > 0 {
			return nil, errors.New("options: give ConfigFile, or Dependencies and Kinds, not both")
		}
		return config.Load(o.ConfigFile)
	}
	if len(o.Dependencies)+len(o.Kinds) == 0 {
		return nil, nil
	}
	c := config.Default()
	c.Redis.URL = config.LiteralSecret(o.RedisURL)
	if o.RedisURL == "" {
		c.Redis.URL = config.LiteralSecret("redis://127.0.0.1:6379/0") // a client was given: the address is not used
	}
	if o.Namespace != "" {
		c.Redis.Namespace = o.Namespace
	}
	for _, d := range o.Dependencies {
		name := jobs.Dependency(d.Name)
		if c.Dependencies[name] != nil {
			return nil, fmt.Errorf("options: dependency %q is there twice", d.Name)
		}
		c.Dependencies[name] = d.config()
	}
	for _, k := range o.Kinds {
		d := c.Dependencies[jobs.Dependency(k.Dependency)]
		switch {
		case d == nil:
			return nil, fmt.Errorf("options: kind %q belongs to dependency %q, which is not among Dependencies", k.Name, k.Dependency)
		case c.Kinds[jobs.Kind(k.Name)] != nil:
			return nil, fmt.Errorf("options: kind %q is there twice", k.Name)
		}
		c.Kinds[jobs.Kind(k.Name)] = k.config(d)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return c, nil
}

func (d Dependency) config() *config.Dependency {
	out := config.NewDependency(jobs.Dependency(d.Name), d.BaseURL)
	if d.Timeout != 0 {
		out.Timeout, out.Breaker = d.Timeout, config.NewBreaker(d.Timeout)
	}
	if d.MinResponse != 0 {
		out.MinResponse = d.MinResponse
	}
	switch d.KeyHeader {
	case "":
	case "-":
		out.IdempotencyKey.Header = ""
	default:
		out.IdempotencyKey.Header = d.KeyHeader
	}
	if d.KeyWindow != 0 {
		out.IdempotencyKey.Window = d.KeyWindow
	}
	return out
}

func (k Kind) config(d *config.Dependency) *config.Kind {
	out := config.NewKind(jobs.Kind(k.Name), d, k.Path)
	for _, set := range []struct{ to, from *string }{{&out.Request.Method, &k.Method}, {&out.Request.ContentType, &k.ContentType}} {
		if *set.from != "" {
			*set.to = *set.from
		}
	}
	if k.Class != "" {
		out.Idempotency = jobs.Idempotency(k.Class)
	}
	if k.MaxAttempts != 0 {
		out.MaxAttempts = k.MaxAttempts
	}
	if k.Deadline != 0 {
		out.Deadline = k.Deadline
	}
	return out
}

func specsOf(c *config.Config) map[jobs.Kind]jobs.KindSpec {
	out := map[jobs.Kind]jobs.KindSpec{}
	for _, spec := range c.KindSpecs() {
		out[spec.Kind] = spec
	}
	return out
}

// gates are the gates as they are configured here, for as long as no worker has said its own.
func gates(c *config.Config) map[jobs.Dependency]budget.Params {
	if c == nil {
		return nil
	}
	out := map[jobs.Dependency]budget.Params{}
	for name, d := range c.Dependencies {
		out[name] = attempt.Gate(d)
	}
	return out
}
