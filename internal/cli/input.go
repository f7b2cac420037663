package cli

import (
	"context"
	"io"
	"os"
)

// await does what may wait for somebody else: read stdin, open or read a file, which
// may be a pipe. A wait like that cannot be stopped. When ctx ends first await returns its
// error, and the goroutine is left to the end of the input, or of the process.
func await[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1) // of do, once: room for it even if nobody waits any more
	go func() {                  // ends with do
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// readInput reads what a flag names, at most limit bytes of it (0: all): a file, or stdin
// for "-".
func (p *program) readInput(ctx context.Context, path string, limit int64) ([]byte, error) {
	return await(ctx, func() ([]byte, error) {
		in := io.Reader(p.stdin)
		if path != "-" {
			f, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			defer f.Close() // only read from
			in = f
		}
		if limit > 0 {
			in = io.LimitReader(in, limit)
		}
		return io.ReadAll(in)
	})
}

// inputError tells where a read failed; that the command's time was over is no fault of
// the input.
func inputError(ctx context.Context, where string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return usagef("%s: %w", where, err)
}
