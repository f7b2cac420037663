package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/wire"
)

func TestEveryErrorHasItsProblem(t *testing.T) {
	t.Parallel()
	_, wrongWord := (&operator.FilterWords{Limit: -1}).Filter(zeroTime)
	for _, c := range []struct {
		err  error
		want problemKind
	}{
		{busy.because("x"), busy},
		{&ledger.FieldError{Field: "key", Err: errors.New("x")}, invalid},
		{&wire.Error{Err: errors.New("x"), Malformed: true}, malformed},
		{&wire.Error{Err: errors.New("x")}, invalid},
		{wrongWord, invalid},
		{ledger.ErrCursor, invalid},
		{ledger.ErrNotFound, notFound},
		{ledger.ErrNoBatch, notFound},
		{&ledger.BindingError{Kind: "charge"}, notInState},
		{operator.ErrNotRequeue, notInState},
		{operator.ErrStopped, notInState},
		{&operator.CanaryError{Why: "x"}, notInState},
		{ledger.ErrBacklogFull, backlogFull},
		{ledger.ErrNewerSchema, notFit},
		{ledger.ErrOlderWorkers, notFit},
		{context.Canceled, closing},
		{context.DeadlineExceeded, redisAway},
		{io.EOF, redisAway},
		{redis.ErrPoolTimeout, redisAway},
		{&net.OpError{Op: "dial", Err: errors.New("x")}, redisAway},
		{errors.New("secret detail"), internalProblem},
	} {
		p, unknown := problemOf(fmt.Errorf("wrapped: %w", c.err))
		if p.Type != problemURN+c.want.name || unknown != (c.want == internalProblem) {
			t.Errorf("%v: %s, unknown %v, want %s", c.err, p.Type, unknown, c.want.name)
		}
		if c.want == internalProblem && p.Detail != "it is in the worker's log" {
			t.Errorf("a stranger learns %q", p.Detail)
		}
	}
}
