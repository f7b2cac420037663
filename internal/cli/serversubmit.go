package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/remote"
	"redrive/internal/wire"
)

func (s *atServer) submittable(ctx context.Context, name jobs.Kind) (wire.Kind, error) {
	known, err := s.kinds(ctx)
	if err != nil {
		return wire.Kind{}, err
	}
	kind, ok := known[name]
	if !ok {
		return kind, s.unknownKind(name)
	}
	return kind, nil
}

func (s *atServer) submit(ctx context.Context, sub *jobs.Submission) (jobs.Receipt, error) {
	text, err := submissionText(sub)
	if err != nil {
		return jobs.Receipt{}, err
	}
	var receipt jobs.Receipt
	// Not as a word of the command line: what is wrong with a submission has a receipt.
	_, err = s.client.Ask(ctx, remote.Request{Method: http.MethodPost, Path: []string{"operations"}, Body: remote.Raw(text)}, &receipt)
	var p *remote.Problem
	if !errors.As(err, &p) {
		return receipt, err
	}
	switch {
	case p.Receipt != nil:
		receipt = *p.Receipt
		receipt.Later, receipt.Barred = p.Name() == remote.BacklogFull, p.Name() == remote.NotInState
		return receipt, nil
	case p.Name() == remote.Invalid || p.Name() == remote.Malformed || p.Name() == remote.TooLarge:
		return receipt, &refusedError{placed(p.Errors, p)}
	}
	return receipt, err
}

// placed is what is wrong with a submission, in the words that the ledger has for it.
func placed(places []remote.Place, otherwise error) error {
	if len(places) == 0 {
		return otherwise
	}
	field, inside := strings.CutPrefix(places[0].Location, "body.")
	if !inside {
		return errors.New(places[0].Message)
	}
	return &ledger.FieldError{Field: field, Err: errors.New(places[0].Message)}
}

// submissionText writes a submission with its body byte for byte, which package json
// would lay out anew.
func submissionText(sub *jobs.Submission) ([]byte, error) {
	if sub.Body == nil {
		return encodeSubmission(sub)
	}
	switch {
	case len(sub.Body) > jobs.MaxBodyBytes:
		return nil, &refusedError{&ledger.FieldError{Field: "body", Err: fmt.Errorf("%d bytes, at most %d are allowed", len(sub.Body), jobs.MaxBodyBytes)}}
	case !utf8.Valid(sub.Body) || !json.Valid(sub.Body):
		return nil, &refusedError{&ledger.FieldError{Field: "body", Err: errors.New("not valid JSON (use body_text or body_base64 for anything else)")}}
	}
	rest := *sub
	rest.Body = nil
	text, err := encodeSubmission(&rest)
	if err != nil {
		return nil, err
	}
	return withField(text, "body", sub.Body), nil
}

func encodeSubmission(sub *jobs.Submission) ([]byte, error) {
	text, err := json.Marshal(sub)
	if err != nil {
		return nil, fmt.Errorf("encode the submission: %w", err)
	}
	return text, nil
}

// withField puts one more field into the text of a JSON object that has some already.
func withField(object []byte, name string, value []byte) []byte {
	brace := bytes.IndexByte(object, '{') + 1
	out := append([]byte{}, object[:brace]...)
	out = append(out, fmt.Sprintf("%q:", name)...)
	out = append(append(out, value...), ',')
	return append(out, object[brace:]...)
}
