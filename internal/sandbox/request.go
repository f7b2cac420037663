package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

const (
	keyHeader     = "Idempotency-Key"
	attemptHeader = "Redrive-Attempt"

	// duplicatesParam of a POST says what becomes of a reference that has succeeded
	// before: "accept" (the default) or "reject".
	duplicatesParam = "duplicates"

	maxBodyBytes      = 1 << 20
	maxReferenceBytes = 255 // of references and idempotency keys
)

// request is a POST that arrived whole.
type request struct {
	payment
	route       string
	key         string            // "" = none
	attempt     string            // header as it came
	unique      bool              // a second success under its reference is refused
	fingerprint [sha256.Size]byte // of route and bytes: what a key is bound to
	invalid     error             // why it is answered 400; nil = well formed
}

// payment is the part of a body that the gateway reads.
type payment struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"` // in minor units
	Currency  string `json:"currency"`
}

// readRequest returns an error when the body does not arrive whole:
// [http.MaxBytesError] when it is too large.
func readRequest(w http.ResponseWriter, r *http.Request, route string) (request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		return request{}, err
	}
	q := request{route: route, key: r.Header.Get(keyHeader), attempt: r.Header.Get(attemptHeader)}
	q.fingerprint = sha256.Sum256(append([]byte(route+"\n"), body...))
	q.payment, q.invalid = readPayment(route, body, q.key)
	switch v := r.URL.Query().Get(duplicatesParam); v {
	case "", "accept":
	case "reject":
		q.unique = true
	default:
		q.invalid = fmt.Errorf("%s=%.20q: want accept or reject", duplicatesParam, v)
	}
	return q, nil
}

// readPayment reads a body. Its reference is filled in as far as it is known,
// from the key when the body has none, also beside an error: the request is
// recorded under it all the same.
func readPayment(route string, body []byte, key string) (payment, error) {
	var p payment
	err := decodePayment(body, &p)
	if p.Reference == "" {
		p.Reference = key
	}
	switch {
	case len(p.Reference) > maxReferenceBytes:
		p.Reference = ""
		return p, fmt.Errorf("reference: has more than %d bytes", maxReferenceBytes)
	case len(key) > maxReferenceBytes:
		return p, fmt.Errorf("%s: has more than %d bytes", keyHeader, maxReferenceBytes)
	case err != nil:
		return p, err
	case p.Reference == "":
		return p, fmt.Errorf("reference: must be given, in the body or as the %s header", keyHeader)
	case p.Amount < 0:
		return p, errors.New("amount: must be positive")
	case route == "voids": // takes back a charge as a whole: no sum of its own
		return p, nil
	case p.Amount == 0:
		return p, errors.New("amount: must be given, a positive number of minor units")
	case len(p.Currency) != 3:
		return p, errors.New("currency: must be given, three letters")
	}
	return p, nil
}

// decodePayment decodes one JSON object; fields the gateway does not know are no
// error, as with real ones.
func decodePayment(body []byte, p *payment) error {
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("body: want a JSON object")
	}
	err := json.Unmarshal(body, p)
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return fmt.Errorf("%s: want %s, got %s", wrong.Field, wrong.Type, wrong.Value)
	}
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}
