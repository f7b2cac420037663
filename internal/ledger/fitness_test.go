package ledger

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redrive/internal/redistest"
)

// codes lists the findings as "code" (warning) or "code!" (refusal).
func codes(r Report) string {
	var out []string
	for _, f := range r.Findings {
		code := string(f.Code)
		if f.Refuses {
			code += "!"
		}
		out = append(out, code)
	}
	return strings.Join(out, " ")
}

func textOf(r Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(f.Text + "\n")
	}
	return b.String()
}

var (
	standard       = FitnessOptions{Durability: DurabilityStandard, UnsafeKinds: true}
	strictKeyed    = FitnessOptions{Durability: DurabilityStrict}
	strictUnsafe   = FitnessOptions{Durability: DurabilityStrict, UnsafeKinds: true}
	volatile       = FitnessOptions{Durability: DurabilityVolatile, UnsafeKinds: true}
	assumingStrict = FitnessOptions{Durability: DurabilityStrict, AssumePersistence: persistAOF}
)

// T22: an evicting Redis loses operations, and nobody was told at the start.
func TestT22FitnessOfRealServersThatAreConfiguredWrongly(t *testing.T) {
	t.Parallel()
	line := redistest.WithConfig
	for _, tc := range []struct {
		name                                 string
		config                               []string
		volatile, standard, keyed, unsafe    string
		says                                 string // part of what standard or, if that says nothing, strict says
		volatileIsRefused, assumedIsAccepted bool
	}{
		{name: "as it should be, but for a replica", config: []string{"appendfsync always"},
			volatile: "volatile", standard: "", keyed: "", unsafe: "replica!", says: "no replica that is online"},
		{name: "append-only file every second",
			volatile: "volatile", standard: "persistence", keyed: "persistence", unsafe: "persistence! replica!", says: "appendfsync is everysec"},
		{name: "append-only file when the system likes", config: []string{"appendfsync no"},
			volatile: "volatile", standard: "persistence", keyed: "persistence", unsafe: "persistence! replica!", says: "appendfsync is no"},
		{name: "evicts any key", config: []string{"maxmemory-policy allkeys-lru", "appendfsync always"},
			volatile: "volatile", standard: "eviction!", keyed: "eviction!", unsafe: "eviction! replica!", says: "maxmemory-policy is allkeys-lru"},
		{name: "evicts keys that expire", config: []string{"maxmemory-policy volatile-lru", "appendfsync always"},
			volatile: "volatile", standard: "eviction!", keyed: "eviction!", unsafe: "eviction! replica!", says: "maxmemory-policy is volatile-lru"},
		{name: "keeps nothing", config: []string{"appendonly no", `save ""`},
			volatile: "volatile", standard: "persistence!", keyed: "persistence!", unsafe: "persistence! replica!", says: "redis keeps nothing"},
		{name: "keeps snapshots only", config: []string{"appendonly no", "save 3600 1"},
			volatile: "volatile", standard: "persistence", keyed: "persistence", unsafe: "persistence! replica!", says: "snapshots only"},
		{name: "CONFIG renamed away", config: []string{`rename-command CONFIG ""`},
			volatile: "volatile", standard: "unread", keyed: "unread!", unsafe: "unread! persistence! replica!",
			says: "could not read appendfsync: CONFIG is not allowed here; set redis.assume.persistence", assumedIsAccepted: true},
		{name: "CONFIG renamed away and no append-only file", config: []string{`rename-command CONFIG ""`, "appendonly no"},
			volatile: "volatile", standard: "unread", keyed: "unread!", unsafe: "unread! replica!",
			says: "could not read persistence: CONFIG is not allowed here"},
		{name: "INFO and CONFIG renamed away", config: []string{`rename-command CONFIG ""`, `rename-command INFO ""`},
			volatile: "volatile", standard: "unread unread unread unread unread", keyed: "unread! unread! unread! unread! unread!",
			unsafe: "unread! unread! unread! unread! unread!", says: "could not read maxmemory-policy: INFO is not allowed here, CONFIG is not allowed here; set redis.assume.maxmemory_policy"},
		{name: "a node of a cluster", config: []string{"cluster-enabled yes", "appendfsync always"},
			volatile: "mode! volatile", standard: "mode!", keyed: "mode!", unsafe: "mode! replica!", says: "redis runs in mode cluster"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var opts []redistest.Option
			for _, l := range tc.config {
				opts = append(opts, line(l))
			}
			rdb := redistest.Server(t, opts...).Client(t)
			var said string
			for _, at := range []struct {
				level string
				o     FitnessOptions
				want  string
			}{{"volatile", volatile, tc.volatile}, {"standard", standard, tc.standard}, {"strict for keyed kinds", strictKeyed, tc.keyed}, {"strict", strictUnsafe, tc.unsafe}} {
				r, err := Fitness(t.Context(), rdb, at.o)
				if err != nil {
					t.Fatalf("%s: %v", at.level, err)
				}
				if got := codes(r); got != at.want {
					t.Errorf("%s: findings %q, want %q:\n%s", at.level, got, at.want, textOf(r))
				}
				said += textOf(r)
			}
			if !strings.Contains(said, tc.says) {
				t.Errorf("nothing says %q:\n%s", tc.says, said)
			}
			if tc.assumedIsAccepted {
				r, err := Fitness(t.Context(), rdb, assumingStrict)
				if err != nil || !r.Fit() {
					t.Errorf("strict with redis.assume.persistence: %v, %s", err, textOf(r))
				}
				if !hasFact(r, Fact{Name: "appendfsync", Value: "everysec", From: FromAssume}) {
					t.Errorf("facts %+v do not show what was assumed", r.Facts)
				}
			}
		})
	}
}

