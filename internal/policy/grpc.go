package policy

import (
	"strconv"
	"time"

	"redrive/internal/jobs"
)

// GRPCSample is what one gRPC call met.
type GRPCSample struct {
	Code     int    // as in google.golang.org/grpc/codes
	Refused  bool   // with code 14: REFUSED_STREAM, or GOAWAY below the stream
	Pushback string // trailer grpc-retry-pushback-ms; "" if there was none
}

// ClassifyGRPC is [Classify] for a gRPC status. A pushback counts where the call
// may have acted; one that is negative or not a number forbids a resend.
func ClassifyGRPC(s GRPCSample, class jobs.Idempotency) Classification {
	row := index.code[s.Code]
	if s.Code == 14 && s.Refused {
		row = index.id["G14T"]
	}
	pushed := s.Pushback != "" && row != nil && row.Processed == ProcessedMaybe
	ms, err := strconv.ParseInt(s.Pushback, 10, 64)
	if pushed && err == nil && ms >= 0 {
		row = index.id["GPB"]
	}
	c := row.classify(class, true, true)
	c.Class = grpcClass(s.Code)
	switch {
	case pushed && row.ID == "GPB":
		wait := MaxWait
		if ms < MaxWait.Milliseconds() {
			wait = time.Duration(ms) * time.Millisecond
		}
		c.Hint = Hint{Wait: wait, From: "grpc-retry-pushback-ms", Raw: cutRaw(s.Pushback)}
	case pushed && c.Verdict.Resends():
		c.Verdict = jobs.VerdictPermanentFailure
		c.Hint.Raw = cutRaw(s.Pushback)
	}
	return c
}

func grpcClass(code int) jobs.Class {
	switch code {
	case 0:
		return jobs.Class2xx
	case 4:
		return jobs.ClassTimeout
	case 8:
		return jobs.Class429
	case 14:
		return jobs.Class503
	case 2, 13, 15:
		return jobs.Class5xx
	case 3, 5, 6, 7, 9, 10, 11, 12, 16:
		return jobs.Class4xx
	default:
		return jobs.ClassOther
	}
}
