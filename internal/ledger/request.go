package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"redrive/internal/jobs"
)

// The stored request: its JSON without the body, a newline, the body's bytes.
func encodeRequest(r jobs.Request) ([]byte, error) {
	head, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return slices.Concat(head, []byte{'\n'}, r.Body), nil
}

func decodeRequest(raw []byte) (jobs.Request, error) {
	head, body, ok := bytes.Cut(raw, []byte{'\n'})
	var r jobs.Request
	if !ok {
		return r, fmt.Errorf("stored request: no line break after its head")
	}
	if err := json.Unmarshal(head, &r); err != nil {
		return r, fmt.Errorf("stored request: %w", err)
	}
	r.Body = body
	return r, nil
}
