package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
)

// Detail is an operation with what only show needs. Request and Answers are the
// payload: callers mask them unless a person asked to see them.
type Detail struct {
	jobs.Operation
	Request   jobs.Request      // zero after retention
	Answers   map[string]string // "<attempt>" -> body of the answer
	Tombstone bool              // bodies are gone
	Bare      bool              // only the gateway knows it: it was taken in to be asked about, and has no request
	Ref       string            // what a person gave as proof
	By        string            // who resolved it
	Used      int               // sends that count against the attempts allowed

	triedAgainAs *jobs.ID // the operation that tries its payment again

	marked bool   // some attempt is unknown, and not settled
	acted  bool   // the other side took such a one
	target string // digest that all attempts with an unknown outcome share, or 'mixed'; "" without any
	root   string // of its chain, where that is not the operation that it is a new attempt of
	first  int64  // ms: the send from which the key's safe window counts; 0: none
}

// Get returns an operation with its timeline. [ErrNotFound] when there is none.
func (l *Ledger) Get(ctx context.Context, dep jobs.Dependency, id jobs.ID, spec *jobs.KindSpec) (*Detail, error) {
	place := Place{Dependency: dep, ID: id}
	pipe := l.rdb.Pipeline()
	read := l.readDetail(ctx, pipe, place)
	if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil {
		return nil, fmt.Errorf("read %s: %w", id, err)
	}
	d, err := read.detail(place, spec)
	if err == nil && d == nil {
		err = fmt.Errorf("%s at %s: %w", id, dep, ErrNotFound)
	}
	return d, err
}

// detailReply is what Redis holds of one operation.
type detailReply struct {
	record, answers *redis.MapStringStringCmd
	request         *redis.StringCmd
}

func (l *Ledger) readDetail(ctx context.Context, pipe redis.Pipeliner, p Place) detailReply {
	name := p.ID.String()
	return detailReply{record: pipe.HGetAll(ctx, l.key(p.Dependency, "op:"+name)),
		answers: pipe.HGetAll(ctx, l.key(p.Dependency, "answers:"+name)),
		request: pipe.Get(ctx, l.key(p.Dependency, "request:"+name))}
}

// detail returns nil when there is no such operation.
func (r detailReply) detail(p Place, spec *jobs.KindSpec) (*Detail, error) {
	record, answers := r.record.Val(), r.answers.Val()
	if len(record) == 0 {
		return nil, nil
	}
	d := &Detail{Operation: operation(p.Dependency, p.ID, record, spec), Answers: map[string]string{}, Tombstone: record["tombstone"] != ""}
	d.Ref, d.By = record["ref"], record["by"]
	d.root, d.triedAgainAs = record["root"], named(record["tried"])
	d.marked, d.acted, d.Bare = record["unk"] != "", record["acted"] != "", record["bare"] != ""
	d.Used, d.target, d.first = int(number(record["used"])), record["target"], number(record["first"])
	if raw := r.request.Val(); raw != "" {
		request, err := decodeRequest([]byte(raw))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.ID, err)
		}
		request.IdempotencyKey, request.CorrelationID, request.Credential, request.Traceparent = d.IdempotencyKey, record["corr"], d.Credential, record["tp"]
		d.Request = request
		d.Columns = columns(spec, request.Body)
	}
	d.Timeline = timeline(record, answers)
	d.Last = last(record, errorText(record, answers, record["err"]))
	for field, v := range answers {
		if n, ok := strings.CutPrefix(field, "body:"); ok {
			d.Answers[n] = v
		}
	}
	return d, nil
}

