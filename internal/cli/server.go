package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/operator"
	"redrive/internal/remote"
	"redrive/internal/wire"
)

// atServer is the API of a worker.
type atServer struct {
	p      *program
	client *remote.Client

	known map[jobs.Kind]wire.Kind // as the worker told; nil: not asked yet
}

// serverNamed says whether the command line or the environment names a server, and
// which. What is said on the command line counts before the environment; a store and a
// server at once are a mistake that would act on the wrong one.
func (p *program) serverNamed(cmd *cobra.Command) (string, error) {
	flag := func(name string) bool { return cmd.Flags().Changed(name) }
	named := flag("server")
	for _, other := range []string{"redis", "namespace", "config", "by"} {
		switch {
		case named && flag(other) && other == "by":
			return "", usagef("--by goes with Redis: behind --server the audit has the name of the token")
		case named && flag(other):
			return "", usagef("--server and --%s: give one of them, operations are either in a Redis or behind a server", other)
		}
	}
	if named {
		if p.flags.server == "" {
			return "", usagef("--server is empty: want a URL such as https://redrive.example")
		}
		return p.flags.server, p.checkTokenFile(cmd)
	}
	server := p.getenv("REDRIVE_SERVER")
	if flag("redis") || flag("namespace") || flag("config") {
		server = ""
	}
	switch {
	case server != "" && p.getenv("REDRIVE_REDIS_URL") != "":
		return "", usagef("REDRIVE_SERVER and REDRIVE_REDIS_URL are both set: unset one of them, or give --server or --redis")
	case server != "" && flag("by"):
		return "", usagef("--by goes with Redis: behind REDRIVE_SERVER the audit has the name of the token")
	case server == "" && flag("token-file"):
		return "", usagef("--token-file goes with --server (or REDRIVE_SERVER)")
	}
	return server, p.checkTokenFile(cmd)
}

// checkTokenFile refuses a name that is there and empty, such as that of a variable that
// is not set: it would ask without a token.
func (p *program) checkTokenFile(cmd *cobra.Command) error {
	if cmd.Flags().Changed("token-file") && p.flags.tokenFile == "" {
		return usagef("--token-file is empty: want the file that holds the token")
	}
	return nil
}

// openServer makes ready to ask a worker; it asks nothing yet.
func (p *program) openServer(ctx context.Context) (backend, error) {
	token, err := p.token(ctx)
	if err != nil {
		return nil, err
	}
	client, err := remote.New(remote.Options{Server: p.server, Token: token, Agent: "enqueue/" + version()})
	if err != nil {
		return nil, usagef("--server: %w", err)
	}
	return &atServer{p: p, client: client}, nil
}

// token reads the token from the file that is named; "" without one.
func (p *program) token(ctx context.Context) (string, error) {
	path, from := p.getenv("REDRIVE_TOKEN_FILE"), "REDRIVE_TOKEN_FILE"
	if p.flags.tokenFile != "" {
		path, from = p.flags.tokenFile, "--token-file"
	}
	switch path {
	case "":
		return "", nil
	case "-":
		return "", usagef("%s: a token is read from a file; - (stdin) is none", from)
	}
	type read struct {
		token  string
		shared bool
	}
	got, err := await(ctx, func() (got read, err error) {
		got.token, got.shared, err = remote.ReadToken(path)
		return got, err
	})
	if err != nil {
		return "", inputError(ctx, from, err)
	}
	if got.shared {
		p.say("warning: others on this machine may read %s, which holds a token: chmod 600 %s", path, path)
	}
	return got.token, nil
}

func (s *atServer) close() {} // no connection outlives its request

func (s *atServer) where() string { return "at " + s.client.Server() }

// now is the clock of the worker.
func (s *atServer) now(ctx context.Context) (time.Time, error) {
	if now, ok := s.client.Clock(); ok {
		return now, nil
	}
	if _, err := s.kinds(ctx); err != nil {
		return time.Time{}, err
	}
	now, _ := s.client.Clock()
	return now, nil
}

