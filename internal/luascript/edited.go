package luascript

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// Edited returns the script with a piece of its code replaced, and whether the piece
// was there. It is for tests that take a rule out of a script and demand that another
// test finds it missing; from is matched against the code as Redis sees it, without
// comments.
func (s *Script) Edited(from, to string) (*Script, bool) {
	source := strings.ReplaceAll(s.source, from, to)
	return &Script{name: s.name, source: source, script: redis.NewScript(source)}, source != s.source
}
