package outage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"redrive/internal/sandbox"
)

// gateway is what a client calls: a sandbox of its own, or one elsewhere.
type gateway interface {
	http.Handler
	setFault(ctx context.Context, f sandbox.Fault) error
	entries(ctx context.Context) ([]sandbox.Entry, error)
	close()
}

// local is a sandbox in this process.
type local struct{ *sandbox.Sandbox }

func (l local) ServeHTTP(w http.ResponseWriter, r *http.Request)  { l.Handler().ServeHTTP(w, r) }
func (l local) setFault(_ context.Context, f sandbox.Fault) error { return l.SetFault(f) }
func (l local) entries(context.Context) ([]sandbox.Entry, error)  { return l.Ledger(), nil }
func (l local) close()                                            { l.Stop() }

const (
	adminTimeout = 5 * time.Second
	adminBytes   = 64 << 20
	ledgerPage   = 5000
)

// remote is a sandbox that is reached over HTTP. Calls go to it through the door as
// they are, and a connection that it cuts is cut.
type remote struct {
	url  string
	http *http.Client
}

// checkAgainst says why nothing may be played against rawURL: its host must be
// of the loopback, or stand in allow as host or host:port.
func checkAgainst(rawURL string, allow []string) error {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return fmt.Errorf("against: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("against %q: want http:// or https:// with a host", rawURL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("against %s: a user, a query or a fragment has no meaning here", u.Redacted())
	}
	ip := net.ParseIP(u.Hostname())
	if ip != nil && ip.IsLoopback() || u.Hostname() == "localhost" || slices.Contains(allow, u.Hostname()) || slices.Contains(allow, u.Host) {
		return nil
	}
	return fmt.Errorf("against %s: %s is neither this machine nor one of those allowed (%s): an outage is played against nobody who has not asked for it",
		rawURL, u.Host, strings.Join(append([]string{"none"}, allow...)[min(len(allow), 1):], ", "))
}

// newRemote finds out whether a sandbox with an empty ledger answers there, before
// any charge is sent.
func newRemote(ctx context.Context, rawURL string) (*remote, error) {
	r := &remote{url: strings.TrimSuffix(rawURL, "/"), http: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	page, err := r.page(ctx, "", 1)
	if err != nil {
		return nil, fmt.Errorf("against %s: no sandbox answers there: %w", rawURL, err)
	}
	if len(page.Items) > 0 {
		return nil, fmt.Errorf("against %s: its ledger is not empty (the first entry is %q): it is somebody's, and nothing is played over it; reset the sandbox first",
			rawURL, page.Items[0].Reference)
	}
	return r, nil
}

// ServeHTTP hands one call on.
func (r *remote) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	out, err := http.NewRequestWithContext(in.Context(), in.Method, r.url+in.URL.RequestURI(), in.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // net/http cuts the connection
	}
	out.Header, out.ContentLength = in.Header.Clone(), in.ContentLength
	resp, err := r.http.Do(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, adminBytes))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body) // the client may have left
}

// admin asks the sandbox's own routes.
func (r *remote) admin(ctx context.Context, method, path string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status %d, want 200", method, path, resp.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, adminBytes)).Decode(into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (r *remote) setFault(ctx context.Context, f sandbox.Fault) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	var inForce sandbox.Fault
	return r.admin(ctx, http.MethodPut, "/_sandbox/fault", body, &inForce)
}

type ledgerAnswer struct {
	Items      []sandbox.Entry `json:"items"`
	NextCursor *string         `json:"next_cursor"`
}

func (r *remote) page(ctx context.Context, cursor string, limit int) (ledgerAnswer, error) {
	path := fmt.Sprintf("/_sandbox/ledger?limit=%d", limit)
	if cursor != "" {
		path += "&cursor=" + url.QueryEscape(cursor)
	}
	var p ledgerAnswer
	if err := r.admin(ctx, http.MethodGet, path, nil, &p); err != nil {
		return p, err
	}
	if p.NextCursor == nil {
		return p, fmt.Errorf("GET %s: the answer is no page of a ledger", path)
	}
	return p, nil
}

func (r *remote) entries(ctx context.Context) ([]sandbox.Entry, error) {
	var all []sandbox.Entry
	for cursor := ""; ; {
		p, err := r.page(ctx, cursor, ledgerPage)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if cursor = *p.NextCursor; cursor == "" {
			return all, nil
		}
	}
}

// close lets the sandbox behave again. Its ledger stays: whoever owns it may look.
func (r *remote) close() {
	_ = r.setFault(context.Background(), sandbox.Fault{Mode: sandbox.None}) // it may have gone away
	r.http.CloseIdleConnections()
}
