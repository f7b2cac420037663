package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqLog passes on what asynq has to say: its warnings as ours, the rest for
// those who look closely. While Redis cannot be used asynq repeats what health has
// said once already, so then it is all detail.
type asynqLog struct {
	log    *slog.Logger
	health *health
}

var _ asynq.Logger = asynqLog{}

func (l asynqLog) say(level slog.Level, args []any) {
	if l.health.trouble() != nil {
		level = slog.LevelDebug
	}
	text := fmt.Sprint(args...)
	if strings.Contains(text, redis.ErrClosed.Error()) {
		return // that it cannot subscribe, every few seconds: see queue.Subscribe. asynq gives only text
	}
	l.log.LogAttrs(context.Background(), level, "asynq", slog.String("err", text))
}

// Debug implements [asynq.Logger].
func (l asynqLog) Debug(args ...any) { l.say(slog.LevelDebug, args) }

// Info implements [asynq.Logger].
func (l asynqLog) Info(args ...any) { l.say(slog.LevelDebug, args) }

// Warn implements [asynq.Logger].
func (l asynqLog) Warn(args ...any) { l.say(slog.LevelWarn, args) }

// Error implements [asynq.Logger].
func (l asynqLog) Error(args ...any) { l.say(slog.LevelWarn, args) }

// Fatal implements [asynq.Logger]. Ending the process is not the queue's business.
func (l asynqLog) Fatal(args ...any) { l.say(slog.LevelError, args) }
