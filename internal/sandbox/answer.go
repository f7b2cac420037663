package sandbox

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// answer is one HTTP answer, made once and replayed as often as asked.
type answer struct {
	status     int
	body       []byte
	retryAfter string // header value; "" = none
	replayed   bool   // from an idempotency key
}

// jsonAnswer panics when v cannot be encoded: a bug of this package.
func jsonAnswer(status int, v any) *answer {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sandbox: encode answer: %v", err))
	}
	return &answer{status: status, body: append(body, '\n')}
}

// apiError is the body of every answer that is not a success.
type apiError struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func errorAnswer(status int, code, message string) *answer {
	var e apiError
	e.Error.Code, e.Error.Message = code, message
	return jsonAnswer(status, e)
}

// write sends the answer as it should be. What the client does not take is not
// our concern: it is recorded already.
func (a *answer) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(a.status)
	w.Write(a.body)
}

// writeGarbage sends a broken form of a; an HTML page has no need of one.
func writeGarbage(w http.ResponseWriter, a *answer, sort garbage) {
	switch sort {
	case invalidStatus:
		writeRaw(w, "HTTP/1.1 2OO Fine\r\nContent-Type: application/json\r\n\r\n"+string(a.body))
	case htmlPage:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, "<!doctype html><title>Please wait</title><p>We will be right back.</p>\n")
	case truncatedJSON:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		w.Write(a.body[:len(a.body)/2])
	case wrongLength:
		writeRaw(w, fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			a.status, http.StatusText(a.status), len(a.body)+100, a.body))
	}
}

// writeRaw sends text in place of an answer, then closes the connection.
func writeRaw(w http.ResponseWriter, text string) {
	conn := hijack(w)
	defer conn.Close()
	conn.Write([]byte(text))
}

// cut ends the connection before any byte of an answer: abort by a reset, else
// by an orderly close.
func cut(w http.ResponseWriter, abort bool) {
	conn := hijack(w)
	if c, ok := conn.(interface{ SetLinger(int) error }); ok && abort {
		c.SetLinger(0)
	}
	conn.Close()
}

// hijack takes the connection over. Where the server cannot give it away
// (HTTP/2, a recorder) the request is aborted, which the client sees as a cut.
func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return conn
}
