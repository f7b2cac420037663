package ledger

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"redrive/internal/jobs"
)

// Doings returns what people did to one operation since an instant (zero: ever),
// oldest first. It reads at most the newest most entries of the dependency's audit,
// in chunks that never block Redis; cut reports that older ones were not looked at.
func (l *Ledger) Doings(ctx context.Context, dep jobs.Dependency, id jobs.ID, since time.Time, most int) (out []AuditEntry, cut bool, err error) {
	from, upto := "-", "+"
	if !since.IsZero() {
		from = strconv.FormatInt(since.UnixMilli(), 10)
	}
	for left := most; left > 0; {
		chunk := min(left, streamChunk)
		messages, err := l.rdb.XRevRangeN(ctx, l.key(dep, "audit"), upto, from, int64(chunk)).Result()
		if err != nil {
			return nil, false, fmt.Errorf("read audit of %s: %w", dep, err)
		}
		for _, m := range messages {
			if e := auditEntry(dep, m); e.Operation == id.String() {
				out = append(out, e)
			}
		}
		if len(messages) < chunk {
			slices.Reverse(out)
			return out, false, nil
		}
		left -= chunk
		upto = "(" + messages[len(messages)-1].ID
	}
	slices.Reverse(out)
	return out, true, nil
}

// Moved says what changed of where a call goes since the attempts with an unknown
// outcome went out: "base_url" or "credential", "" where nothing did or nobody can
// tell. An inquiry that goes elsewhere proves nothing of what it does not find.
func (d *Detail) Moved(spec *jobs.KindSpec) string {
	const placeLength = 6 // hex digits that a target ends with, see digestOf
	if !d.marked || spec == nil || spec.BaseURL == "" || len(d.target) <= placeLength {
		return ""
	}
	was := d.target[len(d.target)-placeLength:]
	goes := func(credential string) bool {
		place := sha1.Sum([]byte(spec.BaseURL + "\n" + credential))
		return hex.EncodeToString(place[:])[:placeLength] == was
	}
	switch {
	case goes(d.Credential):
		return ""
	case slices.ContainsFunc(spec.Credentials, goes):
		return "credential"
	}
	return "base_url"
}
