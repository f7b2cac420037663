package ledger

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// noWrites are the codes by which Redis refuses every write for now.
var noWrites = []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS", "MASTERDOWN"}

// ReplyCode is the leading word of an error that Redis itself answered, "" for any
// other error. Only this word is stable across versions and imitations. A refusal
// that a command inside a script met comes back as an ERR that quotes it, bare or
// behind the place in the script: the word is that of the refusal then.
func ReplyCode(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	code, rest, _ := strings.Cut(reply.Error(), " ")
	if code != "ERR" {
		return code
	}
	for _, refusal := range noWrites {
		if strings.HasPrefix(rest, refusal+" ") || strings.Contains(rest, " -"+refusal+" ") {
			return refusal
		}
	}
	return code
}

// WritesRefused reports whether err says that Redis takes no writes now. It refuses
// the first write of a script, so that of a call that ended so nothing was written.
func WritesRefused(err error) bool { return slices.Contains(noWrites, ReplyCode(err)) }
