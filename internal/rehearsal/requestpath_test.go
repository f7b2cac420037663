package rehearsal

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"redrive/internal/jobs"
)

func TestTheRequestPathSaysOnlyWhatItKnows(t *testing.T) {
	t.Parallel()
	created := []byte(`{"id":"ch_1"}`)
	for _, tc := range []struct {
		name string
		got  sight
		want sight
	}{
		{"a success", sightOfAnswer(201, created, nil), sight{settled: true}},
		{"a decline", sightOfAnswer(402, []byte(`{}`), nil), sight{settled: true}},
		{"a success cut short", sightOfAnswer(201, created[:5], io.ErrUnexpectedEOF), sight{outcome: jobs.OutcomeUnknown, class: jobs.ClassOther}},
		{"a success that is no JSON", sightOfAnswer(201, created[:5], nil), sight{outcome: jobs.OutcomeUnknown, class: jobs.ClassOther}},
		{"a page of a proxy", sightOfAnswer(200, []byte("<title>Please wait</title>"), nil), sight{outcome: jobs.OutcomeUnknown, class: jobs.ClassOther}},
		{"too many", sightOfAnswer(429, nil, nil), sight{outcome: jobs.OutcomeRefused, class: jobs.Class429}},
		{"unavailable", sightOfAnswer(503, nil, nil), sight{outcome: jobs.OutcomeRefused, class: jobs.Class503}},
		{"an error behind it", sightOfAnswer(502, nil, nil), sight{outcome: jobs.OutcomeUnknown, class: jobs.Class5xx}},
		{"nothing listens", sightOfError(&url.Error{Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}),
			sight{outcome: jobs.OutcomeNotSent, class: jobs.ClassConnect}},
		{"no answer in time", sightOfError(&url.Error{Err: context.DeadlineExceeded}), sight{outcome: jobs.OutcomeUnknown, class: jobs.ClassTimeout}},
		{"a reset", sightOfError(&url.Error{Err: syscall.ECONNRESET}), sight{outcome: jobs.OutcomeUnknown, class: jobs.ClassReset}},
		{"anything else", sightOfError(errors.New("odd")), sight{outcome: jobs.OutcomeUnknown, class: jobs.ClassReset}},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, tc.got, tc.want)
		}
	}
}

func TestAMomentWithoutTheStoreIsBridged(t *testing.T) {
	t.Parallel()
	n := 0
	if err := persist(t.Context(), func() error {
		if n++; n < 3 {
			return io.EOF
		}
		return nil
	}); err != nil || n != 3 {
		t.Errorf("after %d tries: %v", n, err)
	}
	n = 0
	if err := persist(t.Context(), func() error { n++; return io.EOF }); !errors.Is(err, io.EOF) || n != 5 {
		t.Errorf("after %d tries: %v, want to give up after 5", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n = 0
	if err := persist(ctx, func() error { n++; return io.EOF }); !errors.Is(err, io.EOF) || n != 1 {
		t.Errorf("after the end of its context: %d tries, %v", n, err)
	}
}
