package redrive

import (
	"context"
	"sync"
	"time"
)

const (
	clockEvery = 30 * time.Second
	clockTry   = time.Second
	// clockApart is how far the wall clock may have gone from the monotonic one since the
	// reading: a machine that slept, or whose clock was set, does not know Redis' until it is
	// read again.
	clockApart = time.Second
)

// clock knows about where Redis' clock is, so that a write that comes late can be told
// from one that comes in time. The zero value does not know yet.
type clock struct {
	mu    sync.Mutex // guards the rest
	redis time.Time
	local time.Time // when redis was read
}

// now estimates Redis' clock; zero: not known.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.local.IsZero() {
		return time.Time{}
	}
	return c.redis.Add(time.Since(c.local))
}

// at is an instant of this process by Redis' clock, as far as that is known: what the ledger
// is told of instants must be by its own.
func (c *clock) at(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := t.Sub(c.local)
	if c.local.IsZero() || (t.Round(0).Sub(c.local.Round(0))-since).Abs() > clockApart {
		return t
	}
	return c.redis.Add(since)
}

// read asks for it.
func (c *clock) read(ctx context.Context, client *Client) error {
	asked := time.Now()
	at, err := client.ledger.Now(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redis, c.local = at, asked.Add(time.Since(asked)/2)
	return nil
}

// refresh reads it again when the last reading is old: clocks drift apart.
func (c *clock) refresh(ctx context.Context, client *Client) {
	c.mu.Lock()
	old := !c.local.IsZero() && time.Since(c.local) > clockEvery
	c.mu.Unlock()
	if !old {
		return
	}
	try, cancel := context.WithTimeout(ctx, clockTry)
	defer cancel()
	_ = c.read(try, client) // the old one holds for longer
}
