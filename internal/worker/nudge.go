package worker

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// nudgeOptions keep the subscription cheap: a connection that died is noticed within
// half a minute, and until then a new operation starts within a second all the same.
var nudgeOptions = []redis.ChannelOption{redis.WithChannelHealthCheckInterval(15 * time.Second)}

// nudges wakes a conveyor when a submission says that it is due first. It ends with
// ctx; while Redis is away go-redis connects again by itself.
func (r *run) nudges(ctx context.Context) {
	channels := map[string]*conveyor{}
	var list []string
	for dep, c := range r.conveyors {
		name := r.o.Ledger.NudgeChannel(dep)
		channels[name] = c
		list = append(list, name)
	}
	sub := r.o.Queue.Subscribe(ctx, list...)
	defer sub.Close() // ends its goroutine; nothing to lose
	messages := sub.Channel(nudgeOptions...)
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			if c := channels[m.Channel]; c != nil {
				c.nudged(nudgeDelay(m.Payload))
			}
		}
	}
}

// nudgeDelay reads how soon a nudge says that something is due; at once when it
// says nothing that can be read.
func nudgeDelay(payload string) time.Duration {
	ms, err := strconv.ParseInt(payload, 10, 32)
	if err != nil || ms < 0 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
