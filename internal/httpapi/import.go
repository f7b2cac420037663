package httpapi

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/terms"
	"redrive/internal/wire"
)

const (
	// importLanes submit at the same time. All lines of one operation take the same lane,
	// in their order.
	importLanes = 4
	// lineTime is how long the next line that says something may take to come, and an
	// answer to be taken: a client that does not read while it sends is cut off after it.
	lineTime = 30 * time.Second
)

// Line is the answer to one line of an import.
type Line struct {
	Line      int      `json:"line" doc:"number of the line, from 1"`
	Operation *jobs.ID `json:"operation" doc:"null where the line names none that can be"` // wins over the receipt's
	jobs.Receipt
	Type   string         `json:"type,omitempty" format:"uri" doc:"of the problem that the same submission by itself would be answered with: urn:redrive:problem:NAME; not there where it was taken"`
	Errors []ProblemPlace `json:"errors,omitempty" doc:"what is wrong with the line"`
}

// LastLine ends the answers to an import: an import without it was cut off.
type LastLine struct {
	End     bool                `json:"end" doc:"true, and in no other line"`
	Lines   int                 `json:"lines" doc:"how many lines were answered; those behind may or may not have been taken, and the same lines again are safe"`
	Answers map[jobs.Answer]int `json:"answers" doc:"how many lines got which answer"`
	Problem *Problem            `json:"problem" doc:"why it ended before the body did; null: it did not"`
}

func (d *door) registerImport(api huma.API, submission *huma.Schema) {
	registry := api.OpenAPI().Components.Schemas
	line := registry.Schema(typeOf[Line](), true, "")
	last := registry.Schema(typeOf[LastLine](), true, "")
	ndjson := func(tell string, schemas ...*huma.Schema) *huma.MediaType {
		return &huma.MediaType{Schema: &huma.Schema{Type: "string", Description: tell},
			Extensions: map[string]any{"x-line-schema": &huma.Schema{AnyOf: schemas}}}
	}
	d.handle(api, route{id: "import", method: http.MethodPost, path: "/v1/operations:import", tag: "operations",
		summary: "Hand many operations over",
		tell: "The body is one submission a line (NDJSON); blank lines are passed over. The answers come one a line while the body is read, in the order of the lines, so read while you send. " +
			"A line that is wrong does not stop the rest. The last line has end: true, and a problem if not all of the body was read. The same lines again are safe.",
		rule:     rule{role: config.RoleSubmit, takes: ndjsonType, maxBody: d.Limits.MaxImportBytes, gives: ndjsonType, places: d.imports, streams: true},
		problems: []problemKind{notFit}},
		map[string]*huma.Response{"200": {Description: "An answer for each line", Content: map[string]*huma.MediaType{ndjsonType: ndjson("a Line for each line, then a LastLine", line, last)}}},
		&huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{ndjsonType: ndjson("a Submission for each line", submission)}},
		nil, d.importLines)
}

