package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/operator"
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
	filter := filtered(cmd)
	switch {
	case b.all && len(args) > 0:
		return usagef("name operations or give --all-matching, not both")
	case !b.all && len(args) == 0 && filter:
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
	if err := operator.CheckNote(b.note); err != nil && asks {
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

// prepare checks the filter, opens what is acted on and fixes the set. A nil set, without
// an error, means that nothing matches and that it was said. The caller closes the backend.
func (b *bulk) prepare(ctx context.Context, p *program, cmd *cobra.Command, args []string) (backend, chosen, error) {
	on, err := p.openFiltered(ctx, writes, &b.filter)
	if err != nil {
		return nil, nil, err
	}
	set, err := b.choose(ctx, on, p, cmd, args)
	if err == nil && set.count() > 0 {
		return on, set, nil
	}
	on.close()
	if err == nil {
		p.say("no operation matches")
		nothing := operator.Report{Action: b.verb}
		err = p.writeOutcome(nothing.Outcome(nil))
	}
	return nil, nil, err
}

// choose fixes the set of an action.
func (b *bulk) choose(ctx context.Context, on backend, p *program, cmd *cobra.Command, args []string) (chosen, error) {
	c := choice{verb: b.verb, words: &b.filter.FilterWords, states: b.states}
	if !b.all {
		var err error
		if c.names, err = p.namedOperations(ctx, args); err != nil {
			return nil, err
		}
	}
	return on.choose(ctx, c)
}

// order is in whose name and why a command acts.
func (p *program) order(note string) operator.Order { return operator.Order{By: p.by(), Note: note} }

// namedOperations reads the names; "-" stands for stdin, one a line.
func (p *program) namedOperations(ctx context.Context, args []string) ([]jobs.ID, error) {
	where := func(i int) string { return "" }
	if len(args) == 1 && args[0] == "-" {
		text, err := p.readInput(ctx, "-", 0)
		if err != nil {
			return nil, inputError(ctx, "read operations from stdin", err)
		}
		var numbers []int
		args, numbers = namesOf(text)
		where = func(i int) string { return fmt.Sprintf("line %d: ", numbers[i]) }
	}
	ids, err := operator.ParseIDs(args)
	var wrong *operator.NameError
	if errors.As(err, &wrong) {
		return nil, usagef("%s%w", where(wrong.Index), wrong.Err)
	}
	if len(ids) == 0 {
		return nil, usagef("stdin names no operation")
	}
	return ids, nil
}

// namesOf takes the lines that say something, and their numbers.
func namesOf(text []byte) (names []string, numbers []int) {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		name := strings.TrimSpace(string(line))
		if name == "" || name[0] == '#' {
			continue
		}
		names, numbers = append(names, name), append(numbers, n)
	}
	return names, numbers
}

// ask asks whether to go on. With --yes the answer is known.
func (p *program) ask(ctx context.Context, question string) (bool, error) {
	if p.flags.yes {
		return true, nil
	}
	_ = p.stdout.Flush() // it keeps its first error until the end
	fmt.Fprintf(p.stderr, "%s [y/N] ", visible(question))
	answer, err := await(ctx, func() (string, error) { return p.stdin.ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// declined ends a command whose question was answered with no.
func declined(err error) error {
	if err != nil {
		return err
	}
	return &failure{exitError, errors.New("nothing was changed")}
}
