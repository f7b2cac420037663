package httpapi

import (
	"context"
	"sync"
	"time"

	"redrive/internal/ledger"
)

// clockFresh is for how long Redis' clock is told from ours without asking.
const clockFresh = 10 * time.Second

// clock is Redis' clock, for what need not be exact: an import asks for it line by line.
type clock struct {
	ledger *ledger.Ledger

	mu              sync.Mutex // guards redisAt, readAt
	redisAt, readAt time.Time  // Redis' clock, and ours when it was read; zero: not read yet
}

func (c *clock) now(ctx context.Context) (time.Time, error) {
	c.mu.Lock()
	redisAt, age := c.redisAt, time.Since(c.readAt)
	c.mu.Unlock()
	if !redisAt.IsZero() && age < clockFresh {
		return redisAt.Add(age), nil
	}
	now, err := c.ledger.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redisAt, c.readAt = now.UTC(), time.Now()
	return c.redisAt, nil
}
