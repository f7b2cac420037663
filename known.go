package redrive

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"redrive/internal/jobs"
)

const (
	// lookAgainEvery is how often a name that nobody knows makes the client ask for what
	// workers have published since: a misspelt one must not cost Redis a read for each call.
	lookAgainEvery  = time.Second
	lookAgainWithin = 250 * time.Millisecond
)

// lookAgain remembers when the published kinds were read for a name that was not known.
type lookAgain struct {
	mu  sync.Mutex // guards the rest, and is held by who reads: the others wait for its answer
	at  time.Time
	err error
}

// knows is nil for a dependency of the configuration, or of a published kind; else [*Invalid]
// that names those that are. A call of another would run outside every gate.
func (c *Client) knows(ctx context.Context, name jobs.Dependency) error {
	if c.config != nil {
		if c.config.Dependencies[name] != nil {
			return nil
		}
		return unknownDependency(name, slices.Sorted(maps.Keys(c.config.Dependencies)), nil)
	}
	if c.published(name) {
		return nil
	}
	err := c.readPublished(ctx)
	if c.published(name) {
		return nil
	}
	return unknownDependency(name, c.dependencies(), err)
}

func (c *Client) published(name jobs.Dependency) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, spec := range c.specs {
		if spec.Dependency == name {
			return true
		}
	}
	return false
}

func unknownDependency(name jobs.Dependency, known []jobs.Dependency, unread error) error {
	err := fmt.Errorf("unknown dependency %q (known are %v)", name, known)
	if unread != nil {
		err = fmt.Errorf("%w, and what workers have published since could not be read: %w", err, unread)
	}
	return invalid(err)
}

// readPublished takes in the kinds that workers have published since, if that was not looked
// at just now.
func (c *Client) readPublished(ctx context.Context) error {
	c.again.mu.Lock()
	defer c.again.mu.Unlock()
	if time.Since(c.again.at) < lookAgainEvery {
		return c.again.err
	}
	// For all who ask: one caller's end is not theirs.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAgainWithin)
	defer cancel()
	published, err := c.ledger.Kinds(ctx)
	c.again.at, c.again.err = time.Now(), err
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.specs, published) // what was known stays so
	c.replicas = c.ledger.WaitingFor(replicasOf(c.specs))
	return nil
}

// replicasOf is how many replicas the workers of these kinds wait for.
func replicasOf(kinds map[jobs.Kind]jobs.KindSpec) int {
	wait := 0
	for _, spec := range kinds {
		wait = max(wait, spec.WaitReplicas)
	}
	return wait
}
