package wire

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// OperationView is one operation as it is shown by itself: its JSON, and what only such a
// look tells.
type OperationView struct {
	jobs.Operation
	Request *Revealed         `json:"request,omitempty" doc:"what is sent, with reveal=true"`
	Answers map[string]string `json:"answers,omitempty" doc:"bodies of answers by the number of their attempt, with reveal=true"`
	ReadAt  *jobs.Instant     `json:"read_at" doc:"when this was so, by Redis' clock"`
	Outline *Outline          `json:"outline,omitempty" doc:"what may be told of the request; not there: it has none, or it is gone"`
	Bare    bool              `json:"bare,omitempty" doc:"only its dependency knows it: it is asked about, and nothing is sent for it"`
	Used    int               `json:"attempts_used" doc:"sends that count against the attempts allowed"`
	Ref     *string           `json:"ref,omitempty" doc:"what a person gave as proof"`
	By      string            `json:"resolved_by,omitempty" doc:"the person who resolved it"`
	Moved   string            `json:"moved,omitempty" enum:"base_url,credential" doc:"what changed of where it is sent to since sends whose outcome is unknown: what is not found there proves nothing"`
	Unsafe  string            `json:"resend_unsafe,omitempty" doc:"why one more send would not be safe"`
	Cut     bool              `json:"timeline_cut,omitempty" doc:"what people did long ago may be missing in the timeline"`
	Chain   *Chain            `json:"chain,omitempty" doc:"of one that is a new attempt of another, or was tried again"`
}

// Outline is what may be told of a request without its payload.
type Outline struct {
	Method      string `json:"method"`
	ContentType string `json:"content_type"`
	Headers     int    `json:"headers" doc:"how many"`
	BodyBytes   int    `json:"body_bytes"`
}

// Revealed is the request of an operation.
type Revealed struct {
	Method      string            `json:"method"`
	Path        string            `json:"path"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Params      map[string]string `json:"params"`
	Body        string            `json:"body" doc:"empty if it is no text"`
	BodyBase64  string            `json:"body_base64,omitempty" doc:"of a body that is no text"`
}

// ViewOf shows an operation, whose timeline is whole. spec is its kind, nil if nobody
// knows it; reveal shows payload too.
func ViewOf(d *ledger.Detail, spec *jobs.KindSpec, among ledger.Chain, reveal bool, now time.Time) OperationView {
	v := OperationView{Operation: d.Operation, ReadAt: jobs.At(now), Bare: d.Bare, Used: d.Used, By: d.By, Moved: d.Moved(spec),
		Unsafe: d.ResendUnsafe(spec, now), Chain: ChainOf(d, among)}
	if d.Ref != "" {
		v.Ref = &d.Ref
	}
	if r := d.Request; r.Method != "" {
		v.Outline = &Outline{r.Method, r.ContentType, len(r.Headers), len(r.Body)}
	}
	if !reveal {
		v.Operation = Hidden(v.Operation)
		return v
	}
	v.Answers, v.Request = d.Answers, revealed(d.Request)
	return v
}

// revealed is nil where the request is gone.
func revealed(r jobs.Request) *Revealed {
	if r.Method == "" {
		return nil
	}
	out := &Revealed{Method: r.Method, Path: r.Path, ContentType: r.ContentType, Headers: r.Headers, Params: r.Params}
	if utf8.Valid(r.Body) {
		out.Body = string(r.Body)
	} else {
		out.BodyBase64 = base64.StdEncoding.EncodeToString(r.Body)
	}
	return out
}
