package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

var errNoVoidKind = errors.New("the configuration does not know the kind of the void")

// voidOf is the submission that undoes an operation: its params, named in its body as
// well where the kind sends one.
func voidOf(id jobs.ID, v *jobs.VoidSpec, spec jobs.KindSpec, of *ledger.Detail) (*jobs.Submission, error) {
	s := &jobs.Submission{Kind: v.Kind, Key: voidKey(id), Params: map[string]string{}}
	if of.CorrelationID != nil {
		s.CorrelationID = *of.CorrelationID
	}
	for name, from := range v.Params {
		var value string
		source, field, _ := strings.Cut(from, ".")
		switch source {
		case "key":
			value = string(id.Key)
		case "params":
			value = of.Request.Params[field]
		case "result":
			value = of.Result[field]
		}
		if value == "" {
			return nil, fmt.Errorf("void of %s: param %s: there is no %s", id, name, from)
		}
		s.Params[name] = value
	}
	switch spec.Method {
	case "POST", "PUT", "PATCH":
		body, err := json.Marshal(s.Params)
		if err != nil {
			return nil, fmt.Errorf("void of %s: %w", id, err)
		}
		s.Body = body
	}
	return s, nil
}

// voidKey is made of the name of the operation that is undone, cut where it would be
// longer than a key may be.
func voidKey(id jobs.ID) jobs.Key {
	name := string(id.Kind) + ":" + string(id.Key)
	if len(name) <= jobs.MaxKeyBytes {
		return jobs.Key(name)
	}
	sum := sha256.Sum256([]byte(name))
	return jobs.Key(name[:jobs.MaxKeyBytes-33] + "~" + hex.EncodeToString(sum[:16]))
}