func hasFact(r Report, want Fact) bool {
	for _, f := range r.Facts {
		if f == want {
			return true
		}
	}
	return false
}

func TestFitnessOfAReplicaAndOfItsPrimary(t *testing.T) {
	t.Parallel()
	primary := redistest.Server(t, redistest.WithConfig("appendfsync always"))
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Server(t, redistest.WithConfig("replicaof "+host+" "+port))

	r, err := Fitness(t.Context(), replica.Client(t), volatile)
	if err != nil {
		t.Fatal(err)
	}
	want := "read-only replica of " + host + ":" + port + ": point redis.url at the primary"
	if r.Fit() || r.Refusals()[0].Code != FindingRole || !strings.Contains(r.Refusals()[0].Text, want) {
		t.Errorf("a replica: %q, want a refusal that says %q", textOf(r), want)
	}

	rdb := primary.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // the first synchronisation takes a moment
	defer cancel()
	for {
		if r, err = Fitness(ctx, rdb, strictUnsafe); err != nil {
			t.Fatalf("the replica never came online: %v: %s", err, textOf(r))
		}
		if r.Fit() {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if got := codes(r); got != "" {
		t.Errorf("primary with a replica and appendfsync always, strict: findings %q", got)
	}
	settleFiles(t, rdb)
	settleFiles(t, replica.Client(t))
}

func TestFitnessOfWaitingForReplicas(t *testing.T) {
	t.Parallel()
	waiting := func(o FitnessOptions, n int) FitnessOptions { o.WaitReplicas = n; return o }
	line := redistest.WithConfig
	primary, replicas := redistest.Replicated(t, 2, line("appendfsync always"), line("min-replicas-to-write 2"), line("min-replicas-max-lag 2"))
	rdb := primary.Client(t)
	judge := func(c redis.UniversalClient, o FitnessOptions, want, says string) {
		t.Helper()
		r, err := Fitness(t.Context(), c, o)
		if err != nil || codes(r) != want || !strings.Contains(textOf(r), says) {
			t.Errorf("%s, waiting for %d: %v, findings %q, want %q with %q:\n%s", o.Durability, o.WaitReplicas, err, codes(r), want, says, textOf(r))
		}
	}
	levels := func(c redis.UniversalClient, n int, want, says string) {
		t.Helper()
		judge(c, waiting(standard, n), want, says)
		judge(c, waiting(strictUnsafe, n), want, says)
		judge(c, waiting(volatile, n), "volatile", says)
	}
	// As it should be; a replica more than there are; and each setting spoilt.
	judge(rdb, waiting(standard, 2), "", "")
	judge(rdb, waiting(strictUnsafe, 1), "", "")
	levels(rdb, 3, "wait_replicas! wait_replicas!", "min-replicas-to-write is 2: redis.wait_replicas 3 needs at least as many")
	judge(rdb, waiting(standard, 3), "wait_replicas! wait_replicas!", "redis has 2 replicas that can be waited for: redis.wait_replicas is 3")
	set := func(name, value string) {
		t.Helper()
		if err := rdb.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("min-replicas-to-write", "0")
	levels(rdb, 2, "wait_replicas!", "min-replicas-to-write is 0")
	judge(rdb, standard, "", "")
	set("min-replicas-to-write", "2")
	set("min-replicas-max-lag", "0")
	levels(rdb, 2, "wait_replicas!", "min-replicas-max-lag is 0, which turns min-replicas-to-write off")
	set("min-replicas-max-lag", "2")

	// A replica that is frozen stays online for a minute. That it is missed may pass.
	replicas[0].Freeze()
	eventually(t, "the frozen replica is missed", func() bool {
		r, err := Fitness(t.Context(), rdb, waiting(standard, 2))
		return err == nil && codes(r) == "wait_replicas!" && r.Findings[0].Passing
	})
	err := rdb.Set(t.Context(), "x", "y", 0).Err()
	if !strings.Contains(Explain(err), "fewer replicas than min-replicas-to-write") || !Passing(err) {
		t.Errorf("%v explained as %q, passing %t", err, Explain(err), Passing(err))
	}
	replicas[0].Thaw()

	alone := redistest.Server(t, line("appendfsync always"), line("min-replicas-to-write 1")).Client(t)
	judge(alone, waiting(standard, 1), "wait_replicas!", "redis has no replica that can be waited for")
	mute := redistest.Server(t, line(`rename-command CONFIG ""`)).Client(t)
	judge(mute, waiting(standard, 1), "wait_replicas! unread unread", "could not read min-replicas-to-write: CONFIG is not allowed here")
	judge(mute, waiting(FitnessOptions{Durability: DurabilityStrict, AssumePersistence: persistAOF}, 1), "unread! wait_replicas! persistence",
		"could not read min-replicas-to-write: CONFIG is not allowed here")
	judge(mute, waiting(volatile, 1), "volatile", "could not read min-replicas-to-write")
}

// settleFiles waits until a server's child has written what a synchronisation makes
// it write: it outlives the server and would write into a folder that is being removed.
func settleFiles(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	for range 1000 {
		info, err := rdb.Info(t.Context(), "persistence").Result()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(info, "in_progress:1") && !strings.Contains(info, "scheduled:1") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the server writes files for ten seconds")
}

func TestFitnessOfAFullServerIsARefusalThatCanPass(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	rdb := srv.Client(t)
	ctx := t.Context()
	if err := rdb.Set(ctx, "fill", strings.Repeat("x", 4<<20), 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.ConfigSet(ctx, "maxmemory", "3mb").Err(); err != nil {
		t.Fatal(err)
	}
	err := rdb.Set(ctx, "more", "x", 0).Err()
	if Explain(err) != "it is full (maxmemory reached): writes are refused" || !Passing(err) {
		t.Fatalf("Explain(%v) = %q, Passing %v", err, Explain(err), Passing(err))
	}
	r, err := Fitness(ctx, rdb, volatile)
	if err != nil {
		t.Fatal(err)
	}
	if r.Fit() || r.Refusals()[0].Code != FindingFull || !r.Refusals()[0].Passing {
		t.Fatalf("findings of a full server: %+v", r.Findings)
	}
	if err := rdb.ConfigSet(ctx, "maxmemory", "64mb").Err(); err != nil {
		t.Fatal(err)
	}
	if r, err = Fitness(ctx, rdb, volatile); err != nil || !r.Fit() {
		t.Fatalf("with more memory: %v, %s", err, textOf(r))
	}
}

func TestFitnessCannotLookWithoutThePassword(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithPassword("right"))
	for password, want := range map[string]string{
		"":      "it asks for a password: write it into redis.url (redis://:PASSWORD@HOST), or REDRIVE_REDIS_URL",
		"wrong": "it refuses the user or password of redis.url",
	} {
		u := url.URL{Scheme: "redis", Host: srv.Addr()}
		if password != "" {
			u.User = url.UserPassword("", password)
		}
		rdb, err := Connect(u.String(), ConnectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Fitness(t.Context(), rdb, standard)
		if err == nil || Explain(err) != want || Passing(err) || strings.Contains(err.Error(), "wrong@") {
			t.Errorf("password %q: %v explained as %q (passing %v), want %q", password, err, Explain(err), Passing(err), want)
		}
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFitnessOfAUserWhoMayNotAsk(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithConfig("user app on >app ~* &* +@all -config -info"))
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "app", Password: "app", MaxRetries: -1, Protocol: 2, DisableIdentity: true})
	defer rdb.Close()
	r, err := Fitness(t.Context(), rdb, FitnessOptions{Durability: DurabilityStandard, AssumeMaxmemoryPolicy: "noeviction", AssumePersistence: "aof"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := codes(r), "unread unread unread persistence"; got != want {
		t.Errorf("findings %q, want %q:\n%s", got, want, textOf(r))
	}
	if !hasFact(r, Fact{Name: "maxmemory-policy", Value: "noeviction", From: FromAssume}) {
		t.Errorf("facts %+v do not show what was assumed", r.Facts)
	}
}

func TestFitnessOfMiniredisIsVolatile(t *testing.T) {
	t.Parallel()
	_, rdb := redistest.Mini(t)
	r, err := Fitness(t.Context(), rdb, volatile)
	if err != nil || !r.Fit() {
		t.Fatalf("%v: %s", err, textOf(r))
	}
	if codes(r) != "volatile" {
		t.Errorf("findings %q, want the one that is said at every start", codes(r))
	}
}

func TestFitnessExplainsAServerThatIsAway(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://127.0.0.1:1/0":      "connection refused: nothing listens there",
		"unix:///no/such/socket":     "no such socket: is redis-server running there?",
		"redis://no.such.invalid:12": "its name cannot be looked up: no.such.invalid",
	} {
		rdb, err := Connect(url, ConnectOptions{Timeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Fitness(t.Context(), rdb, standard)
		if err == nil || Explain(err) != want || !Passing(err) {
			t.Errorf("%s: %v explained as %q (passing %v), want %q", url, err, Explain(err), Passing(err), want)
		}
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFitnessKnowsOnlyItsLevels(t *testing.T) {
	t.Parallel()
	_, rdb := redistest.Mini(t)
	if _, err := Fitness(t.Context(), rdb, FitnessOptions{Durability: "stirct"}); err == nil || !strings.Contains(err.Error(), `unknown durability "stirct"`) {
		t.Errorf("error %v, want one that names the word", err)
	}
}

// every combination of what a server may say, in few values each.
func everyServer(visit func(redisWords)) {
	options := []struct {
		info, config string
		values       []string // "" says nothing
	}{
		{info: "redis_version", values: []string{"", "6.0.16", "7.0.15", "fork"}},
		{info: "role", values: []string{"", "master", "slave"}},
		{info: "loading", values: []string{"0", "1"}},
		{info: "aof_enabled", values: []string{"", "0", "1"}},
		{info: "maxmemory_policy", values: []string{"", "noeviction", "allkeys-lru"}},
		{info: "slave0", values: []string{"", "ip=10.0.0.2,port=6379,state=online,offset=1,lag=0", "ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0"}},
		{config: "appendfsync", values: []string{"", "everysec", "always"}},
		{config: "save", values: []string{"-", "", "60 1"}}, // "-" says nothing
		{config: minReplicas, values: []string{"", "0", "1"}},
	}
	var walk func(i int, w redisWords)
	walk = func(i int, w redisWords) {
		if i == len(options) {
			visit(w)
			return
		}
		o := options[i]
		for _, v := range o.values {
			next := redisWords{info: map[string]string{}, config: map[string]string{}}
			for k, x := range w.info {
				next.info[k] = x
			}
			for k, x := range w.config {
				next.config[k] = x
			}
			switch {
			case o.info != "" && v != "":
				next.info[o.info] = v
			case o.config == "save" && v != "-", o.config != "" && o.config != "save" && v != "":
				next.config[o.config] = v
			}
			walk(i+1, next)
		}
	}
	walk(0, redisWords{})
}

func refusals(r Report) map[string]bool {
	out := map[string]bool{}
	for _, f := range r.Refusals() {
		out[string(f.Code)+f.Text] = true
	}
	return out
}

func TestFitnessLevelsOnlyGrowStricter(t *testing.T) {
	t.Parallel()
	n := 0
	everyServer(func(w redisWords) {
		n++
		levels := []FitnessOptions{volatile, {Durability: DurabilityStandard}, strictKeyed, strictUnsafe}
		for _, o := range levels {
			o.WaitReplicas = 1
			r := w.judge(o)
			if o.Durability != DurabilityVolatile && w.info["loading"] == "0" && r.Fit() && w.info["role"] != "" &&
				(w.config[minReplicas] == "0" || !strings.Contains(w.info["slave0"], "state=online")) {
				t.Fatalf("%+v: %+v accepts a wait that is none", w, o)
			}
			if len(refusals(r)) != len(r.Refusals()) {
				t.Fatalf("%+v: a refusal is said twice:\n%s", w, textOf(r))
			}
		}
		for i := 1; i < len(levels); i++ {
			weaker, stronger := w.judge(levels[i-1]), w.judge(levels[i])
			if !weaker.Fit() && stronger.Fit() {
				t.Fatalf("%+v: %+v refuses, %+v does not", w, levels[i-1], levels[i])
			}
		}
		if r := w.judge(volatile); r.Fit() != (w.info["loading"] == "0" && w.info["role"] != "slave" && w.info["redis_version"] != "6.0.16") {
			t.Fatalf("%+v: volatile says %s", w, textOf(r))
		}
		for _, o := range levels[1:] {
			r := w.judge(o)
			for _, f := range r.Facts {
				if f.From == Unread && !strings.Contains(textOf(r), f.Name) {
					t.Fatalf("%+v: nothing says that %s could not be read:\n%s", w, f.Name, textOf(r))
				}
			}
			if len(refusals(r)) != len(r.Refusals()) {
				t.Fatalf("%+v: a refusal is said twice:\n%s", w, textOf(r))
			}
		}
	})
	if n < 5000 {
		t.Fatalf("only %d servers were looked at", n)
	}
}

// Nothing that can lose an acknowledged write passes strict while kinds of class
// none or conditional are kept.
func TestFitnessStrictIsSafeForUnsafeKinds(t *testing.T) {
	t.Parallel()
	fit := 0
	everyServer(func(w redisWords) {
		if !w.judge(strictUnsafe).Fit() {
			return
		}
		fit++
		if w.info["maxmemory_policy"] != "noeviction" || w.info["aof_enabled"] != "1" || w.config["appendfsync"] != "always" ||
			!strings.Contains(w.info["slave0"], "state=online") || w.info["role"] != "master" || w.info["redis_version"] == "" {
			t.Fatalf("strict accepts %+v", w)
		}
	})
	if fit == 0 {
		t.Fatal("strict accepts nothing at all")
	}
}
