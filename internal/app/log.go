package app

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/redis/go-redis/v9"
	"golang.org/x/term"

	"redrive/internal/config"
)

// go-redis writes about each failed dial to standard error, past every logger. What
// it says comes back as an error too, which we report once. It has one logger for
// the whole process, so it is set before anything can use it.
func init() { redis.SetLogger(quiet{}) }

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// newLogger writes to w in the form that the configuration asks for.
func newLogger(w io.Writer, c config.Log, getenv func(string) string) *slog.Logger {
	terminal := isTerminal(w)
	if c.Format == config.LogText || c.Format == config.LogAuto && terminal {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: c.Level, NoColor: !colour(w, getenv)}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: c.Level, ReplaceAttr: readableSpans}))
}

// readableSpans writes a span as Go does ("1.5s"): JSON has no type for it, and bare
// nanoseconds are misread.
func readableSpans(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns is how wide a terminal is; 0: w is none.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// colour says whether w may be coloured: see no-color.org.
func colour(w io.Writer, getenv func(string) string) bool {
	return isTerminal(w) && getenv("NO_COLOR") == ""
}
