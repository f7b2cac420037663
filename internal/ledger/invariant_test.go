package ledger

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/budget"
	"redrive/internal/jobs"
)

// indexOf is P2 as a function: the indexes in exactly one of which an operation of
// the state stands.
func indexOf(state jobs.State) []string {
	switch state {
	case jobs.Waiting:
		return []string{"waiting", "due:first", "due:retry", "aside"}
	case jobs.Released:
		return []string{"released:first", "released:retry"}
	case jobs.Attempting:
		return []string{"claims"}
	case jobs.Unresolved:
		return []string{"unresolved"}
	case jobs.Dead:
		return []string{"dead"}
	case jobs.Succeeded, jobs.Cancelled:
		return []string{"done"}
	}
	return nil
}

var everyIndex = []string{"waiting", "due:first", "due:retry", "aside", "released:first", "released:retry", "claims", "unresolved", "dead", "done"}

func (b *bundle) index(name string) map[string]float64 {
	b.Helper()
	entries, err := b.rdb.ZRangeWithScores(b.Context(), b.key(dep, name), 0, -1).Result()
	b.must(err)
	return scoresOf(entries)
}

func scoresOf(entries []redis.Z) map[string]float64 {
	m := make(map[string]float64, len(entries))
	for _, e := range entries {
		m[e.Member.(string)] = e.Score
	}
	return m
}

// records reads every operation of the dependency as it is stored.
func (b *bundle) records() map[string]map[string]string {
	b.Helper()
	prefix := b.key(dep, "op:")
	keys, err := b.rdb.Keys(b.Context(), prefix+"*").Result()
	b.must(err)
	pipe := b.rdb.Pipeline()
	hashes := make([]*redis.MapStringStringCmd, len(keys))
	for i, k := range keys {
		hashes[i] = pipe.HGetAll(b.Context(), k)
	}
	_, err = pipe.Exec(b.Context())
	b.must(err)
	out := make(map[string]map[string]string, len(keys))
	for i, k := range keys {
		out[strings.TrimPrefix(k, prefix)] = hashes[i].Val()
	}
	return out
}

// check proves P2 over the whole dependency.
func (b *bundle) check() {
	b.Helper()
	if b.unchecked {
		return
	}
	if broken := b.broken(); len(broken) > 0 {
		b.Fatalf("P2 broken:\n%s", strings.Join(broken, "\n"))
	}
}

// broken lists every way in which the store breaks P2: each operation in exactly
// one state and in exactly that state's index, no index entry without a record, the
// counts equal to a recount, and the fields of a state present in that state alone.
func (b *bundle) broken() []string {
	b.Helper()
	records, ctx := b.records(), b.Context()
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	pipe := b.rdb.Pipeline()
	counted := pipe.HGetAll(ctx, b.key(dep, "counts"))
	indexes, requests := map[string]*redis.ZSliceCmd{}, map[string]*redis.IntCmd{}
	for _, name := range everyIndex {
		indexes[name] = pipe.ZRangeWithScores(ctx, b.key(dep, name), 0, -1)
	}
	for op := range records {
		requests[op] = pipe.Exists(ctx, b.key(dep, "request:"+op))
	}
	_, err := pipe.Exec(ctx)
	b.must(err)
	where := map[string][]string{}
	scores := map[string]float64{}
	for _, name := range everyIndex {
		for op, score := range scoresOf(indexes[name].Val()) {
			where[op] = append(where[op], name)
			scores[op] = score
			if records[op] == nil {
				say("%s: in index %s without a record", op, name)
			}
		}
	}
	giveup, asking, ended := map[string]string{}, map[string]string{}, map[string]string{}
	for op, f := range records {
		if state := jobs.State(f["state"]); state == jobs.Succeeded || state == jobs.Cancelled {
			ended[op] = f["ended"]
		}
		if f["giveup"] != "" {
			giveup[op] = f["giveup"]
		}
		if f["irun"] != "" {
			asking[op] = fmt.Sprintf("%.0f", scores[op])
		}
	}
	for name, want := range map[string]map[string]string{"giveup": giveup, "asking": asking, "ended": ended} {
		got := map[string]string{}
		for op, score := range b.index(name) {
			got[op] = fmt.Sprintf("%.0f", score)
		}
		if !maps.Equal(got, want) {
			say("index %s is %v, want %v", name, got, want)
		}
	}
	recount := map[string]string{}
	for op, f := range records {
		state := jobs.State(f["state"])
		in := where[op]
		if len(in) != 1 || !slices.Contains(indexOf(state), in[0]) {
			say("%s: %s, but in indexes %v", op, state, in)
			continue
		}
		out = append(out, brokenRecord(op, f, in[0], scores[op])...)
		count := strings.SplitN(op, "/", 2)[0] + " " + f["state"]
		if state == jobs.Dead {
			count += " " + f["reason"]
		}
		n, _ := strconv.Atoi(recount[count])
		recount[count] = strconv.Itoa(n + 1)
		if f["tombstone"] == "" && f["bare"] == "" && requests[op].Val() != 1 {
			say("%s: %s without its request", op, state)
		}
	}
	counts := counted.Val()
	for _, name := range append(sortedKeys(counts), sortedKeys(recount)...) {
		if counts[name] != recount[name] {
			say("counts say %q of %q, a recount %q", counts[name], name, recount[name])
		}
	}
	return out
}