// kinds are those that the worker knows.
func (s *atServer) kinds(ctx context.Context) (map[jobs.Kind]wire.Kind, error) {
	if s.known != nil {
		return s.known, nil
	}
	var list items[wire.Kind]
	if err := s.getUpTo(ctx, maxConfiguredBytes, &list, nil, "kinds"); err != nil {
		return nil, err
	}
	s.known = map[jobs.Kind]wire.Kind{}
	for _, k := range list.Items {
		s.known[k.Kind] = k
	}
	return s.known, nil
}

// items is every list that the API tells as a whole.
type items[T any] struct {
	Items []T `json:"items"`
}

// How much an answer may hold, generously: what is longer is none of Redrive's, and is not
// gathered in memory. Where nothing is said it is [remote.Request]'s own bound.
const (
	maxConfiguredBytes = 4 << 20  // what grows with the configuration: kinds, dependencies, counts of them
	maxOneBytes        = 8 << 20  // an operation with its timeline
	maxRevealedBytes   = 48 << 20 // the same with what its attempts, up to 1000, were answered
	maxReportBytes     = 48 << 20 // a bulk action, with what became of each operation
	maxListedBytes     = 16 << 10 // each operation of a list
	maxExportedBytes   = 1 << 20  // each submission of an export: its body, with escapes
	maxEntryBytes      = 8 << 10  // each entry of the audit, each batch: its note, with escapes
)

func (s *atServer) get(ctx context.Context, into any, query map[string][]string, path ...string) error {
	return s.getUpTo(ctx, 0, into, query, path...)
}

// getUpTo is get of an answer that may have most bytes.
func (s *atServer) getUpTo(ctx context.Context, most int, into any, query map[string][]string, path ...string) error {
	_, err := s.client.Ask(ctx, remote.Request{Method: http.MethodGet, Path: path, Query: query, MaxAnswerBytes: int64(most)}, into)
	return asWord(err)
}

func (s *atServer) post(ctx context.Context, into, body any, path ...string) error {
	return s.postUpTo(ctx, 0, into, body, path...)
}

// postUpTo is post with an answer that may have most bytes.
func (s *atServer) postUpTo(ctx context.Context, most int, into, body any, path ...string) error {
	_, err := s.client.Ask(ctx, remote.Request{Method: http.MethodPost, Path: path, Body: body, MaxAnswerBytes: int64(most)}, into)
	return asWord(err)
}

func (s *atServer) dependencies(ctx context.Context) ([]jobs.Dependency, error) {
	gates, err := s.gates(ctx, nil)
	out := make([]jobs.Dependency, len(gates))
	for i, g := range gates {
		out[i] = g.Dependency
	}
	return out, err
}

func (s *atServer) unknownKind(kind jobs.Kind) error {
	if len(s.known) == 0 {
		return &failure{exitError, fmt.Errorf("no kinds are known %s: its worker has none, and no other published any", s.where())}
	}
	return usagef("unknown kind %q: known are %s (%s)", kind, join(slices.Sorted(maps.Keys(s.known))), s.where())
}

// asWord tells of a word that a server refused as the command line knows it.
func asWord(err error) error {
	var p *remote.Problem
	if !errors.As(err, &p) || p.Name() != remote.Invalid || len(p.Errors) == 0 {
		return err
	}
	place := p.Errors[0]
	in, field, _ := strings.Cut(place.Location, ".")
	if in != "query" && in != "body" || field == "" {
		return err
	}
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(place.Message, field), ":"))
	if slices.Contains(operator.Fields, operator.Field(field)) || slices.Contains(otherFlags, field) {
		field = "--" + strings.ReplaceAll(field, "_", "-")
	}
	return &failure{exitUsage, fmt.Errorf("%s: %s (%s)", field, text, p.Server)}
}

// otherFlags are the fields of requests that are flags, beside those of package operator.
var otherFlags = []string{"cursor", "for", "credential", "batch", "error", "first_sent_at"}
