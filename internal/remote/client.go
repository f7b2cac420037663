package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// askTimeout bounds one request with its answer, beside the caller's context: the API
	// answers within api.timeout, which is 5 min at most, or not at all.
	askTimeout = 6 * time.Minute

	// defaultAnswerBytes bounds an answer of which no more is to be expected.
	defaultAnswerBytes = 256 << 10

	maxProblemBytes = 1 << 20
	maxHeaderBytes  = 64 << 10

	jsonType    = "application/json"
	ndjsonType  = "application/x-ndjson"
	eventType   = "text/event-stream"
	problemType = "application/problem+json"
)

// Options say which API is asked, and as whom.
type Options struct {
	Server string // its URL, http or https
	Token  string // "": none, as on this machine without tokens
	Agent  string // name and version of the program, for the server's log
}

// Client asks one API. Safe for concurrent use.
type Client struct {
	at    address
	token string
	agent string
	http  *http.Client

	mu      sync.Mutex    // guards ahead, clocked
	ahead   time.Duration // of the server's clock before ours, when it answered last
	clocked bool          // it has told its clock

	// For tests; 0: the constants.
	idle, pause, patience time.Duration
}

// New returns a client; it asks nothing yet. An error when the address is none, or when
// the token would be sent in the clear.
func New(o Options) (*Client, error) {
	at, err := parseAddress(o.Server)
	if err != nil {
		return nil, err
	}
	if at.clear() && o.Token != "" {
		return nil, fmt.Errorf("%s: a token goes to another machine over https:// only: in the clear whoever is on the way could read it", at)
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{
		DisableKeepAlives:      true, // on a connection that died net/http would send a request a second time
		DisableCompression:     true, // what is bounded is what was sent
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		Protocols:              new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(true) // HTTP/2 resends by itself, too
	if at.url.Scheme == "https" {
		transport.Proxy = http.ProxyFromEnvironment // it carries what it cannot read
	}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if at.url.Scheme == "http" && o.Token != "" {
			if err = checkLocal(c); err != nil {
				_ = c.Close() // nothing was sent
				return nil, err
			}
		}
		return newAskedConn(c), nil
	}
	return &Client{at: at, token: o.Token, agent: o.Agent, http: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// Server is the address, for people.
func (c *Client) Server() string { return c.at.String() }

// Clock is the server's clock, to the second, as its last answer told it; false before it
// has answered.
func (c *Client) Clock() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead), c.clocked
}

func (c *Client) readClock(h http.Header) {
	if told, err := http.ParseTime(h.Get("Date")); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ahead, c.clocked = time.Until(told), true
	}
}

// Request is one question to the API.
type Request struct {
	Method string
	Path   []string   // below /v1, not escaped yet: a segment may hold a slash
	Query  url.Values // nil: none
	Body   any        // sent as JSON, a [Raw] as it is; nil: none
	// MaxAnswerBytes bounds the answer of Ask, which is held in memory; 0: 256 KiB.
	MaxAnswerBytes int64
}

// Raw is JSON that is sent byte for byte.
type Raw []byte

// Ask makes one request and decodes its answer into into, a pointer to a struct; nil: it
// is of no interest. The status tells answers of one route apart. Errors: a [Problem],
// an [UnansweredError], a [StrangeError].
func (c *Client) Ask(ctx context.Context, r Request, into any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var body io.Reader
	switch b := r.Body.(type) {
	case nil:
	case Raw:
		body = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return 0, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	resp, err := c.send(ctx, r, nil, body, jsonType, jsonType)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusAccepted {
		return 0, c.strange(resp.StatusCode, "it answers "+statusText(resp.StatusCode)+", which Redrive's API does not")
	}
	most := cmp.Or(r.MaxAnswerBytes, defaultAnswerBytes)
	text, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return 0, c.unanswered(err, true)
	case int64(len(text)) > most:
		return 0, c.strange(resp.StatusCode, fmt.Sprintf("its answer has more than %d bytes, which Redrive's API does not send here", most))
	case into == nil:
		return resp.StatusCode, nil
	}
	switch err := decode(text, into); {
	case isCut(err):
		return 0, c.unanswered(err, true)
	case err != nil:
		return 0, c.strange(resp.StatusCode, "its answer is not that of Redrive's API: "+err.Error())
	}
	return resp.StatusCode, nil
}

