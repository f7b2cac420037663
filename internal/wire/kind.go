package wire

import (
	"maps"
	"slices"
	"strings"

	"redrive/internal/jobs"
)

// Kind is what who submits or looks at operations must know of a kind. Where it is sent
// to is not told: its address may hold a secret.
type Kind struct {
	Kind        jobs.Kind        `json:"kind"`
	Dependency  jobs.Dependency  `json:"dependency"`
	Method      string           `json:"method"`
	Path        string           `json:"path"`                    // with {key} and {params.NAME}
	Params      []string         `json:"params" nullable:"false"` // names in the path: a submission must give them
	ContentType string           `json:"content_type"`            // of bodies that say none themselves
	Idempotency jobs.Idempotency `json:"idempotency"`
	KeyHeader   string           `json:"key_header"`  // that carries the idempotency key; "": none does
	DeadlineMS  int64            `json:"deadline_ms"` // from submission, where it says none itself
	MaxAttempts int              `json:"max_attempts"`
	Columns     []string         `json:"columns" nullable:"false"`     // names of what lists and sums show of a body
	Credentials []string         `json:"credentials" nullable:"false"` // names
	Inquiry     bool             `json:"inquiry"`                      // its dependency can be asked what became of one
}

// KindOf tells of one kind.
func KindOf(s jobs.KindSpec) Kind {
	return Kind{Kind: s.Kind, Dependency: s.Dependency, Method: s.Method, Path: s.Path, Params: pathParams(s.Path), ContentType: s.ContentType,
		Idempotency: s.Idempotency, KeyHeader: s.KeyHeader, DeadlineMS: s.DeadlineMS, MaxAttempts: s.MaxAttempts,
		Columns: append([]string{}, slices.Sorted(maps.Keys(s.Columns))...), Credentials: append([]string{}, s.Credentials...), Inquiry: s.Inquiry != nil}
}

// Kinds tells of kinds, by name.
func Kinds(known map[jobs.Kind]jobs.KindSpec) []Kind {
	out := make([]Kind, 0, len(known))
	for _, name := range slices.Sorted(maps.Keys(known)) {
		out = append(out, KindOf(known[name]))
	}
	return out
}

// pathParams names the params that a path uses, each once.
func pathParams(path string) []string {
	out := []string{}
	for rest := path; ; {
		_, after, found := strings.Cut(rest, "{params.")
		name, behind, closed := strings.Cut(after, "}")
		if !found || !closed {
			return out
		}
		if rest = behind; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
}
