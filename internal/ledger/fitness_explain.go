package ledger

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
)

// Explain says in one line what an error of Redis means and what would mend it; for
// an error that it does not know, the error's own text.
func Explain(err error) string {
	if err == nil {
		return ""
	}
	switch ReplyCode(err) {
	case "NOAUTH":
		return "it asks for a password: write it into redis.url (redis://:PASSWORD@HOST), or REDRIVE_REDIS_URL"
	case "WRONGPASS":
		return "it refuses the user or password of redis.url"
	case "NOPERM":
		return "its user may not do what is needed: " + replyText(err)
	case "READONLY":
		return "it is a read-only replica: point redis.url at the primary"
	case "OOM":
		return "it is full (maxmemory reached): writes are refused"
	case "LOADING":
		return "it is loading its data and answers nothing yet"
	case "MISCONF":
		return "it refuses writes because it cannot save to disk (MISCONF): see its log"
	case "NOREPLICAS":
		return "it has fewer replicas than min-replicas-to-write: writes are refused"
	case "MASTERDOWN":
		return "it is a replica that lost its primary: point redis.url at the primary"
	case "MOVED", "CLUSTERDOWN", "CROSSSLOT":
		return "it is a node of a Redis Cluster: a standalone server (with replicas or not) is needed"
	case "ERR":
		return replyText(err)
	}
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.Is(err, syscall.ENOENT):
		return "no such socket: is redis-server running there?"
	case errors.Is(err, syscall.EACCES):
		return "permission denied on the socket"
	case errors.As(err, &dns):
		return "its name cannot be looked up: " + dns.Name
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return err.Error()
}

// Passing reports whether an error of Redis can go away by itself: worth trying
// again. A refused password or command does not.
func Passing(err error) bool {
	switch ReplyCode(err) {
	case "", "LOADING", "OOM", "MISCONF", "NOREPLICAS", "BUSY", "TRYAGAIN":
		return err != nil && !errors.Is(err, context.Canceled)
	}
	return false
}

func replyText(err error) string {
	text := err.Error()
	for e := err; e != nil; e = errors.Unwrap(e) {
		text = e.Error() // the innermost is what Redis said
	}
	return strings.TrimPrefix(text, "ERR ")
}