// decode reads an answer. Fields that it has and we do not know are passed over: answers
// are only ever extended. One that has none of ours is not Redrive's. io.ErrUnexpectedEOF
// for JSON that ends early: where no length was told, nothing else says that it was cut.
func decode(text []byte, into any) error {
	var wrong *json.UnmarshalTypeError
	switch err := json.NewDecoder(bytes.NewReader(text)).Decode(into); {
	case isCut(err):
		return io.ErrUnexpectedEOF
	case errors.As(err, &wrong):
		return fmt.Errorf("%s is a JSON %s", cmp.Or(wrong.Field, "it"), wrong.Value)
	case err != nil:
		return errors.New("no JSON")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return errors.New("no JSON object")
	}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(into).Elem()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, there := given[name]; there {
			return nil
		}
	}
	return errors.New("JSON of another server")
}

// isCut reports whether what was read ended before its end.
func isCut(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// send makes the request and returns the answer to one that was done. The caller closes
// its body.
func (c *Client) send(ctx context.Context, r Request, header http.Header, body io.Reader, takes, gives string) (*http.Response, error) {
	var answered atomic.Bool             // a byte came back
	var reached atomic.Pointer[net.Conn] // the connection, once it is there: the request may have arrived
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(got httptrace.GotConnInfo) { reached.Store(&got.Conn) },
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, r.Method, c.urlOf(r), body)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.GetBody = nil // there is no second time
	maps.Copy(req.Header, header)
	req.Header.Set("Accept", gives+", "+problemType)
	if body != nil {
		req.Header.Set("Content-Type", takes)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.agent != "" {
		req.Header.Set("User-Agent", c.agent)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		conn := reached.Load()
		lost := c.unanswered(err, conn != nil)
		switch {
		case conn == nil || !answered.Load() || ctx.Err() != nil || lost.network():
			return nil, lost
		case endedEarly(*conn): // half a line of a header is no header
			return nil, c.unanswered(io.ErrUnexpectedEOF, true)
		}
		return nil, c.strange(0, "it does not answer in HTTP: is it another service?")
	}
	c.readClock(resp.Header)
	if err := c.check(resp, gives); err != nil {
		_ = resp.Body.Close() // what matters is told
		return nil, err
	}
	return resp, nil
}

func (c *Client) urlOf(r Request) string {
	out := *c.at.url
	segments := make([]string, len(r.Path))
	for i, s := range r.Path {
		segments[i] = url.PathEscape(s)
		if s == "." || s == ".." { // else it would mean the path above
			segments[i] = strings.ReplaceAll(s, ".", "%2E")
		}
	}
	out.RawQuery = r.Query.Encode()
	plain := out.Path + "/v1/" + strings.Join(r.Path, "/")
	out.RawPath = out.EscapedPath() + "/v1/" + strings.Join(segments, "/")
	out.Path = plain
	return out.String()
}

// check turns every answer that does not say that something was done into its error.
func (c *Client) check(resp *http.Response, gives string) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return c.strange(resp.StatusCode, fmt.Sprintf("it sends elsewhere (%s, to %s), and no redirect is followed: the token would go along. Name the server itself",
			statusText(resp.StatusCode), hostOf(resp.Header.Get("Location"))))
	case media == problemType:
		return c.problem(resp)
	case resp.StatusCode >= 200 && resp.StatusCode < 300 && media == gives:
		return nil
	}
	if media == "" {
		media = "no type"
	}
	return c.strange(resp.StatusCode, fmt.Sprintf("it answers %s with %s, which Redrive's API does not: is it a proxy, or another server?", statusText(resp.StatusCode), shorten(media)))
}

// problem reads a problem, which another server's may be.
func (c *Client) problem(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if err != nil {
		return c.unanswered(err, true)
	}
	p := &Problem{Server: c.Server()}
	wrong := json.NewDecoder(bytes.NewReader(text)).Decode(p)
	if isCut(wrong) {
		return c.unanswered(io.ErrUnexpectedEOF, true)
	}
	if wrong != nil || !strings.HasPrefix(p.Type, problemURN) || p.Name() == "" {
		return c.strange(resp.StatusCode, fmt.Sprintf("it answers %s with a problem that is none of Redrive's", statusText(resp.StatusCode)))
	}
	p.Status = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(min(seconds, 24*3600)) * time.Second
	}
	return p
}

// Strange is an error for an answer that came and makes no sense to the caller.
func (c *Client) Strange(what string) error { return c.strange(http.StatusOK, what) }

func (c *Client) strange(status int, what string) error {
	return &StrangeError{Server: c.Server(), Status: status, What: what}
}

func (c *Client) unanswered(err error, sent bool) *UnansweredError {
	var wrapped *url.Error
	if errors.As(err, &wrapped) { // it repeats the URL, whose query may hold what a person typed
		err = wrapped.Err
	}
	return &UnansweredError{Server: c.Server(), Err: err, Sent: sent}
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

func hostOf(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return "another path"
	}
	return shorten(u.Host)
}

// shorten cuts what a stranger chose.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