func (d *door) importLines(w http.ResponseWriter, r *http.Request) {
	p := d.fit()
	if r.URL.RawQuery != "" {
		p = invalid.at("query", errors.New("an import has no parameters"))
	}
	if p != nil {
		p.write(w)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // else the rest of the body would be read before the first answer goes out
	im := &importer{door: d, w: w, control: control, seed: maphash.MakeSeed(), answers: map[jobs.Answer]int{},
		in: bufio.NewReaderSize(http.MaxBytesReader(w, r.Body, d.Limits.MaxImportBytes), maxSubmission+1)}
	err := im.run(ctx)
	if err != nil {
		leaveBody(w)
	}
	var away *clientError
	if errors.As(err, &away) {
		panic(http.ErrAbortHandler) // it does not take its answers: there is nobody to tell
	}
	if err != nil {
		p = d.problem(ctx, err)
		if !im.begun {
			p.write(w)
			return
		}
	}
	if im.write(LastLine{true, im.answered, im.answers, p}) != nil || control.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
}

// importer answers the lines of one import.
type importer struct {
	door    *door
	in      *bufio.Reader
	w       http.ResponseWriter
	control *http.ResponseController
	seed    maphash.Seed

	number   int // of the last line that was read
	answered int
	answers  map[jobs.Answer]int
	begun    bool // the answer has begun
	out      bytes.Buffer
}

// clientError is that the client does not take its answers.
type clientError struct{ err error }

func (e *clientError) Error() string { return "write answers: " + e.err.Error() }

// slot is one line on its way.
type slot struct {
	item   item
	line   Line
	lane   int  // -1: it is answered already
	wanted bool // its answer is known
}

// run reads and submits chunk by chunk, so that what is in memory is bounded.
func (im *importer) run(ctx context.Context) error {
	for {
		select {
		case <-im.door.closing:
			return closing.because("the worker ends: send the rest to another")
		default:
		}
		chunk, end := im.chunk(ctx)
		if failed := im.submit(ctx, chunk); failed != nil {
			return errors.Join(failed, im.tell(chunk))
		}
		if err := im.tell(chunk); err != nil {
			return err
		}
		if errors.Is(end, io.EOF) {
			return nil
		}
		if end != nil {
			return end
		}
	}
}

// chunk reads what is there: at least one line, and as many as are in without waiting,
// which is no more than the reader's buffer holds. Blank lines do not buy time.
func (im *importer) chunk(ctx context.Context) ([]*slot, error) {
	patience := cmp.Or(im.door.lineTime, lineTime)
	due := time.Now().Add(patience)
	var out []*slot
	for len(out) < importLanes*ledger.MaxBatch {
		im.passBlank()
		ahead, _ := im.in.Peek(im.in.Buffered())
		if bytes.IndexByte(ahead, '\n') < 0 { // it must be waited for
			if len(out) > 0 {
				return out, nil
			}
			_ = im.control.SetReadDeadline(due)
		}
		text, err := im.in.ReadSlice('\n')
		im.number++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return out, tooLarge.because("line %d has more than %d bytes, which no submission has", im.number, maxSubmission)
		case err != nil && !errors.Is(err, io.EOF):
			return out, bodyProblem(err)
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			s, prepared := im.decode(ctx, bytes.Clone(text))
			if prepared != nil {
				return out, prepared
			}
			out = append(out, s)
			due = time.Now().Add(patience)
		}
		if err != nil {
			return out, io.EOF
		}
	}
	return out, nil
}

// passBlank passes over the blank lines that are there, all at once: one by one, millions
// of them kept a processor busy for seconds.
func (im *importer) passBlank() {
	ahead, _ := im.in.Peek(im.in.Buffered())
	size, lines := blank(ahead)
	im.number += lines
	_, _ = im.in.Discard(size) // they are there
}

// blank measures the whole blank lines that a text begins with.
func blank(text []byte) (size, lines int) {
	for i, c := range text {
		switch c {
		case '\n':
			size, lines = i+1, lines+1
		case ' ', '\t', '\r':
		default:
			return size, lines
		}
	}
	return size, lines
}

// decode reads one line. The error is one of Redis.
func (im *importer) decode(ctx context.Context, text []byte) (*slot, error) {
	s := &slot{line: Line{Line: im.number}, lane: -1}
	sub, err := wire.DecodeSubmission(text)
	if err == nil {
		s.item, err = im.door.prepare(ctx, sub)
	}
	if err == nil {
		var h maphash.Hash
		h.SetSeed(im.seed)
		_, _ = h.WriteString(sub.ID().String())
		s.lane = int(h.Sum64() % importLanes)
		return s, nil
	}
	p, unknown := problemOf(err)
	if unknown || p.Status >= http.StatusInternalServerError {
		return nil, err
	}
	s.line.Receipt = jobs.Receipt{Answer: jobs.Refused, Applied: jobs.AppliedNo, Error: &p.Detail}
	if sub != nil {
		if id, err := jobs.ParseID(sub.ID().String()); err == nil {
			s.line.Operation = &id
		}
		if a := sub.Attempted; a != nil && a.Outcome == jobs.OutcomeUnknown {
			s.line.Applied = jobs.AppliedUnknown
		}
	}
	s.line.Type, s.line.Errors = p.Type, p.Errors
	s.wanted = true
	return s, nil
}

