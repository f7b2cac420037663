// Package luascript loads, composes, checks and runs the Lua scripts that hold
// Redrive's atomic decisions.
//
// A script is one decision: a body with a header, preceded by the libraries it
// needs. One run of it may decide many calls, one after the other and each as if it
// were alone ([Script.Command]): that saves most of what a run costs. Each package owns its Lua: budget the gate, dedupe identity and claim,
// ledger the record; composing them here keeps the step atomic although the code
// lives apart. Libraries are Lua tables ("local gate = {}"), so that a
// composition stays far below Lua's limit of 200 locals.
//
// Scripts take named arguments (name, value, name, value, …) and answer with a
// flat list of strings. A header must state KEYS, ARGV, RETURNS, LIMIT and
// INVARIANT; [New] refuses a script without, and one that uses what miniredis or
// Redis lacks or what makes integers lossy (see the checks).
package luascript

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Library is a piece of Lua that scripts are composed of.
type Library struct {
	Name   string
	Source string
}

// Script is a composed script, ready to run. Safe for concurrent use.
type Script struct {
	name   string
	source string
	script *redis.Script
}

var header = []string{"KEYS", "ARGV", "RETURNS", "LIMIT", "INVARIANT"}

// What real Redis and miniredis disagree about, or what one of them lacks.
var banned = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`\bcjson\.encode\b`), "real Redis writes big numbers as 1.7e+15: answer with strings"},
	{regexp.MustCompile(`\btostring\s*\(`), "loses digits of big numbers on real Redis: use string.format('%d', n)"},
	{regexp.MustCompile(`\b(bit|struct|cmsgpack|os)\.`), "missing in Redis or in miniredis"},
	{regexp.MustCompile(`\bmath\.random\b`), "randomness is drawn in Go and passed in"},
	{regexp.MustCompile(`'(KEYS|SCAN|FLUSHALL|FLUSHDB)'`), "a script walks nothing without a limit"},
}

// New composes body and what it needs of the libraries, in that order. It returns an error when the
// body's header is incomplete or a construct is banned.
func New(name, body string, libraries ...Library) (*Script, error) {
	head, _, ok := strings.Cut(body, "]]")
	if !ok || !strings.HasPrefix(body, "--[[") {
		return nil, fmt.Errorf("script %s: must begin with a header comment --[[ … ]]", name)
	}
	for _, word := range header {
		if !strings.Contains(head, "\n"+word) {
			return nil, fmt.Errorf("script %s: header says nothing of %s", name, word)
		}
	}
	var all []piece
	for _, lib := range libraries {
		code := strip(lib.Source)
		if err := check("library "+lib.Name, code); err != nil {
			return nil, err
		}
		parts, err := pieces(compact(code))
		if err != nil {
			return nil, fmt.Errorf("library %s: %w", lib.Name, err)
		}
		all = append(all, parts...)
	}
	code := strip(body)
	if err := check("script "+name, code); err != nil {
		return nil, err
	}
	code = "local function decide()\n" + compact(code) + "end\n" + compact(strip(driveSource))
	source := reached(all, code) + code
	return &Script{name: name, source: source, script: redis.NewScript(source)}, nil
}

// Must is [New] for scripts embedded in the binary: a broken one is a caller's
// bug, so it panics.
func Must(name, body string, libraries ...Library) *Script {
	s, err := New(name, body, libraries...)
	if err != nil {
		panic("luascript: " + err.Error())
	}
	return s
}

// check refuses banned constructs in code; comments may name them.
func check(what, code string) error {
	for number, line := range strings.Split(code, "\n") {
		for _, b := range banned {
			if m := b.pattern.FindString(line); m != "" {
				return fmt.Errorf("%s line %d: %s is not allowed: %s", what, number+1, m, b.why)
			}
		}
	}
	return nil
}

// Name returns the name that the script was made with.
func (s *Script) Name() string { return s.name }

// Source returns the composed source, as Redis sees it.
func (s *Script) Source() string { return s.source }

// Hash returns the SHA-1 by which Redis knows the script.
func (s *Script) Hash() string { return s.script.Hash() }

// Runner is a client that runs scripts its own way, such as many calls at once. Its
// answers and errors are those of [Script.Run].
type Runner interface {
	RunScript(ctx context.Context, s *Script, key string, args *Args) (Reply, error)
}

// Run runs the script (EVALSHA, then EVAL when Redis has forgotten it) and
// returns its flat answer. key names the slot: every key that the script touches
// bears the same hash tag. Errors name the script; the ones of redis are wrapped. A
// client that is a [Runner] is left to do it. Where args ask for replicas the answer
// may come together with an error, [ErrTooFewReplicas].
//
// Run never repeats a call whose fate it does not know: a lost reply is the
// caller's to settle, because only the caller knows whether the script is
// idempotent for its run id.
func (s *Script) Run(ctx context.Context, c redis.Scripter, key string, args *Args) (Reply, error) {
	if r, ok := c.(Runner); ok {
		return r.RunScript(ctx, s, key, args)
	}
	if args.replicas > 0 {
		return s.runWaiting(ctx, c, key, args)
	}
	list := append([]any{len(args.list)}, args.list...)
	v, err := s.script.Run(ctx, c, []string{key}, list...).Result()
	if err != nil {
		return nil, s.fault(err)
	}
	return toReply(s.name, v)
}

