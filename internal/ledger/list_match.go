package ledger

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"redrive/internal/jobs"
)

// ErrCursor is returned for a cursor that no list returned.
var ErrCursor = errors.New("not a cursor that a list returned")

func (f *Filter) matches(o *jobs.Operation) bool {
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, o.Kind) {
		return false
	}
	if len(f.Reasons) > 0 && (o.Reason == nil || !slices.Contains(f.Reasons, *o.Reason)) {
		return false
	}
	if len(f.Classes) > 0 && (o.Last == nil || !slices.Contains(f.Classes, o.Last.Class)) {
		return false
	}
	if len(f.Flags) > 0 && !slices.ContainsFunc(o.Flags, func(flag jobs.Flag) bool { return slices.Contains(f.Flags, flag) }) {
		return false
	}
	if len(f.Credentials) > 0 && !slices.Contains(f.Credentials, o.Credential) {
		return false
	}
	if len(f.Batches) > 0 && (o.Batch == nil || !slices.Contains(f.Batches, *o.Batch)) {
		return false
	}
	if f.KeyGlob != "" {
		if ok, _ := path.Match(f.KeyGlob, string(o.Key)); !ok {
			return false
		}
	}
	if f.ErrorText != "" && (o.Last == nil || o.Last.Error == nil || !strings.Contains(strings.ToLower(*o.Last.Error), strings.ToLower(f.ErrorText))) {
		return false
	}
	if f.Unknown && o.Applied != jobs.AppliedUnknown {
		return false
	}
	if !f.Since.IsZero() && (o.EnteredAt == nil || o.EnteredAt.Before(f.Since)) {
		return false
	}
	return f.Until.IsZero() || o.EnteredAt == nil || o.EnteredAt.Before(f.Until)
}

// cursor is the place of the last operation of a page in the order of lists.
type cursor struct {
	enteredMS int64
	name      string
}

func cursorOf(o *jobs.Operation) cursor {
	c := cursor{name: string(o.Dependency) + " " + o.ID().String()}
	if o.EnteredAt != nil {
		c.enteredMS = o.EnteredAt.UnixMilli()
	}
	return c
}

// compare orders newest first, then by name.
func (c cursor) compare(d cursor) int {
	return cmp.Or(cmp.Compare(d.enteredMS, c.enteredMS), cmp.Compare(c.name, d.name))
}

// before reports whether o comes after the cursor; everything does after none.
func (c cursor) before(o *jobs.Operation) bool {
	return c == cursor{} || c.compare(cursorOf(o)) < 0
}

func (c cursor) encode() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.enteredMS, 10) + " " + c.name))
}

func decodeCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	at, name, ok := strings.Cut(string(b), " ")
	n, errN := strconv.ParseInt(at, 10, 64)
	if err != nil || errN != nil || !ok {
		return cursor{}, fmt.Errorf("%w: %q", ErrCursor, s)
	}
	return cursor{enteredMS: n, name: name}, nil
}

// newest sorts newest first and keeps at most n (0: all).
func newest(ops []jobs.Operation, n int) []jobs.Operation {
	slices.SortFunc(ops, func(a, b jobs.Operation) int { return cursorOf(&a).compare(cursorOf(&b)) })
	if n > 0 && len(ops) > n {
		ops = ops[:n]
	}
	return ops
}