// lot is what goes to one dependency in one call.
type lot struct {
	spec    jobs.KindSpec
	entries []ledger.Entry
	slots   []*slot
}

// submit writes a chunk, all lanes at once. What has a receipt is wanted.
func (im *importer) submit(ctx context.Context, chunk []*slot) error {
	var lanes [importLanes][]*slot
	for _, s := range chunk {
		if s.lane >= 0 {
			lanes[s.lane] = append(lanes[s.lane], s)
		}
	}
	var errs [importLanes]error
	var working sync.WaitGroup
	for i, lane := range lanes {
		if len(lane) > 0 {
			working.Go(func() { errs[i] = im.lane(ctx, lane) }) // ends with its calls, which are bounded
		}
	}
	working.Wait()
	return errors.Join(errs[:]...)
}

func (im *importer) lane(ctx context.Context, slots []*slot) error {
	lots := map[jobs.Dependency]*lot{}
	for _, s := range slots {
		l := lots[s.item.spec.Dependency]
		if l == nil {
			l = &lot{spec: s.item.spec}
			lots[s.item.spec.Dependency] = l
		}
		l.entries, l.slots = append(l.entries, s.item.entry), append(l.slots, s)
		if len(l.entries) == ledger.MaxBatch {
			if err := im.put(ctx, l); err != nil {
				return err
			}
			delete(lots, s.item.spec.Dependency)
		}
	}
	for _, l := range lots {
		if err := im.put(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// put submits one lot. Once sent it is waited for, even if the client went away: a
// call that is cut off leaves its lines in doubt.
func (im *importer) put(ctx context.Context, l *lot) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), im.door.Limits.Timeout)
	defer cancel()
	receipts, err := im.door.storeFor(l.spec).Submit(ctx, terms.Submit(l.spec, callerOf(ctx).name), l.entries)
	if err != nil {
		return err
	}
	for i, r := range receipts {
		l.slots[i].line.Receipt, l.slots[i].line.Operation, l.slots[i].wanted = whole(r), &r.Operation, true
	}
	return nil
}

// tell writes the answers of a chunk, in the order of its lines.
func (im *importer) tell(chunk []*slot) error {
	im.out.Reset()
	for _, s := range chunk {
		if !s.wanted {
			continue
		}
		s.line.Receipt = whole(s.line.Receipt)
		if p := receiptProblem(s.line.Receipt); p != nil && s.line.Type == "" {
			s.line.Type = p.Type
		}
		im.answered++
		im.answers[s.line.Answer]++
		if err := json.NewEncoder(&im.out).Encode(s.line); err != nil {
			return err
		}
	}
	if im.out.Len() == 0 {
		return nil
	}
	if err := im.send(im.out.Bytes()); err != nil {
		return err
	}
	if err := im.control.Flush(); err != nil {
		return &clientError{err}
	}
	return nil
}

// write sends one value.
func (im *importer) write(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return im.send(append(text, '\n'))
}

func (im *importer) send(text []byte) error {
	if !im.begun {
		im.begun = true
		im.w.Header().Set("Content-Type", ndjsonType)
		im.w.WriteHeader(http.StatusOK)
	}
	_ = im.control.SetWriteDeadline(time.Now().Add(cmp.Or(im.door.lineTime, lineTime)))
	if _, err := im.w.Write(text); err != nil {
		return &clientError{err}
	}
	return nil
}
