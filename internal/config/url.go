package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// redisOptions are the settings that a Redis URL may carry. Every other one (time
// limits, retries, pools) is part of how promises are kept and not for a URL.
var redisOptions = []string{"db", "protocol", "client_name", "skip_verify"}

// CheckRedisURL reports why raw, with every ${...} resolved, is not the URL of a
// Redis that this version can use: redis://[user:password@]host[:port][/db],
// rediss:// for TLS, unix://[user:password@]/path[?db=n]. The error never shows raw,
// which may hold a password.
func CheckRedisURL(raw string) error {
	scheme, _, ok := strings.Cut(raw, "://")
	switch {
	case raw == "embedded":
		return errors.New("the embedded store belongs to demo and rehearse: name a Redis here, such as redis://127.0.0.1:6379/0")
	case !ok:
		return errors.New("a Redis URL begins with redis://, rediss:// or unix://")
	}
	switch scheme {
	case "redis", "rediss", "unix":
	case "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster":
		return fmt.Errorf("%s:// is not available in this version yet: name one Redis by redis://, rediss:// or unix://", scheme)
	default:
		return errors.New("unknown kind of Redis URL: write redis://, rediss:// or unix://")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		// Not err itself: it repeats pieces of the URL, and a password that is not
		// escaped is what most often breaks one.
		return errors.New("not a valid URL (a password in it must be percent-encoded: / is %2F, # is %23, @ is %40)")
	}
	if err := checkRedisOptions(u); err != nil {
		return err
	}
	if scheme == "unix" {
		if u.Host != "" || strings.Trim(u.Path, "/") == "" {
			return errors.New("a unix:// URL needs the whole path of the socket: unix:///run/redis.sock")
		}
		return nil
	}
	if u.Hostname() == "" {
		return fmt.Errorf("no host: write %s://127.0.0.1:6379/0", scheme)
	}
	if err := checkPort(u.Port()); err != nil {
		return err
	}
	return checkDatabase(strings.Trim(u.Path, "/"))
}

func checkRedisOptions(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("what stands behind ? is not a valid query")
	}
	for name := range query {
		if !slices.Contains(redisOptions, name) {
			return fmt.Errorf("the option %q cannot be set in the URL; allowed are %s", name, strings.Join(redisOptions, ", "))
		}
	}
	return checkDatabase(query.Get("db"))
}

// checkDatabase accepts "" as database 0.
func checkDatabase(db string) error {
	if db == "" {
		return nil
	}
	if n, err := strconv.ParseUint(db, 10, 31); err != nil || n > 1<<20 {
		return errors.New("the database must be a number: redis://host:6379/0")
	}
	return nil
}

func checkPort(port string) error {
	if port == "" {
		return nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	return nil
}

// checkBaseURL reports why raw, without any ${...}, cannot be the base of a
// dependency's paths.
func checkBaseURL(raw string) error {
	if raw == "" {
		return errors.New("required: write the URL that paths are appended to, such as https://api.example.com")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || hasControl(raw) || strings.Contains(raw, " "):
		return errors.New("not a valid URL: write one such as https://api.example.com")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must begin with http:// or https://")
	case u.Hostname() == "" || u.Opaque != "":
		return errors.New("has no host: write one such as https://api.example.com")
	case u.User != nil:
		return errors.New("must not carry a user or password: put them into headers, such as Authorization: \"Basic ${NAME}\"")
	case u.RawQuery != "" || u.ForceQuery:
		return errors.New("must not carry a query: write it into the kind's request.path")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return errors.New("must not carry a fragment (#...): no server ever sees one")
	case strings.HasSuffix(u.Path, "/"):
		return errors.New("must not end with a slash: paths begin with one")
	}
	return checkPort(u.Port())
}

// checkListen reports why addr is not host:port with a port from 0 to 65535.
func checkListen(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not host:port: write one such as 127.0.0.1:8080 or :8080", addr)
	}
	return nil
}

// loopback reports whether host is this machine by name or address.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
