package ledger

import (
	"context"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// Sweep ends what can no longer make its deadline, brings back releases that
// nobody began, and settles keyed operations whose key's window is over. live are
// the kinds that some live worker knows. more: a limit was met, ask at once.
func (l *Ledger) Sweep(ctx context.Context, t Terms, live []jobs.Kind) (done []Ended, more bool, err error) {
	r, err := sweepScript.Run(ctx, l.rdb, l.slot(t.Dependency), expectArgs(t.args(), t.Expect).Str("live", words(live)))
	if err == nil {
		err = unstepped(r)
	}
	if err != nil {
		return nil, false, err
	}
	return ended(r, 1), r.At(0) == "1", nil
}

// Retired counts what one retention step let go.
type Retired struct {
	Bodies  int // records that shrank to a tombstone
	Keys    int // tombstones that went: their keys may be used again
	Expired []Ended
	More    bool
}

// Retire runs one retention step. A record with an unknown outcome never expires.
func (l *Ledger) Retire(ctx context.Context, dep jobs.Dependency, r jobs.Retention) (Retired, error) {
	args := retentionArgs(new(luascript.Args), r).Int("keep_keys", r.KeysMS).Int("keep_dead", r.DeadMS).Int("keep_audit", r.AuditMS)
	reply, err := retentionScript.Run(ctx, l.rdb, l.slot(dep), args)
	if err != nil {
		return Retired{}, err
	}
	out := Retired{More: reply.At(0) == "1", Bodies: int(reply.Int(1)), Keys: int(reply.Int(2))}
	for i := 4; i+1 < len(reply); i += 2 {
		name, reason, _ := strings.Cut(reply[i+1], " ")
		id, err := jobs.ParseID(name)
		if err != nil {
			return out, err
		}
		out.Expired = append(out.Expired, Ended{ID: id, State: jobs.Dead, Reason: jobs.Reason(dash(reason))})
	}
	return out, nil
}

// Now returns Redis' clock.
func (l *Ledger) Now(ctx context.Context) (time.Time, error) { return l.rdb.Time(ctx).Result() }
