package outage

import (
	"bytes"
	"io"
	"net/http"
	"syscall"
)

// direct is a way to a gateway in the same process without a socket. A client of
// thousands of calls a second, each of which ends its connection, would otherwise take
// the machine that redrive is measured on. It is for those that redrive is compared with;
// redrive itself calls through sockets.
type direct struct{ gateway http.Handler }

// RoundTrip lets the gateway serve a request. As over a network it returns when the request's
// context ends, and the gateway sees that its client has left.
func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	served := make(chan *http.Response, 1) // the goroutine sends once; nil: cut
	go func() {                            // ends with the gateway's handler; who closes the gateway waits for that
		in := req.Clone(req.Context())
		in.RequestURI = in.URL.RequestURI()
		w := &written{header: http.Header{}}
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			} else if p != nil {
				served <- nil
				return
			}
			served <- w.response(req)
		}()
		d.gateway.ServeHTTP(w, in)
	}()
	select {
	case resp := <-served:
		if resp == nil {
			return nil, syscall.ECONNRESET
		}
		return resp, nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// written is an answer in memory. Its connection cannot be taken over, so that a gateway
// that wants to cut it aborts its handler instead.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *written) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *written) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *written) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

func (w *written) response(req *http.Request) *http.Response {
	w.WriteHeader(http.StatusOK)
	return &http.Response{StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()), Request: req}
}
