package ledger

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// One line per attempt is kept in the record, and a record stays compact only
// while every value has at most 64 bytes. So words are written as short codes:
//
//	start,by,target,duration,outcome,class,status,verdict,delay,error
//	1764490000000,w,0a1b2c3d4e5f,3001,u,tmo,0,rk,12000,1
//
// The first three are written ahead; the rest when the attempt ends. error is the
// number of a text kept beside (see errorText), absent without one.
var (
	outcomeCodes = map[jobs.Outcome]string{
		jobs.OutcomeSucceeded: "s", jobs.OutcomeRefused: "r", jobs.OutcomeNotSent: "n", jobs.OutcomeUnknown: "u",
	}
	classCodes = map[jobs.Class]string{
		jobs.Class2xx: "2xx", jobs.Class429: "429", jobs.Class503: "503", jobs.Class5xx: "5xx", jobs.Class4xx: "4xx",
		jobs.ClassTimeout: "tmo", jobs.ClassReset: "rst", jobs.ClassConnect: "con", jobs.ClassDNS: "dns", jobs.ClassTLS: "tls",
		jobs.ClassWorkerLost: "lost", jobs.ClassOther: "oth",
	}
	verdictCodes = map[jobs.Verdict]string{
		jobs.VerdictSucceeded: "su", jobs.VerdictPendingPoll: "pp", jobs.VerdictRetrySafe: "rs", jobs.VerdictRetryAfter: "ra",
		jobs.VerdictRetrySameKey: "rk", jobs.VerdictUnknownInquire: "ui", jobs.VerdictPermanentFailure: "pf",
		jobs.VerdictConflictRead: "cr", jobs.VerdictDuplicateSuccess: "ds", jobs.VerdictHoldOperator: "ho",
	}
	outcomeWords = inverse(outcomeCodes)
	classWords   = inverse(classCodes)
	verdictWords = inverse(verdictCodes)
)

func inverse[T ~string](codes map[T]string) map[string]T {
	words := make(map[string]T, len(codes))
	for word, code := range codes {
		words[code] = word
	}
	return words
}

func encodeCodes(res Result) string {
	return strings.Join([]string{outcomeCodes[res.Outcome], classCodes[res.Class], strconv.Itoa(res.Status), verdictCodes[res.Verdict]}, ",")
}

// reportedCodes is the same for a send that the request path reports. Of what it made of
// the answer the line keeps what an unknown mark may rest on: that there is an original.
func reportedCodes(outcome jobs.Outcome, class jobs.Class, status int, original bool) string {
	res := Result{Outcome: outcome, Class: class, Status: status}
	if original {
		res.Verdict = jobs.VerdictConflictRead
	}
	return encodeCodes(res)
}

const byRequestPath = "request_path" // who made an attempt, in the timeline

// decodeAttempt reads one attempt line into an event of the timeline.
func decodeAttempt(n int, line string) jobs.Event {
	f := strings.Split(line, ",")
	at := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	number := func(i int) int64 { v, _ := strconv.ParseInt(at(i), 10, 64); return v }
	e := jobs.Event{At: jobs.AtMS(number(0)), Event: "attempt", N: n, By: "worker"}
	if at(1) == "p" {
		e.By = byRequestPath
	}
	if len(f) > 4 {
		duration := number(3)
		e.DurationMS = &duration
		e.Outcome, e.Class, e.Status, e.Verdict = outcomeWords[at(4)], classWords[at(5)], int(number(6)), verdictWords[at(7)]
		if delay := number(8); delay > 0 {
			e.DelayMS = &delay
		}
	}
	return e
}

// errorNumber returns the number of the error text of an attempt line, "" for none.
func errorNumber(line string) string {
	if f := strings.Split(line, ","); len(f) > 9 {
		return f[9]
	}
	return ""
}

// errorText returns the error text of a number: from the record when it is short,
// else from the answers (nil where they were not read).
func errorText(record, answers map[string]string, number string) string {
	if text := record["e"+number]; text != longError {
		return text
	}
	return answers["e"+number]
}

const longError = ">" // stands in the record for a text that is kept with the answers

func argsInt(name string, value int64) *luascript.Args { return new(luascript.Args).Int(name, value) }

// pairs reads 'name=value name=value'.
func pairs(s string) map[string]string {
	m := map[string]string{}
	for _, p := range strings.Split(s, " ") {
		if k, v, ok := strings.Cut(p, "="); ok {
			m[k] = v
		}
	}
	return m
}

// parseInstant reads RFC 3339 with an offset.
func parseInstant(field, s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s %q is not an RFC 3339 instant such as 2026-11-30T09:14:00Z", field, s)
	}
	if t.Year() < 2000 || t.Year() > 2200 {
		return time.Time{}, fmt.Errorf("%s %q lies outside the years 2000 to 2200", field, s)
	}
	return t, nil
}
