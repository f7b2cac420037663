package ledger

import (
	"maps"
	"slices"
	"strings"

	"redrive/internal/jobs"
)

func checkMaps(s *jobs.Submission, spec jobs.KindSpec) error {
	if len(s.Params) > MaxParams {
		return fieldErrorf("params", "%d, at most %d are allowed", len(s.Params), MaxParams)
	}
	if len(s.Headers) > MaxHeaders {
		return fieldErrorf("headers", "%d, at most %d are allowed", len(s.Headers), MaxHeaders)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		if len(name) > MaxValueBytes {
			return fieldErrorf("params", "a name of %d bytes, at most %d are allowed", len(name), MaxValueBytes)
		}
		if v := s.Params[name]; v == "" || v == "." || v == ".." {
			return fieldErrorf("params."+name, "must not be %q", v)
		}
		if err := checkText("params."+name, s.Params[name]); err != nil {
			return err
		}
	}
	given := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		if other, twice := given[strings.ToLower(name)]; twice {
			return fieldErrorf("headers", "%q and %q are one header", other, name)
		}
		given[strings.ToLower(name)] = name
		if err := jobs.CheckHeader(name, s.Headers[name], spec.KeyHeader); err != nil {
			return &FieldError{"headers", err}
		}
		if err := checkText("headers."+name, s.Headers[name]); err != nil {
			return err
		}
	}
	return nil
}

func (e *Entry) names(s *jobs.Submission, spec jobs.KindSpec) error {
	if strings.ContainsAny(s.CorrelationID, " ") {
		return fieldErrorf("correlation_id", "must not contain a space")
	}
	if err := checkText("correlation_id", s.CorrelationID); err != nil {
		return err
	}
	if s.Traceparent != "" {
		if err := jobs.CheckTraceparent(s.Traceparent); err != nil {
			return &FieldError{"traceparent", err}
		}
	}
	key := s.IdempotencyKey
	if key == "" {
		key = defaultIdempotencyKey(e.ID)
	}
	if len(key) > MaxValueBytes {
		return fieldErrorf("idempotency_key", "%d bytes, at most %d are allowed", len(key), MaxValueBytes)
	}
	for i := 0; i < len(key); i++ {
		if key[i] <= ' ' || key[i] > '~' {
			return fieldErrorf("idempotency_key", "byte 0x%02x at position %d is not printable ASCII without space", key[i], i+1)
		}
	}
	if spec.KeyMaxLength > 0 && len(key) > spec.KeyMaxLength {
		return fieldErrorf("idempotency_key", "%d bytes, %s takes at most %d", len(key), spec.Dependency, spec.KeyMaxLength)
	}
	if key != defaultIdempotencyKey(e.ID) {
		e.meta.Key = key
	}
	if s.Credential != "" && s.Credential != jobs.DefaultCredential {
		if err := jobs.CheckName(s.Credential); err != nil {
			return &FieldError{"credential", err}
		}
		if !slices.Contains(spec.Credentials, s.Credential) {
			return fieldErrorf("credential", "dependency %s has no credential %q (it has: %s)", spec.Dependency, s.Credential,
				strings.Join(spec.Credentials, ", "))
		}
		e.meta.Credential = s.Credential
	}
	return nil
}
