package redrive

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// closing is a body that tells whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// A misspelt dependency has no budget and no breaker: its calls ran outside every gate.
func TestCallsOfAMisspeltDependencyRanOutsideEveryGate(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	published := b.another(func(o *Options) { o.ConfigFile, o.Namespace = "", b.o.Namespace })
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	for name, c := range map[string]*Client{"configured": b.Client, "published": published} {
		s := &scripted{turn: []func() (Reply, error){status(200)}}
		var wrong *Invalid
		if _, err := c.Call(t.Context(), "payrial", s.read); !errors.As(err, &wrong) || !strings.Contains(err.Error(), `"payrial"`) || !strings.Contains(err.Error(), "[payrail]") {
			t.Errorf("%s: Call: %v", name, err)
		}
		body := &closing{Reader: strings.NewReader("{}")}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/charges", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: c.Transport("payrial", base)}).Do(req)
		if err == nil {
			resp.Body.Close()
		}
		if wrong = nil; !errors.As(err, &wrong) || !body.closed {
			t.Errorf("%s: Transport: %v, body closed: %v", name, err, body.closed)
		}
		if n := b.gateway.Stats().Requests; s.calls != 0 || n != 0 {
			t.Errorf("%s: %d reads and %d requests were sent", name, s.calls, n)
		}
		if _, err := c.Call(t.Context(), "payrail", s.read); err != nil || s.calls != 1 {
			t.Errorf("%s: the right one: %d calls, %v", name, s.calls, err)
		}
	}
}

func TestADependencyThatIsPublishedLaterIsCalled(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c := b.another(func(o *Options) { o.ConfigFile, o.Namespace = "", b.o.Namespace })
	s := &scripted{turn: []func() (Reply, error){status(200)}}
	var wrong *Invalid
	if _, err := c.Call(t.Context(), "bank", s.read); !errors.As(err, &wrong) {
		t.Fatalf("not published yet: %v", err)
	}
	b.another(func(o *Options) {
		o.ConfigFile, o.Namespace = "", b.o.Namespace
		o.Dependencies = []Dependency{{Name: "bank", BaseURL: b.url}}
		o.Kinds = []Kind{{Name: "transfer", Dependency: "bank", Path: "/v1/transfers"}}
	})
	await(t, "another look", func() bool { _, err := c.Call(t.Context(), "bank", s.read); return err == nil })
	if _, err := c.Get(t.Context(), "transfer", "t-1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("its kind: %v", err)
	}
	if _, err := c.Get(t.Context(), "charge", "c-1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a kind that was known: %v", err)
	}
}

// They ended in a panic deep inside that named nothing.
func TestANilArgumentIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var none context.Context
	read := func(context.Context) (Reply, error) { return Reply{Status: 200}, nil }
	_, noRead := b.Call(t.Context(), "payrail", nil)
	_, call := b.Call(none, "payrail", read)
	_, do := b.Do(none, charge("c-1"), nil)
	_, submit := b.Submit(none, charge("c-1"))
	_, get := b.Get(none, "charge", "c-1")
	_, wait := b.Wait(none, "charge", "c-1")
	_, cancel := b.Cancel(none, "charge", "c-1", "")
	_, reconcile := b.Reconcile(none, "charge", "c-1", time.Time{}, "")
	var events error
	for _, events = range b.Events(none, "") {
	}
	for method, err := range map[string]error{"Call": call, "Do": do, "Submit": submit, "Get": get, "Wait": wait, "Cancel": cancel, "Reconcile": reconcile, "Events": events} {
		var wrong *Invalid
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "ctx is nil") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if wrong := new(Invalid); !errors.As(noRead, &wrong) || !strings.Contains(noRead.Error(), "read is nil") {
		t.Errorf("Call without a read: %v", noRead)
	}
	if _, err := New(none, Options{}); err == nil || !strings.Contains(err.Error(), "ctx is nil") {
		t.Errorf("New: %v", err)
	}
}