// operation reads a record. Columns, timeline and a long last error stand elsewhere.
func operation(dep jobs.Dependency, id jobs.ID, f map[string]string, spec *jobs.KindSpec) jobs.Operation {
	n := func(name string) int64 { v, _ := strconv.ParseInt(f[name], 10, 64); return v }
	text := func(name string) *string {
		if v, ok := f[name]; ok && v != "" {
			return &v
		}
		return nil
	}
	o := jobs.Operation{
		Kind: id.Kind, Key: id.Key, Dependency: dep, State: jobs.State(f["state"]), Applied: applied(f),
		Sends: int(n("sends")), Inquiries: int(n("inquiries")),
		CreatedAt: jobs.AtMS(n("created")), NotBefore: jobs.AtMS(n("not_before")), NextAt: jobs.AtMS(n("next")),
		DeadlineAt: jobs.AtMS(n("deadline")), FirstSentAt: firstSent(f), EndedAt: jobs.AtMS(n("ended")),
		Idempotency: jobs.Idempotency(f["idem"]), IdempotencyKey: f["ikey"], KeySafeUntil: keySafeUntil(f),
		Credential: orDefault(f["cred"]), CorrelationID: text("corr"), Traceparent: text("tp"), Batch: text("batch"), Intent: text("intent"),
		Flags: []jobs.Flag{}, Columns: map[string]string{}, Result: map[string]string{}, EnteredAt: jobs.AtMS(n("since")),
	}
	if o.EnteredAt == nil { // a tombstone: it stays as it ended
		o.EnteredAt = o.EndedAt
	}
	if o.IdempotencyKey == "" {
		o.IdempotencyKey = defaultIdempotencyKey(id)
	}
	if reason := jobs.Reason(f["reason"]); reason != "" {
		o.Reason = &reason
	}
	if spec != nil {
		o.MaxAttempts = spec.MaxAttempts + int(n("extra"))
	}
	o.NewAttemptOf = named(f["of"])
	if again := jobs.Again(f["again"]); again != "" {
		o.Again = &again
	}
	o.SubmittedBy = text("sby")
	if flags := f["flags"]; flags != "" {
		for _, flag := range strings.Split(flags, ",") {
			o.Flags = append(o.Flags, jobs.Flag(flag))
		}
	}
	if result := f["result"]; result != "" {
		_ = json.Unmarshal([]byte(result), &o.Result) // written by us; a foreign edit shows as no result
	}
	o.Last = last(f, errorText(f, nil, f["err"]))
	return o
}

// named reads the name of an operation that a record holds; nil: none.
func named(text string) *jobs.ID {
	id, err := jobs.ParseID(text)
	if err != nil {
		return nil
	}
	return &id
}

func applied(f map[string]string) jobs.Applied {
	switch {
	case f["state"] == string(jobs.Succeeded):
		return jobs.AppliedYes
	case f["state"] == string(jobs.Attempting) || f["unk"] != "":
		return jobs.AppliedUnknown
	}
	return jobs.AppliedNo
}

// last describes the last attempt that ended. text is the error kept of it; where
// none was, its class and status say what there is to say.
func last(f map[string]string, text string) *jobs.LastAttempt {
	if f["class"] == "" {
		return nil
	}
	a := &jobs.LastAttempt{Class: jobs.Class(f["class"])}
	said := string(a.Class)
	if status, err := strconv.Atoi(f["status"]); err == nil {
		a.Status = &status
		said = "status " + f["status"]
	}
	if e := decodeAttempt(int(number(f["sends"])), f["a"+f["sends"]]); e.At != nil && e.DurationMS != nil {
		a.At = jobs.At(e.At.Add(ms(*e.DurationMS)))
		if e.By == byRequestPath {
			said += ", reported by the request path"
		}
	}
	if text == "" && a.Class != jobs.Class2xx {
		text = said
	}
	if text != "" {
		a.Error = &text
	}
	return a
}

// keySafeUntil is nil where an attempt went out in a way that no resend can equal:
// without its key, with another request, to different targets, or too long ago.
func keySafeUntil(f map[string]string) *jobs.Instant {
	switch f["target"] {
	case "mixed":
		return nil
	}
	if strings.Contains(f["target"], "-") { // see settle.apart
		return nil
	}
	return jobs.AtMS(number(f["safe"]))
}

// firstSent is when the first attempt that is still on record began. The record's own
// field counts for the key's window: a send of which no byte arrived is not in it.
func firstSent(f map[string]string) *jobs.Instant {
	at := jobs.AtMS(number(f["first"]))
	for _, n := range attemptNumbers(f) {
		if sent := decodeAttempt(n, f["a"+strconv.Itoa(n)]).At; sent != nil && (at == nil || sent.Before(at.Time)) {
			at = sent
		}
	}
	return at
}

