package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"redrive/internal/config"
)

// caller is who makes a request.
type caller struct {
	name  string // as it stands in the audit
	roles []config.Role
}

func (c caller) may(role config.Role) bool { return slices.Contains(c.roles, role) }

// anyone is the caller where there are no tokens: somebody on this machine.
var anyone = caller{config.Loopback, config.Roles}

type callerKey struct{}

// callerOf returns who makes the request that ctx belongs to.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// access decides who may come in.
type access struct {
	tokens   []config.Token
	loopback bool // the listener is reached from this machine alone
}

// onLoopback reports whether only this machine reaches an address.
func onLoopback(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// admit returns who makes the request, or why it is not served.
func (a *access) admit(r *http.Request) (caller, *Problem) {
	if len(a.tokens) == 0 {
		switch {
		case !a.loopback:
			return caller{}, notServed.because("this address is reached from other machines, and the configuration has no tokens: write tokens, or listen on 127.0.0.1")
		case !localName(r.Host):
			// A page elsewhere can let its own name point here (DNS rebinding).
			return caller{}, wrongHost.because("without tokens only localhost and loopback addresses are answered, and the request is for another host")
		case forwarded(r.Header):
			return caller{}, notServed.because("the request came through a proxy, and the configuration has no tokens: whoever reaches the proxy would be in")
		}
	}
	if err := sameSite.Check(asChange(r)); err != nil {
		return caller{}, crossSite.because("%s", err)
	}
	if len(a.tokens) == 0 {
		return anyone, nil
	}
	return a.identify(r.Header["Authorization"])
}

// sameSite refuses what a browser asks for another site.
var sameSite = http.NewCrossOriginProtection()

// asChange is a request as [http.CrossOriginProtection] looks at it. A look at payload
// is written to the audit, so that no method is too safe to be refused.
func asChange(r *http.Request) *http.Request {
	return &http.Request{Method: http.MethodPost, URL: r.URL, Header: r.Header, Host: r.Host}
}

// proxyHeaders are what proxies add, beside all that begin with X-Forwarded-.
var proxyHeaders = []string{"Via", "Forwarded", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Original-Host",
	"X-Envoy-External-Address", "True-Client-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Ray", "Fastly-Client-Ip"}

// forwarded reports whether a request bears the mark of a proxy. An empty one is one too:
// a proxy may have blanked what it was sent.
func forwarded(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains(proxyHeaders, name) {
			return true
		}
	}
	return false
}

func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// identify compares with every token, so that the time it takes tells nothing.
func (a *access) identify(headers []string) (caller, *Problem) {
	refused := func(why string) *Problem {
		return unauthorized.because("%s", why).with("WWW-Authenticate", `Bearer realm="redrive"`)
	}
	if len(headers) == 0 {
		return caller{}, refused("send Authorization: Bearer TOKEN")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if token = strings.TrimSpace(token); len(headers) > 1 || !strings.EqualFold(scheme, "bearer") || token == "" {
		return caller{}, refused("want one header Authorization: Bearer TOKEN")
	}
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range a.tokens {
		if subtle.ConstantTimeCompare(sum[:], a.tokens[i].SHA256[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return caller{}, refused("the token is not known here")
	}
	return caller{a.tokens[found].Name, a.tokens[found].Roles}, nil
}
