package world

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"redrive/internal/luascript"
)

// errLost is what a caller sees of a call whose reply it did not get.
var errLost = errors.New("connection lost")

// fate is what becomes of one call of Redis.
type fate int

const (
	arrives     fate = iota
	requestLost      // not applied; the caller sees an error
	replyLost        // applied; the caller sees an error
	delayed          // the caller sees an error; applied later, see store.later
)

func (f fate) String() string {
	return [...]string{"", " (request lost)", " (reply lost)", " (delayed)"}[f]
}

// store runs the ledger's scripts on a miniredis, without a connection: in the order
// in which they are called, each with the fate that was set for it.
type store struct {
	redis.UniversalClient // nil: the ledger's other commands are not used here

	m     *miniredis.Miniredis
	rule  *rule     // taken out of the scripts; nil: none
	now   time.Time // Redis' clock
	fate  fate      // of the calls to come
	later func(apply func())
	wrote bool // since the promises were last judged
	// told learns what the next call came to when it was applied, whoever else does; nil: nobody.
	told func(luascript.Reply)
	// watch sees every script that was applied; nil: nobody does.
	watch func(applied)
	loads map[string]bool // scripts that miniredis knows, by hash
}

var _ luascript.Runner = (*store)(nil)

func newStore(rule *rule) (*store, error) {
	s := &store{m: miniredis.NewMiniRedis(), rule: rule, loads: map[string]bool{}}
	c, err := s.m.Dial() // makes its commands known; nothing is ever sent over it
	if err != nil {
		return nil, err
	}
	return s, c.Close()
}

// empty makes the store as new, but for the scripts that it knows.
func (s *store) empty() { s.m.FlushAll() }

func (s *store) set(now time.Time) {
	s.now = now
	s.m.SetTime(now)
}

// Time is Redis' clock.
func (s *store) Time(ctx context.Context) *redis.TimeCmd {
	cmd := redis.NewTimeCmd(ctx, "time")
	cmd.SetVal(s.now)
	return cmd
}

// RunScript implements [luascript.Runner].
func (s *store) RunScript(ctx context.Context, script *luascript.Script, key string, args *luascript.Args) (luascript.Reply, error) {
	script = s.rule.outOf(script)
	told := s.told
	s.told = nil
	run := func() luascript.Answer {
		s.wrote = true
		cmd := script.Command(ctx, key, []*luascript.Args{args})
		seen, err := s.look(script, key, cmd.Args())
		if err != nil {
			return luascript.Answer{Err: err}
		}
		v, err := s.eval(script, cmd.Args())
		if err != nil {
			cmd.SetErr(err)
		} else {
			cmd.SetVal(v)
		}
		a := script.Answers(cmd, 1)[0]
		if a.Err != nil {
			return a
		}
		if s.watch != nil {
			seen.reply = a.Reply
			if seen.after, a.Err = s.hash(key + ":gate"); a.Err == nil {
				s.watch(seen)
			}
		}
		if told != nil {
			told(a.Reply)
		}
		return a
	}
	switch s.fate {
	case requestLost:
		return nil, errLost
	case replyLost:
		run()
		return nil, errLost
	case delayed:
		s.later(func() { run() })
		return nil, errLost
	}
	a := run()
	return a.Reply, a.Err
}

// look is what stands in Redis before a script is run.
func (s *store) look(script *luascript.Script, key string, words []any) (a applied, err error) {
	if s.watch == nil {
		return a, nil
	}
	// Of one call all arguments stand in front, as those that all calls have alike.
	const head = 5
	a.script, a.args = script.Name(), map[string]string{}
	for i := head; i+1 < len(words)-1; i += 2 {
		a.args[fmt.Sprint(words[i])] = word(words[i+1])
	}
	if a.before, err = s.hash(key + ":gate"); err == nil && a.script == "begin" {
		a.record, err = s.hash(key + ":op:" + a.args["id"])
	}
	return a, err
}

func word(w any) string {
	if b, ok := w.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(w)
}

// eval runs an EVALSHA, of a script that may not be known yet.
func (s *store) eval(script *luascript.Script, words []any) (any, error) {
	if !s.loads[script.Hash()] {
		if _, err := s.command("SCRIPT", "load", script.Source()); err != nil {
			return nil, err
		}
		s.loads[script.Hash()] = true
	}
	return s.command(words...)
}

// command runs one command on miniredis' own dispatcher.
func (s *store) command(words ...any) (any, error) {
	text, err := texts(words)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	s.m.Server().Dispatch(server.NewPeer(w), text)
	if err := w.Flush(); err != nil {
		return nil, err
	}
	v, err := server.ParseReply(bufio.NewReader(&out))
	return int64s(v), err
}

// texts are the words of a command as they go over a connection.
func texts(words []any) ([]string, error) {
	text := make([]string, len(words))
	for i, w := range words {
		switch w := w.(type) {
		case string:
			text[i] = w
		case []byte:
			text[i] = string(w)
		case int:
			text[i] = strconv.Itoa(w)
		case int64:
			text[i] = strconv.FormatInt(w, 10)
		default:
			return nil, fmt.Errorf("argument %d is a %T", i, w)
		}
	}
	return text, nil
}

// int64s makes of miniredis' ints what a client of Redis gives.
func int64s(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = int64s(v[i])
		}
	}
	return v
}

// hash reads a hash as it is stored.
func (s *store) hash(key string) (map[string]string, error) {
	v, err := s.command("HGETALL", key)
	if err != nil {
		return nil, err
	}
	items, _ := v.([]any)
	m := make(map[string]string, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		m[fmt.Sprint(items[i])] = fmt.Sprint(items[i+1])
	}
	return m, nil
}

// index reads a sorted set as it is stored.
func (s *store) index(key string) (map[string]int64, error) {
	entries, err := s.m.SortedSet(key)
	if errors.Is(err, miniredis.ErrKeyNotFound) {
		return nil, nil
	}
	m := make(map[string]int64, len(entries))
	for member, score := range entries {
		m[member] = int64(min(score, float64(never)))
	}
	return m, err
}

// never is the score of what stands in an index for ever.
const never = int64(1) << 62