// attemptNumbers returns the numbers of the attempts on record, in order.
func attemptNumbers(f map[string]string) []int {
	var attempts []int
	for field := range f {
		if n, ok := strings.CutPrefix(field, "a"); ok {
			if i, err := strconv.Atoi(n); err == nil {
				attempts = append(attempts, i)
			}
		}
	}
	slices.Sort(attempts)
	return attempts
}

func timeline(f, answers map[string]string) []jobs.Event {
	var events []jobs.Event
	if created := jobs.AtMS(number(f["created"])); created != nil { // a tombstone does not tell
		events = append(events, jobs.Event{At: created, Event: "submitted", By: f["sby"]})
	}
	for _, n := range attemptNumbers(f) {
		line := f["a"+strconv.Itoa(n)]
		e := decodeAttempt(n, line)
		if text := errorText(f, answers, errorNumber(line)); text != "" {
			e.Note = &text
		}
		events = append(events, e)
	}
	for _, q := range inquiries(f, answers) { // each after all that was there when it was made
		at := len(events)
		for at > 0 && compareInstants(events[at-1].At, q.At) > 0 {
			at--
		}
		events = slices.Insert(events, at, q)
	}
	if state := jobs.State(f["state"]); state.Ended() {
		e := jobs.Event{At: jobs.AtMS(number(f["ended"])), Event: string(state)}
		note := f["reason"]
		if by := f["by"]; by != "" {
			e.By = by
			note = strings.TrimSpace("resolved by a person " + f["ref"])
		}
		if note != "" {
			e.Note = &note
		}
		events = append(events, e)
	}
	if void := f["voided"]; void != "" {
		note := "by " + void + ": its success came when nobody waited for it any more"
		events = append(events, jobs.Event{At: jobs.AtMS(number(f["ended"])), Event: "voided", By: jobs.ByRedrive, Note: &note})
	}
	return events
}

// inquiries are the last ones on record: when, how long, what was answered.
func inquiries(f, answers map[string]string) []jobs.Event {
	var events []jobs.Event
	for field, line := range f {
		n, err := strconv.Atoi(strings.TrimPrefix(field, "q"))
		if err != nil || field[0] != 'q' {
			continue
		}
		part := append(strings.Split(line, ","), make([]string, 5)...)
		duration := number(part[1])
		note := part[2]
		if text := errorText(f, answers, part[4]); text != "" {
			note += ": " + text
		}
		events = append(events, jobs.Event{At: jobs.AtMS(number(part[0])), Event: "inquiry", N: n, By: "worker", DurationMS: &duration,
			Status: int(number(part[3])), Note: &note})
	}
	slices.SortFunc(events, func(a, b jobs.Event) int { return cmp.Compare(a.N, b.N) })
	return events
}

func number(s string) int64 { v, _ := strconv.ParseInt(s, 10, 64); return v }

// columns reads the kind's columns (RFC 6901 pointers) out of a JSON body.
func columns(spec *jobs.KindSpec, body []byte) map[string]string {
	out := map[string]string{}
	if spec == nil || len(spec.Columns) == 0 || len(body) == 0 {
		return out
	}
	var doc any
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if d.Decode(&doc) != nil {
		return out
	}
	for name, pointer := range spec.Columns {
		if v, ok := resolvePointer(doc, pointer); ok {
			out[name] = v
		}
	}
	return out
}

const maxColumnBytes = 100

func resolvePointer(doc any, pointer string) (string, bool) {
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch node := doc.(type) {
		case map[string]any:
			v, ok := node[token]
			if !ok {
				return "", false
			}
			doc = v
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(node) {
				return "", false
			}
			doc = node[i]
		default:
			return "", false
		}
	}
	var text string
	switch v := doc.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	case bool:
		text = strconv.FormatBool(v)
	default:
		return "", false // an object or array is no column
	}
	if len(text) > maxColumnBytes {
		text = strings.ToValidUTF8(text[:maxColumnBytes], "") + "…"
	}
	return text, true
}
