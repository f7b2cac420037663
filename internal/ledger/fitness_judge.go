package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Redis' own words for how long memory and disk keep what was written.
const (
	noeviction = "noeviction"
	fsyncSlow  = "everysec"
	fsyncSafe  = "always"

	persistNone = "none"
	persistRDB  = "rdb"
	persistAOF  = "aof"
)

// The oldest Redis that runs asynq's scripts.
const minMajor, minMinor = 6, 2

// judge says what a level makes of a server's words. Pure.
func (w redisWords) judge(o FitnessOptions) Report {
	j := judgement{words: w, o: o}
	j.ability()
	if w.info["loading"] == "1" {
		return j.report // until it has loaded, INFO says that nothing is persisted
	}
	j.eviction()
	j.durability()
	if o.Durability == DurabilityVolatile {
		j.volatile()
	}
	// Refusals first; among equals the order in which they were looked at.
	slices.SortStableFunc(j.report.Findings, func(a, b Finding) int { return cmp.Compare(bit(!a.Refuses), bit(!b.Refuses)) })
	return j.report
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

type judgement struct {
	words  redisWords
	o      FitnessOptions
	report Report
	risks  []string // what volatile allows
}

func (j *judgement) fact(name, value string, from Source, why string) {
	j.report.Facts = append(j.report.Facts, Fact{Name: name, Value: value, From: from, Why: why})
}

func (j *judgement) find(code FindingCode, refuses bool, format string, args ...any) {
	j.report.Findings = append(j.report.Findings, Finding{Code: code, Refuses: refuses, Text: fmt.Sprintf(format, args...)})
}

// risk is a finding about durability: volatile only collects it.
func (j *judgement) risk(code FindingCode, refuses bool, text string) {
	if j.o.Durability == DurabilityVolatile {
		j.risks = append(j.risks, text)
		return
	}
	j.find(code, refuses, "%s", text)
}

func (j *judgement) strict() bool { return j.o.Durability == DurabilityStrict }

// careful: a lost write-ahead could be a second effect, and the level rules it out.
func (j *judgement) careful() bool { return j.strict() && j.o.UnsafeKinds }

// unread reports what nobody told, and whom it could not be read from: a warning,
// under strict a refusal. assumeKey is what could be set instead, "" for nothing.
func (j *judgement) unread(name, assumeKey string, asked ...Source) {
	var reasons []string
	for _, from := range asked {
		refused := j.words.noInfo
		if from == FromConfig {
			refused = j.words.noConfig
		}
		reasons = append(reasons, cmp.Or(refused, string(from)+" does not tell"))
	}
	why := strings.Join(reasons, ", ")
	j.fact(name, "", Unread, why)
	text := fmt.Sprintf("could not read %s: %s", name, why)
	if assumeKey != "" {
		text += "; set redis.assume." + assumeKey
	}
	j.risk(FindingUnread, j.strict(), text)
}

// ability: what no level can do without.
func (j *judgement) ability() {
	info := j.words.info
	if version, ok := info["redis_version"]; !ok {
		j.unread("version", "", FromInfo)
	} else {
		j.fact("version", version, FromInfo, "")
		if tooOld(version) {
			j.find(FindingVersion, true, "redis %s is too old: %d.%d or later is needed", version, minMajor, minMinor)
		}
	}
	if mode := info["redis_mode"]; mode != "" && mode != "standalone" {
		j.fact("mode", mode, FromInfo, "")
		j.find(FindingMode, true, "redis runs in mode %s: a standalone server (with replicas or not) is needed", mode)
	}
	switch role := info["role"]; role {
	case "":
		j.unread("role", "", FromInfo)
	case "master":
		j.fact("role", "primary", FromInfo, "")
	default:
		j.fact("role", "replica", FromInfo, "")
		j.find(FindingRole, true, "redis is a read-only replica of %s:%s: point redis.url at the primary", info["master_host"], info["master_port"])
	}
	if info["loading"] == "1" {
		j.pass(FindingLoading, "redis is loading its data and answers nothing yet")
	}
	if limit, used := whole(info["maxmemory"]), whole(info["used_memory"])-whole(info["mem_not_counted_for_evict"]); info["maxmemory"] != "" {
		j.fact("maxmemory", sizeText(limit), FromInfo, "")
		if limit > 0 && used >= limit {
			j.pass(FindingFull, fmt.Sprintf("redis is full: %s used of maxmemory %s, writes are refused", sizeText(used), sizeText(limit)))
		}
	}
}

// pass is a refusal that may go away by itself.
func (j *judgement) pass(code FindingCode, text string) {
	j.report.Findings = append(j.report.Findings, Finding{Code: code, Refuses: true, Passing: true, Text: text})
}

func (j *judgement) eviction() {
	const name = "maxmemory-policy"
	value, from := j.words.info["maxmemory_policy"], FromInfo
	if value == "" {
		value, from = j.words.config[name], FromConfig
	}
	if value == "" {
		value, from = j.o.AssumeMaxmemoryPolicy, FromAssume
	}
	if value == "" {
		j.unread(name, "maxmemory_policy", FromInfo, FromConfig)
		return
	}
	j.fact(name, value, from, "")
	if value != noeviction {
		j.risk(FindingEviction, true, fmt.Sprintf("%s is %s%s: redis deletes operations when memory runs short; set it to %s",
			name, value, assumedText(from), noeviction))
	}
}

// durability: would an acknowledged write survive?
func (j *judgement) durability() {
	replicas := j.replicas()
	kind := j.persistence()
	switch {
	case kind == persistNone && replicas <= 0:
		j.risk(FindingPersistence, true, "redis keeps nothing: no append-only file, no snapshots, no replica; set appendonly yes")
	case kind == persistNone:
		j.risk(FindingPersistence, j.careful(), "redis itself keeps nothing (no append-only file, no snapshots): a restart before a replica took over starts empty; set appendonly yes")
	case kind == persistRDB:
		j.risk(FindingPersistence, j.careful(), "redis keeps snapshots only: a crash loses minutes of acknowledged operations; set appendonly yes")
	case kind == persistAOF:
		j.fsync()
	}
	j.waiting(replicas)
	if replicas == 0 && j.careful() {
		j.find(FindingReplica, true, "redis has no replica that is online: durability strict needs one for kinds of class none or conditional")
	}
}

// replicas counts those that are online; -1 when it could not be read.
func (j *judgement) replicas() int {
	if _, ok := j.words.info["role"]; !ok {
		j.unread("replicas", "", FromInfo)
		return -1
	}
	n := 0
	for i := 0; ; i++ {
		line, ok := j.words.info["slave"+strconv.Itoa(i)]
		if !ok {
			break
		}
		if strings.Contains(line, "state=online") {
			n++
		}
	}
	j.fact("replicas", strconv.Itoa(n), FromInfo, "")
	return n
}

// persistence returns none, rdb or aof; "" when nobody tells. Snapshots are looked
// for only where there is no append-only file: with one, they save nothing more.
func (j *judgement) persistence() string {
	const name = "persistence"
	aof, from := j.words.info["aof_enabled"], FromInfo
	if aof == "" {
		from = FromConfig
		switch j.words.config["appendonly"] {
		case "yes":
			aof = "1"
		case "no":
			aof = "0"
		}
	}
	save, saveKnown := j.words.config["save"]
	assumed := j.o.AssumePersistence
	switch {
	case aof == "1":
		j.fact(name, persistAOF, from, "")
		return persistAOF
	case aof == "0" && saveKnown && save != "":
		j.fact(name, persistRDB, FromConfig, "")
		return persistRDB
	case aof == "0" && saveKnown:
		j.fact(name, persistNone, FromConfig, "")
		return persistNone
	case aof == "0" && assumed == persistAOF:
		j.fact(name, "", Unread, "redis.assume says aof, "+string(from)+" says that there is none")
		j.risk(FindingUnread, j.strict(), fmt.Sprintf("redis.assume.persistence is aof, but %s says that there is no append-only file", from))
		return ""
	case assumed != "":
		j.fact(name, assumed, FromAssume, "")
		return assumed
	case aof == "0":
		j.unread(name, "persistence", FromConfig) // there is no append-only file: are there snapshots?
	default:
		j.unread(name, "persistence", FromInfo, FromConfig)
	}
	return ""
}

// fsync looks at how soon the append-only file reaches the disk. A person who
// vouches for an append-only file vouches for Redis' default, everysec.
func (j *judgement) fsync() {
	const name = "appendfsync"
	value, from := j.words.config[name], FromConfig
	if value == "" && j.o.AssumePersistence == persistAOF {
		value, from = fsyncSlow, FromAssume
	}
	switch value {
	case "":
		j.unread(name, "persistence", FromConfig)
		if j.careful() {
			j.find(FindingPersistence, true, "durability strict needs appendfsync %s for kinds of class none or conditional", fsyncSafe)
		}
		return
	case fsyncSafe:
		j.fact(name, value, from, "")
		return
	}
	j.fact(name, value, from, "")
	loss := "a machine that crashes loses up to a second of acknowledged operations"
	if value != fsyncSlow {
		loss = "a machine that crashes loses what its system had not written yet"
	}
	text := fmt.Sprintf("appendfsync is %s%s: %s", value, assumedText(from), loss)
	if j.careful() {
		text += "; kinds of class none or conditional need " + fsyncSafe
	}
	j.risk(FindingPersistence, j.careful(), text)
}

func (j *judgement) volatile() {
	text := "durability is volatile: acknowledged operations may be lost"
	if len(j.risks) > 0 {
		text += " (" + strings.Join(j.risks, "; ") + ")"
	}
	j.find(FindingVolatile, false, "%s", text)
}

func assumedText(from Source) string {
	if from == FromAssume {
		return " (assumed)"
	}
	return ""
}

// tooOld compares with the oldest version that will do. A version that is not
// numbers is not judged: forks number as they like, the scripts will tell.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a < minMajor || a == minMajor && b < minMinor)
}

func whole(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func sizeText(n int64) string {
	switch {
	case n == 0:
		return "0 (no limit)"
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}
