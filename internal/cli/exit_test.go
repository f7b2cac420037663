package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
)

func TestEveryErrorEndsWithItsCode(t *testing.T) {
	t.Parallel()
	_, missing := os.Open(filepath.Join(t.TempDir(), "none"))
	for _, c := range []struct {
		err  error
		code int
	}{
		{usagef("x"), exitUsage},
		{&noted{&failure{exitUsage, errors.New("x")}, "y"}, exitUsage},
		{fmt.Errorf("x: %w", ledger.ErrNotFound), exitNotFound},
		{fmt.Errorf("x: %w", ledger.ErrCursor), exitUsage},
		{fmt.Errorf("x: %w", &ledger.BindingError{Kind: "a"}), exitConflict},
		{ledger.ErrNewerSchema, exitError},
		{errors.New("x"), exitError},
		{missing, exitError}, // of a file, not of Redis
		{&os.LinkError{Op: "rename", Err: syscall.ENOENT}, exitError},
		{fmt.Errorf("x: %w", syscall.ECONNRESET), exitAgain},
		{fmt.Errorf("x: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), exitAgain},
		{fmt.Errorf("x: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENOENT)}), exitAgain},
		{&net.DNSError{Name: "x"}, exitAgain},
		{os.ErrDeadlineExceeded, exitAgain},
		{context.DeadlineExceeded, exitAgain},
		{io.ErrUnexpectedEOF, exitAgain},
		{fmt.Errorf("x: %w", io.EOF), exitAgain},
		{redis.ErrPoolTimeout, exitAgain},
		{x509.UnknownAuthorityError{}, exitError},
	} {
		if got := codeOf(c.err); got != c.code {
			t.Errorf("%v (%T): exit %d, want %d", c.err, c.err, got, c.code)
		}
	}
}

func TestOutcomesOfABulkActionHaveTheirCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    operator.Outcome
		code int
	}{
		{operator.Outcome{}, exitOK}, {operator.Outcome{Done: 1}, exitOK}, {operator.Outcome{Pending: 1}, exitOK}, {operator.Outcome{Done: 1, Refused: 1}, exitPartly}, {operator.Outcome{Pending: 1, Missing: 1}, exitPartly},
		{operator.Outcome{Refused: 2}, exitConflict}, {operator.Outcome{Missing: 2}, exitNotFound}, {operator.Outcome{Refused: 1, Missing: 1}, exitConflict},
	} {
		if got := outcomeCode(c.o); got != c.code {
			t.Errorf("%+v: exit %d, want %d", c.o, got, c.code)
		}
	}
}

func TestImportsEndByWhatBecameOfTheirLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answers map[jobs.Answer]int
		later   int
		code    int
	}{
		{nil, 0, exitOK},
		{map[jobs.Answer]int{jobs.Accepted: 1, jobs.Duplicate: 1}, 0, exitOK},
		{map[jobs.Answer]int{jobs.Accepted: 1, jobs.Unsure: 1}, 0, exitAgain},
		{map[jobs.Answer]int{jobs.Duplicate: 999, jobs.Conflict: 1}, 0, exitPartly},
		{map[jobs.Answer]int{jobs.Accepted: 1, jobs.Refused: 1}, 1, exitPartly},
		{map[jobs.Answer]int{jobs.Conflict: 2}, 0, exitConflict},
		{map[jobs.Answer]int{jobs.Refused: 2}, 0, exitUsage},
		{map[jobs.Answer]int{jobs.Refused: 2}, 2, exitAgain},
		{map[jobs.Answer]int{jobs.Refused: 1, jobs.Conflict: 1}, 0, exitPartly},
	} {
		tl := &tally{answers: c.answers, later: c.later}
		for _, n := range c.answers {
			tl.lines += n
		}
		if got := tl.code(); got != c.code {
			t.Errorf("%v: exit %d, want %d", c.answers, got, c.code)
		}
	}
}