func brokenRecord(op string, f map[string]string, index string, score float64) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, op+": "+fmt.Sprintf(format, args...)) }
	state := jobs.State(f["state"])
	only := func(field string, states ...jobs.State) {
		if (f[field] != "") != slices.Contains(states, state) {
			say("%s, and field %s is %q", state, field, f[field])
		}
	}
	only("next", jobs.Waiting)
	only("run", jobs.Attempting)
	only("lease", jobs.Attempting)
	only("attempt", jobs.Attempting)
	only("ended", jobs.Dead, jobs.Succeeded, jobs.Cancelled)
	only("reason", jobs.Dead)
	only("giveup", jobs.Unresolved)
	for _, field := range []string{"irun", "iasked", "nf", "tries"} {
		if f[field] != "" && state != jobs.Unresolved {
			say("%s, and field %s is %q", state, field, f[field])
		}
	}
	if (f["irun"] == "") != (f["iasked"] == "") {
		say("inquiry of run %q, asked at %q", f["irun"], f["iasked"])
	}
	if state == jobs.Unresolved && (f["unk"] == "" || f["intent"] == "") {
		say("unresolved with marks %q and intent %q", f["unk"], f["intent"])
	}
	if (f["unk"] == "") != (f["uend"] == "") {
		say("marks %q, their end %q", f["unk"], f["uend"])
	}
	number := func(field string) float64 { n, _ := strconv.ParseFloat(f[field], 64); return n }
	want, latest := score, number("deadline")
	if f["unk"] != "" && f["safe"] != "" && f["idem"] != "natural" {
		latest = min(latest, number("safe"))
	}
	switch index {
	case "waiting":
		want = min(number("next"), latest)
	case "due:first", "due:retry", "aside":
		want = latest
		if index == "due:first" && number("sends") > 0 {
			say("%v sends, and in %s", number("sends"), index)
		}
		if (index == "aside") != (f["aside"] != "") {
			say("field aside %q, and in %s", f["aside"], index)
		}
	case "claims":
		want = number("lease")
	case "dead":
		want = number("since")
	case "done":
		if f["unk"] != "" {
			want = math.Inf(1)
		}
	}
	if score != want {
		say("%s with score %.0f in %s, want %.0f", state, score, index, want)
	}
	if state == jobs.Succeeded && f["unk"] != "" {
		say("succeeded with the unknown mark %q", f["unk"])
	}
	for _, n := range strings.FieldsFunc(f["unk"], func(r rune) bool { return r == ',' }) {
		if n == "0" {
			continue // a person's doubt, of no attempt
		}
		line, ok := f["a"+n]
		if !ok && strings.Contains(f["flags"], "recreated") {
			continue // the worker's copy knows of earlier attempts only that they are unknown
		}
		original := strings.Contains(line, ",cr,") // that something else stands there is no word on what was sent before
		if !strings.Contains(line, ",u,") && !original && f["known_ok"] == "" {
			say("marked for attempt %s, whose line is %q", n, line)
		}
	}
	if (f["unk"] == "") != (f["target"] == "") {
		say("marks %q, target %q", f["unk"], f["target"])
	}
	return out
}

