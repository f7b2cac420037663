package luascript_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/luascript"
	"redrive/internal/redistest"
)

// tally adds to a counter and tells what it was told; it fails where asked to.
var tally = luascript.Must("tally", `--[[ tally: add, and say so.
KEYS[1]  slot
ARGV     by, name, fail
RETURNS  name, the sum
LIMIT    one call
INVARIANT none
]]
if A.fail == 'script' then error('told to') end
if A.fail == 'redis' then redis.call('LPUSH', P .. 'sum', 'x') end
return {A.name or 'nobody', int(redis.call('INCRBY', P .. 'sum', arg('by')))}
`, luascript.Base)

func call(by int64, name, fail string) *luascript.Args {
	a := new(luascript.Args).Int("by", by)
	if name != "" {
		a.Str("name", name)
	}
	if fail != "" {
		a.Str("fail", fail)
	}
	return a
}

func TestManyCallsInOneRunAreDecidedInOrderAndEachForItself(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		if err := c.ScriptLoad(t.Context(), tally.Source()).Err(); err != nil {
			t.Fatal(err)
		}
		calls := []*luascript.Args{call(2, "ada", ""), call(2, "bob", "script"), call(2, "", ""), call(3, "cyd", "redis"), call(3, "dan", "")}
		cmd := tally.Command(t.Context(), "t:{x}", calls)
		_ = c.Process(t.Context(), cmd)
		answers := tally.Answers(cmd, len(calls))
		for i, want := range []string{"ada 2", "", "nobody 4", "", "dan 7"} {
			a := answers[i]
			var reply redis.Error
			switch {
			case want == "" && !errors.As(a.Err, &reply):
				t.Errorf("call %d: %v %v, want an error reply", i, a.Reply, a.Err)
			case want != "" && (a.Err != nil || strings.Join(a.Reply, " ") != want):
				t.Errorf("call %d: %v %v, want %s", i, a.Reply, a.Err, want)
			}
		}
	})
}

func TestALoneCallFailsWithTheErrorOfRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		c := newClient(t)
		if r, err := tally.Run(t.Context(), c, "t:{x}", call(5, "ada", "")); err != nil || r.At(1) != "5" {
			t.Fatalf("%v %v", r, err)
		}
		_, err := tally.Run(t.Context(), c, "t:{x}", call(5, "ada", "redis"))
		var reply redis.Error
		if !errors.As(err, &reply) || !strings.HasPrefix(reply.Error(), "WRONGTYPE") && !strings.HasPrefix(reply.Error(), "ERR") {
			t.Errorf("error %v, want the error reply of the command inside", err)
		}
		if _, err := tally.Run(t.Context(), c, "t:{x}", call(5, "ada", "script")); !errors.As(err, &reply) || !strings.HasPrefix(reply.Error(), "ERR") {
			t.Errorf("error %v, want an ERR reply", err)
		}
	})
}

func TestAFailedCommandIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	cmd := redis.NewCmdResult(nil, context.DeadlineExceeded)
	for i, a := range tally.Answers(cmd, 3) {
		if !errors.Is(a.Err, context.DeadlineExceeded) {
			t.Errorf("call %d: %v", i, a.Err)
		}
	}
}

func TestAnAnswerThatIsCutShortIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	for _, v := range []any{[]any{}, []any{"2", "a"}, []any{"-1"}, []any{"1", "a", "1"}, []any{"x"}, "text"} {
		answers := tally.Answers(redis.NewCmdResult(v, nil), 2)
		if answers[1].Err == nil {
			t.Errorf("%v: the second of two calls has no error", v)
		}
	}
}

func TestWhatAllCallsHaveAlikeIsSentOnce(t *testing.T) {
	t.Parallel()
	many := []*luascript.Args{call(1, "ada", ""), call(1, "bob", "")}
	n := 0
	for _, item := range tally.Command(t.Context(), "t:{x}", many).Args() {
		if item == "by" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("argument by was sent %d times", n)
	}
}
