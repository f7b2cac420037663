package worker

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// mute keeps go-redis from telling of every dial that a test makes fail.
type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(mute{})
	goleak.VerifyTestMain(m)
}
