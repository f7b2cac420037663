package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// bulk is an action on operations that are named, or that a filter chooses.
type bulk struct {
	verb   string // such as "requeue"
	past   string // such as "requeued"
	states []jobs.State

	all    bool
	filter filters
	note   string
}

func (b *bulk) register(cmd *cobra.Command, o filterFlags) {
	b.filter.register(cmd, o)
	cmd.Flags().BoolVar(&b.all, "all-matching", false, "all operations that the filters choose when the command starts, instead of named ones")
	cmd.Flags().StringVar(&b.note, "note", "", "why, for the audit (required)")
}

// check refuses a command line that cannot be carried out, before anything is read.
func (b *bulk) check(p *program, cmd *cobra.Command, args []string, asks bool) error {
	filter := given(cmd)
	switch {
	case b.all && len(args) > 0:
		return usagef("name operations or give --all-matching, not both")
	case !b.all && len(args) == 0 && filter != "":
		return usagef("filters choose operations only with --all-matching")
	case !b.all && len(args) == 0:
		return usagef("name the operations (KIND/KEY...), - to read them from stdin, or --all-matching with filters")
	case slices.Contains(args, "-") && len(args) > 1:
		return usagef("- reads all operations from stdin: name no others beside it")
	}
	for _, name := range args {
		if _, err := jobs.ParseID(name); err != nil && name != "-" {
			return &failure{exitUsage, err}
		}
	}
	if err := checkNote(b.note); err != nil && asks {
		return err
	}
	if asks && !p.flags.yes && slices.Contains(args, "-") {
		return usagef("%s asks before it changes anything, and stdin holds the names: give --yes (-y) to go on without being asked", b.verb)
	}
	if asks && !p.flags.yes && !p.interactive {
		return usagef("%s asks before it changes anything, and there is no terminal to ask on: give --yes (-y) to go on without being asked", b.verb)
	}
	return nil
}

const maxNoteBytes = 1000

func checkNote(note string) error {
	switch {
	case strings.TrimSpace(note) == "":
		return usagef("--note is required: it says why, and stays in the audit")
	case len(note) > maxNoteBytes:
		return usagef("--note has %d bytes, at most %d are allowed", len(note), maxNoteBytes)
	case !utf8.ValidString(note):
		return usagef("--note is not valid UTF-8")
	}
	return nil
}

// chosen is one operation that an action is about.
type chosen struct {
	place  ledger.Place
	op     *jobs.Operation // nil: there is none of that name
	anyway bool            // it is acted on even then
}

// choose fixes the set of an action.
func (b *bulk) choose(ctx context.Context, s *session, args []string, filter ledger.Filter) ([]chosen, error) {
	if !b.all {
		ids, err := namedOperations(s.p.stdin, args)
		if err != nil {
			return nil, err
		}
		return s.named(ctx, ids)
	}
	if len(filter.States) == 0 {
		filter.States = b.states
	}
	page, err := s.ledger.List(ctx, filter, s.known)
	if err != nil {
		return nil, err
	}
	out := make([]chosen, len(page.Items))
	for i := range page.Items {
		o := &page.Items[i]
		out[i] = chosen{place: ledger.Place{Dependency: o.Dependency, ID: o.ID()}, op: o}
	}
	return out, nil
}

// namedOperations reads the names; "-" stands for stdin, one a line.
func namedOperations(stdin io.Reader, args []string) ([]jobs.ID, error) {
	where := func(i int) string { return "" }
	if len(args) == 1 && args[0] == "-" {
		var numbers []int
		var err error
		if args, numbers, err = namesOf(stdin); err != nil {
			return nil, err
		}
		where = func(i int) string { return fmt.Sprintf("line %d: ", numbers[i]) }
	}
	seen := map[jobs.ID]bool{}
	var ids []jobs.ID
	for i, name := range args {
		id, err := jobs.ParseID(name)
		if err != nil {
			return nil, usagef("%s%w", where(i), err)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, usagef("stdin names no operation")
	}
	return ids, nil
}

func namesOf(r io.Reader) (names []string, numbers []int, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		name := strings.TrimSpace(lines.Text())
		if name == "" || name[0] == '#' {
			continue
		}
		names, numbers = append(names, name), append(numbers, n)
	}
	if err := lines.Err(); err != nil {
		return nil, nil, usagef("read operations from stdin: %w", err)
	}
	return names, numbers, nil
}

// named finds operations by name. Of an operation that is nowhere there is no op.
func (s *session) named(ctx context.Context, ids []jobs.ID) ([]chosen, error) {
	const chunk = 500 // bodies come along and are let go
	out := make([]chosen, 0, len(ids))
	for from := 0; from < len(ids); from += chunk {
		part := ids[from:min(from+chunk, len(ids))]
		places, err := s.places(ctx, part)
		if err != nil {
			return nil, err
		}
		details, err := s.ledger.Details(ctx, places, s.known)
		if err != nil {
			return nil, err
		}
		byID := map[jobs.ID]*ledger.Detail{}
		for _, d := range details {
			if d != nil {
				byID[d.ID()] = d
			}
		}
		for _, id := range part {
			c := chosen{place: ledger.Place{ID: id}}
			if d := byID[id]; d != nil {
				d.Timeline = nil
				c.op, c.place.Dependency = &d.Operation, d.Dependency
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// ask asks whether to go on. With --yes the answer is known.
func (p *program) ask(question string) (bool, error) {
	if p.flags.yes {
		return true, nil
	}
	_ = p.stdout.Flush() // it keeps its first error until the end
	fmt.Fprintf(p.stderr, "%s [y/N] ", visible(question))
	answer, err := p.stdin.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// maxHands work on a bulk action at the same time, so that Redis has work while
// replies travel.
const maxHands = 8

// carryOut does one thing to each of set. At the first error of Redis it stops: the
// results of what was not reached, or whose reply was lost, have no Result.
func (p *program) carryOut(ctx context.Context, set []chosen, do func(context.Context, int, chosen) (result, error)) ([]result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	results := make([]result, len(set))
	next := make(chan int) // sent and closed below, taken by the hands
	var working sync.WaitGroup
	for range min(p.hands, len(set)) {
		working.Go(func() { // ends when next is closed; carryOut waits
			for i := range next {
				results[i].Operation = set[i].place.ID
				if ctx.Err() != nil {
					continue
				}
				if set[i].op == nil && !set[i].anyway {
					results[i] = result{Operation: set[i].place.ID, Result: resultMissing, Detail: "no such operation"}
					continue
				}
				r, err := do(ctx, i, set[i])
				if err != nil {
					stop(err)
					continue
				}
				results[i] = r
			}
		})
	}
	for i := range set {
		next <- i
	}
	close(next)
	working.Wait()
	return results, context.Cause(ctx)
}

// newBatch names a bulk action: when, and what nobody else draws.
func newBatch(now time.Time) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return "b-" + now.UTC().Format("20060102-150405") + "-" + hex.EncodeToString(random[:])
}

// filterText says in the audit what was chosen by.
func filterText(given string) string {
	if given == "" {
		return ", without a filter"
	}
	return " " + given
}
