package cli

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// bar is a progress bar on stderr; a nil one draws nothing. Not safe for concurrent
// use.
type bar struct{ b *progressbar.ProgressBar }

// newBar draws size bytes, or only what was done if size is not known (below 0).
// There is none where stderr is no terminal: it would fill a log.
func newBar(p *program, size int64) *bar {
	if !p.drawn {
		return nil
	}
	return drawnBar(p.stderr, size)
}

func drawnBar(w io.Writer, size int64) *bar {
	return &bar{progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("importing"), progressbar.OptionShowBytes(true),
		progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSpinnerType(14))}
}

func (b *bar) add(bytes int) {
	if b != nil {
		_ = b.b.Add(bytes) // an error means that stderr is gone: nobody to tell
	}
}

// clear makes room for words; the next add draws again.
func (b *bar) clear() {
	if b != nil {
		_ = b.b.Clear()
	}
}

func (b *bar) finish() {
	if b != nil {
		_ = b.b.Finish()
	}
}
