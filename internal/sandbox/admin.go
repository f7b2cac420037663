package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

const (
	defaultPage   = 100
	maxPage       = 10_000
	maxFaultBytes = 64 << 10
)

// addAdmin adds what no fault ever hits: health and the controls.
func (s *Sandbox) addAdmin(mux *http.ServeMux) {
	for pattern, answer := range map[string]func(http.ResponseWriter, *http.Request) *answer{
		"GET /livez":           s.livez,
		"GET /_sandbox/fault":  s.getFault,
		"PUT /_sandbox/fault":  s.putFault,
		"GET /_sandbox/ledger": s.getLedger,
		"GET /_sandbox/stats":  s.getStats,
		"DELETE /_sandbox":     s.deleteAll,
	} {
		mux.HandleFunc(pattern, s.lived(func(w http.ResponseWriter, r *http.Request, _ *life) { answer(w, r).write(w) }))
	}
}

func okAnswer() *answer { return jsonAnswer(http.StatusOK, map[string]string{"status": "ok"}) }

func (s *Sandbox) livez(http.ResponseWriter, *http.Request) *answer {
	return okAnswer()
}

func (s *Sandbox) getFault(http.ResponseWriter, *http.Request) *answer {
	return jsonAnswer(http.StatusOK, s.Fault())
}

// putFault answers with the fault in force, defaults filled in.
func (s *Sandbox) putFault(w http.ResponseWriter, r *http.Request) *answer {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFaultBytes))
	if err != nil {
		return errorAnswer(http.StatusBadRequest, codeInvalid, fmt.Sprintf("read fault: %v", err))
	}
	var f Fault
	if err := f.UnmarshalJSON(body); err != nil {
		return errorAnswer(http.StatusBadRequest, codeInvalid, "fault: "+err.Error())
	}
	if err := s.SetFault(f); err != nil {
		return errorAnswer(http.StatusBadRequest, codeInvalid, "fault: "+err.Error())
	}
	return s.getFault(w, r)
}

// page is one page of the ledger.
type page struct {
	Items      []Entry `json:"items"`
	NextCursor string  `json:"next_cursor"` // "" on the last page
}

// getLedger pages by position, which no later arrival shifts.
func (s *Sandbox) getLedger(_ http.ResponseWriter, r *http.Request) *answer {
	q, err := ledgerQuery(r.URL.RawQuery)
	if err != nil {
		return errorAnswer(http.StatusBadRequest, codeInvalid, err.Error())
	}
	b := s.book.Load()
	if q.reference != "" {
		return jsonAnswer(http.StatusOK, page{Items: b.entriesOf(q.reference)})
	}
	items := b.entriesFrom(q.start, q.limit+1) // one more tells whether there is a next page
	p := page{Items: items}
	if len(items) > q.limit {
		p.Items, p.NextCursor = items[:q.limit], strconv.Itoa(q.start+q.limit)
	}
	return jsonAnswer(http.StatusOK, p)
}

type ledgerFilter struct {
	reference    string
	start, limit int
}

func ledgerQuery(raw string) (ledgerFilter, error) {
	q := ledgerFilter{limit: defaultPage}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fmt.Errorf("query: %w", err)
	}
	for name, v := range values {
		if len(v) > 1 {
			return q, fmt.Errorf("%s: given more than once", name)
		}
		switch name {
		case "reference":
			q.reference = v[0]
		case "cursor":
			if v[0] == "" {
				continue
			}
			if q.start, err = strconv.Atoi(v[0]); err != nil || q.start < 0 {
				return q, fmt.Errorf("cursor %q: want the next_cursor of an earlier answer", v[0])
			}
		case "limit":
			if q.limit, err = strconv.Atoi(v[0]); err != nil || q.limit < 1 || q.limit > maxPage {
				return q, fmt.Errorf("limit %q: want 1 to %d", v[0], maxPage)
			}
		default:
			return q, fmt.Errorf("unknown parameter %q: want reference, cursor or limit", name)
		}
	}
	if q.reference != "" && (values.Has("cursor") || values.Has("limit")) {
		return q, errors.New("reference: its entries come on one page, without cursor or limit")
	}
	return q, nil
}

func (s *Sandbox) getStats(http.ResponseWriter, *http.Request) *answer {
	return jsonAnswer(http.StatusOK, s.Stats())
}

func (s *Sandbox) deleteAll(http.ResponseWriter, *http.Request) *answer {
	s.Reset()
	return okAnswer()
}