var instants = []string{"created", "not_before", "deadline", "next", "first", "safe", "lease", "since", "ended", "orphan", "giveup", "iasked", "nf", "uend"}

// pass lets d go by. A real server's clock cannot be moved, so every stored instant
// moves into the past instead; to a script that is the same.
func (b *bundle) pass(d time.Duration) {
	b.Helper()
	ctx, ms := b.Context(), d.Milliseconds()
	back := func(key, field, value string) {
		if at, err := strconv.ParseInt(value, 10, 64); err == nil && at > 0 {
			b.must(b.rdb.HSet(ctx, key, field, at-ms).Err())
		}
	}
	for op, f := range b.records() {
		key := b.key(dep, "op:"+op)
		for _, field := range instants {
			back(key, field, f[field])
		}
		for field, line := range f {
			if _, err := strconv.Atoi(strings.TrimPrefix(field, "a")); err != nil || field[0] != 'a' {
				continue
			}
			start, rest, _ := strings.Cut(line, ",")
			at, err := strconv.ParseInt(start, 10, 64)
			b.must(err)
			b.must(b.rdb.HSet(ctx, key, field, strconv.FormatInt(at-ms, 10)+","+rest).Err())
		}
	}
	b.passGate(ms)
	for field, v := range b.rdb.HGetAll(ctx, b.key(dep, "gate")).Val() {
		if slices.Contains([]string{"filled_at", "last_now", "hold_until", "hold_since", "resumed"}, field) {
			back(b.key(dep, "gate"), field, v)
		}
	}
	b.passChains(d)
	for _, name := range append(slices.Clone(everyIndex), "giveup", "asking", "ended", "outbox") {
		for op := range b.index(name) {
			b.must(b.rdb.ZIncrBy(ctx, b.key(dep, name), -float64(ms), op).Err())
		}
	}
	b.check()
}

// passGate lets ms pass for what the gate keeps.
func (b *bundle) passGate(ms int64) {
	b.Helper()
	ctx := b.Context()
	stored := b.rdb.HGetAll(ctx, b.key(dep, "gate")).Val()
	if stored["breaker"] == "" {
		return
	}
	g := budget.Read(stored, false)
	for _, at := range []*int64{&g.SinceMS, &g.UntilMS, &g.ParkedUntilMS, &g.LaneFilledMS, &g.LaneGrownMS, &g.LaneCutMS, &g.RateFilledMS, &g.FreshMS, &g.ReleasedAtMS} {
		if *at > 0 {
			*at = max(*at-ms, 1)
		}
	}
	for i := range g.Bins {
		g.Bins[i].AtMS = max(g.Bins[i].AtMS-ms, 1)
	}
	for i := range g.Probes {
		g.Probes[i].UntilMS = max(g.Probes[i].UntilMS-ms, 1)
	}
	for field, v := range g.Fields() {
		if field != "tokens" && field != "rest" && field != "filled_at" {
			b.must(b.rdb.HSet(ctx, b.key(dep, "gate"), field, v).Err())
		}
	}
	if stored["override"] != "" {
		g.Override.UntilMS = max(g.Override.UntilMS-ms, 1)
		b.must(b.rdb.HSet(ctx, b.key(dep, "gate"), "override", g.Override.Text()).Err())
	}
}

// field reads one stored field; tests use it only where no view shows it.
func (b *bundle) field(key, name string) string {
	b.Helper()
	v, err := b.rdb.HGet(b.Context(), b.key(dep, "op:"+id(key).String()), name).Result()
	if err != nil && err != redis.Nil {
		b.Fatal(err)
	}
	return v
}

func zAt(at time.Time, member string) redis.Z {
	return redis.Z{Score: float64(at.UnixMilli()), Member: member}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
