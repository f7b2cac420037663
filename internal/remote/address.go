package remote

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// address is where an API is served.
type address struct {
	url *url.URL // without a slash at its end
}

// parseAddress reads the URL of a server: http or https, a host, perhaps a path before
// /v1. The error never repeats what stands before an @, which is a password.
func parseAddress(text string) (address, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return address{}, errors.New("not a URL such as https://redrive.example") // why not would repeat parts of it
	case u.Scheme != "http" && u.Scheme != "https":
		return address{}, errors.New("not a URL such as https://redrive.example: it must begin with https:// or http://")
	case u.Hostname() == "":
		return address{}, errors.New("not a URL such as https://redrive.example: it names no host")
	case !validPort(u):
		return address{}, fmt.Errorf("it has the port %s: ports go from 1 to 65535", u.Port())
	case u.User != nil:
		return address{}, errors.New("it holds a user or password: a token is read from a file (--token-file)")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return address{}, errors.New("it has a query or a fragment, which no server's address has")
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	u.RawPath = ""
	return address{u}, nil
}

// validPort reports whether the port of a URL can be; none is that of the scheme.
func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return true
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

func (a address) String() string { return a.url.String() }

// clear reports whether what is sent there can be read on the way.
func (a address) clear() bool { return a.url.Scheme == "http" && !localHost(a.url.Hostname()) }

// localHost reports whether a host is this machine by its name alone.
func localHost(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// checkLocal makes sure that a name that says it is this machine leads there: whoever
// writes the hosts file or answers its name server may say otherwise.
func checkLocal(c net.Conn) error {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		return fmt.Errorf("it leads to %s, which is not this machine: the token would go there in the clear", a.IP)
	}
	return nil
}