func (s *Script) fault(err error) error { return fmt.Errorf("script %s: %w", s.name, err) }

// Command returns the command that decides all of calls in one run, in order, for a
// caller's pipeline. Redis must know the script already: after a NOSCRIPT error
// nothing was decided.
func (s *Script) Command(ctx context.Context, key string, calls []*Args) *redis.Cmd {
	return s.command(ctx, "evalsha", s.Hash(), key, calls)
}

// command runs script, which is the hash or the source as command wants it.
func (s *Script) command(ctx context.Context, command, script, key string, calls []*Args) *redis.Cmd {
	shared := commonPrefix(calls)
	list := append(make([]any, 0, 5+len(calls[0].list)*len(calls)), command, script, 1, key, shared)
	list = append(list, calls[0].list[:shared]...)
	for _, c := range calls {
		list = append(list, len(c.list)-shared)
		list = append(list, c.list[shared:]...)
	}
	cmd := redis.NewCmd(ctx, list...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// commonPrefix is how many leading items all calls have alike: what holds for all
// of them is sent once.
func commonPrefix(calls []*Args) int {
	first := calls[0].list
	n := len(first)
	for _, c := range calls[1:] {
		n = min(n, len(c.list))
		for i := 0; i < n; i++ {
			if !alike(first[i], c.list[i]) {
				n = i
			}
		}
	}
	return n - n%2
}

func alike(a, b any) bool {
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && x == y
	case int64:
		y, ok := b.(int64)
		return ok && x == y
	default:
		return false // bytes are an operation's own
	}
}

// Answer is what one of many calls came to.
type Answer struct {
	Reply Reply
	Err   error // as that of [Script.Run]
}

// Answers reads the answers of a command of n calls. When the command itself failed,
// all of them have its error.
func (s *Script) Answers(cmd *redis.Cmd, n int) []Answer {
	answers := make([]Answer, n)
	v, err := cmd.Result()
	var all Reply
	if err != nil {
		err = s.fault(err)
	} else {
		all, err = toReply(s.name, v)
	}
	for i := range answers {
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("script %s: answered %d of %d calls", s.name, i, n)
		}
		if err != nil {
			answers[i].Err = err
			continue
		}
		items := int(all.Int(0))
		if items < 0 || items >= len(all) {
			err = fmt.Errorf("script %s: answer %d is cut short", s.name, i+1)
			answers[i].Err = err
			continue
		}
		answers[i].Reply, all = all[1:1+items:1+items], all[1+items:]
		if answers[i].Reply.At(0) == "failed" {
			answers[i] = Answer{Err: s.fault(scriptError(answers[i].Reply.At(1)))}
		}
	}
	return answers
}

// scriptError is an error reply that one of many calls got.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError implements [redis.Error].
func (scriptError) RedisError() {}

func toReply(name string, v any) (Reply, error) {
	items, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("script %s: answered %T instead of a list", name, v)
	}
	reply := make(Reply, len(items))
	for i, item := range items {
		switch x := item.(type) {
		case string:
			reply[i] = x
		case int64:
			reply[i] = strconv.FormatInt(x, 10)
		case nil:
		default:
			return nil, fmt.Errorf("script %s: answer %d is a %T", name, i, item)
		}
	}
	return reply, nil
}

// Args collects a script's named arguments. The zero value is empty and ready.
// Not safe for concurrent use.
type Args struct {
	list     []any
	replicas int // asked for, see Replicas
}

// Str adds a text argument.
func (a *Args) Str(name, value string) *Args {
	a.list = append(a.list, name, value)
	return a
}

// Bytes adds a binary argument.
func (a *Args) Bytes(name string, value []byte) *Args {
	a.list = append(a.list, name, value)
	return a
}

// Int adds an integer argument.
func (a *Args) Int(name string, value int64) *Args {
	a.list = append(a.list, name, value)
	return a
}

// Flag adds the argument with the value 1, or nothing when off.
func (a *Args) Flag(name string, on bool) *Args {
	if on {
		a.list = append(a.list, name, 1)
	}
	return a
}

// Reply is the flat answer of a script.
type Reply []string

// At returns item i, "" when the answer is shorter.
func (r Reply) At(i int) string {
	if i < 0 || i >= len(r) {
		return ""
	}
	return r[i]
}

// Int returns item i as an integer, 0 when it is missing or not a number.
func (r Reply) Int(i int) int64 {
	n, _ := strconv.ParseInt(r.At(i), 10, 64)
	return n
}

// Named reads the items from position from on as name, value, name, value, ….
func (r Reply) Named(from int) map[string]string {
	m := make(map[string]string, (len(r)-from)/2)
	for i := from; i+1 < len(r); i += 2 {
		m[r[i]] = r[i+1]
	}
	return m
}
