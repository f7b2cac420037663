package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

func (p *program) batchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "batch",
		Short: "Look at bulk actions, and stop one",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.batchListCommand(), p.batchShowCommand(), p.batchStopCommand())
	return cmd
}

// bulkAction is a batch over all its dependencies, as JSON.
type bulkAction struct {
	Batch        string            `json:"batch"`
	Action       string            `json:"action"`
	Phase        ledger.Phase      `json:"phase"`
	At           *jobs.Instant     `json:"at"`
	By           string            `json:"by"`
	Note         string            `json:"note"`
	Filter       string            `json:"filter"`
	Dependencies []jobs.Dependency `json:"dependencies"`
	Planned      int               `json:"planned"` // operations that were chosen
	StoppedAt    *jobs.Instant     `json:"stopped_at"`
	StoppedBy    string            `json:"stopped_by"`
	StopNote     string            `json:"stop_note"`
}

// batchProgress is what became of the operations of a batch so far, as JSON.
type batchProgress struct {
	bulkAction
	Operations int                 `json:"operations"` // acted on; those that were refused are not among them
	States     map[jobs.State]int  `json:"states"`
	Reasons    map[jobs.Reason]int `json:"reasons"` // of the dead ones
	Gone       int                 `json:"gone"`    // records that retention took
	Open       int                 `json:"open"`    // still on their way
}

// over reports whether nothing will change any more by itself.
func (b *batchProgress) over() bool {
	return b.Open == 0 && b.Phase != ledger.PhaseCanary && b.Phase != ledger.PhaseRunning
}

// join adds what another dependency knows of the same batch. It is as far as the
// last of them is.
func (b *bulkAction) join(o ledger.Batch) {
	b.Dependencies = append(b.Dependencies, o.Dependency)
	b.Planned += o.Planned
	if b.StoppedAt == nil && o.StoppedAt != nil {
		b.StoppedAt, b.StoppedBy, b.StopNote = o.StoppedAt, o.StoppedBy, o.StopNote
	}
	if b.Phase != ledger.PhaseStopped && (o.Phase == ledger.PhaseStopped || b.Phase == ledger.PhaseDone) {
		b.Phase = o.Phase
	}
}

func newBulkAction(o ledger.Batch) *bulkAction {
	b := &bulkAction{Batch: o.ID, Action: o.Action, Phase: o.Phase, At: o.At, By: o.By, Note: o.Note, Filter: o.Filter}
	b.join(o)
	return b
}

func (p *program) batchListCommand() *cobra.Command {
	var since string
	var limit int
	cmd := &cobra.Command{
		Use:   "list [--since TIME]",
		Short: "List bulk actions, newest first",
		Args:  cobra.NoArgs,
		RunE: p.command(limited, forms, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit %d: must be at least 1", limit)
			}
			if _, err := parseWhen("--since", since, time.Time{}); err != nil {
				return err
			}
			s, err := p.open(ctx, reads)
			if err != nil {
				return err
			}
			defer s.close()
			found, err := s.batches(ctx, since, limit)
			if err != nil {
				return err
			}
			return p.writeBatches(found)
		}),
	}
	cmd.Flags().StringVar(&since, "since", "", "begun at or after this `time`: RFC 3339, 09:00 (today, local) or 2h (ago)")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most the `n` newest")
	return cmd
}

func (s *session) batches(ctx context.Context, since string, limit int) ([]*bulkAction, error) {
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	from, err := parseWhen("--since", since, now)
	if err != nil {
		return nil, err
	}
	deps, err := s.dependencies(ctx)
	if err != nil {
		return nil, err
	}
	byID := map[string]*bulkAction{}
	var out []*bulkAction
	for _, dep := range deps {
		found, err := s.ledger.Batches(ctx, dep, from, limit)
		if err != nil {
			return nil, err
		}
		for _, b := range found {
			if known := byID[b.ID]; known != nil {
				known.join(b)
				continue
			}
			byID[b.ID] = newBulkAction(b)
			out = append(out, byID[b.ID])
		}
	}
	slices.SortFunc(out, func(a, b *bulkAction) int {
		return cmp.Or(b.At.Compare(a.At.Time), cmp.Compare(a.Batch, b.Batch))
	})
	return out[:min(len(out), limit)], nil
}

func (p *program) writeBatches(found []*bulkAction) error {
	g := grid{header: []string{"batch", "action", "phase", "at", "by", "operations", "chosen by", "note"}}
	for _, b := range found {
		g.add(b.Batch, b.Action, string(b.Phase), instant(b.At), b.By, strconv.Itoa(b.Planned), b.Filter, b.Note)
	}
	switch p.flags.output {
	case asJSON:
		if found == nil {
			found = []*bulkAction{}
		}
		return p.writeJSON(struct {
			Items []*bulkAction `json:"items"`
		}{found})
	case asJSONL:
		for _, b := range found {
			if err := p.writeLine(b); err != nil {
				return err
			}
		}
	case asCSV:
		return tableCSV(p.stdout, g)
	case asName:
		for _, b := range found {
			p.print("%s", b.Batch)
		}
	default:
		p.table(g)
	}
	return nil
}

// errNoBatch says that no dependency knows a batch.
func (s *session) errNoBatch(id string) error {
	return &failure{exitNotFound, fmt.Errorf("%s: %w in namespace %s (enqueue batch list tells which there are)", id, ledger.ErrNoBatch, s.ledger.Namespace())}
}

// checkBatchID refuses a name that cannot be one, such as that of a variable that is
// not set.
func checkBatchID(id string) error {
	if strings.TrimSpace(id) == "" {
		return usagef("ID is empty: want the name of a batch, such as b-20261130-071242-f426bf1c (enqueue batch list tells which there are)")
	}
	return nil
}

// parts are a batch at each of its dependencies.
func (s *session) parts(ctx context.Context, id string) ([]ledger.Batch, error) {
	deps, err := s.dependencies(ctx)
	if err != nil {
		return nil, err
	}
	var out []ledger.Batch
	for _, dep := range deps {
		b, err := s.ledger.Batch(ctx, dep, id)
		switch {
		case errors.Is(err, ledger.ErrNoBatch):
		case err != nil:
			return nil, err
		default:
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		return nil, s.errNoBatch(id)
	}
	return out, nil
}

func (p *program) batchShowCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "show ID [--watch]",
		Short: "Show what became of a bulk action's operations so far",
		Long: "show counts the operations of a bulk action by their state. --watch writes a line at each change, until none of them is on its\n" +
			"way any more. A batch whose phase stays running while its command is gone was cut off: the same command again goes on.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l := limited
			if watch {
				l = unlimited
			}
			return p.command(l, []string{asTable, asJSON, asJSONL}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
				if err := checkBatchID(args[0]); err != nil {
					return err
				}
				s, err := p.open(ctx, reads)
				if err != nil {
					return err
				}
				defer s.close()
				if watch {
					return s.watchBatch(ctx, args[0])
				}
				b, err := s.progress(ctx, args[0])
				if err != nil {
					return err
				}
				return p.writeProgress(b)
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "write a line at each change, until nothing is on its way any more")
	return cmd
}

func (s *session) progress(ctx context.Context, id string) (*batchProgress, error) {
	parts, err := s.parts(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &batchProgress{bulkAction: *newBulkAction(parts[0])}
	sum := ledger.NewProgress()
	for i, b := range parts {
		if i > 0 {
			out.join(b)
		}
		part, err := s.ledger.Progress(ctx, b.Dependency, id)
		if err != nil {
			return nil, err
		}
		sum.Add(part)
	}
	out.Operations, out.States, out.Reasons, out.Gone, out.Open = sum.Operations, sum.States, sum.Reasons, sum.Gone, sum.Open()
	return out, nil
}

// counts is the progress in words: waiting 3, succeeded 9.
func (b *batchProgress) counts() string {
	var words []string
	for _, state := range jobs.States {
		if n := b.States[state]; n > 0 {
			words = append(words, fmt.Sprintf("%s %d", state, n))
		}
	}
	if b.Gone > 0 {
		words = append(words, fmt.Sprintf("gone %d", b.Gone))
	}
	if len(words) == 0 {
		return "no operation was acted on"
	}
	return strings.Join(words, ", ")
}

func (p *program) writeProgress(b *batchProgress) error {
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(b)
	case asJSONL:
		return p.writeLine(b)
	}
	p.print("%s: %s, phase %s, %d of %d acted on: %s", b.Batch, b.Action, b.Phase, b.Operations, b.Planned, b.counts())
	p.print("")
	rows := [][]string{{"at", instant(b.At)}, {"by", b.By}, {"note", b.Note}, {"chosen by", b.Filter}, {"dependencies", join(b.Dependencies)}}
	if b.StoppedAt != nil {
		rows = append(rows, []string{"stopped", instant(b.StoppedAt) + " by " + b.StoppedBy + ": " + b.StopNote})
	}
	for _, reason := range jobs.Reasons {
		if n := b.Reasons[reason]; n > 0 {
			rows = append(rows, []string{"dead (" + string(reason) + ")", strconv.Itoa(n)})
		}
	}
	p.table(grid{rows: rows})
	p.print("")
	p.print("its operations: enqueue list --batch %s", b.Batch)
	return nil
}

// watchBatch writes a line at each change, and ends when there will be none.
func (s *session) watchBatch(ctx context.Context, id string) error {
	for last := ""; ; {
		b, err := s.progress(ctx, id)
		if err != nil {
			if ctx.Err() != nil {
				return nil // being interrupted is one way it ends
			}
			return err
		}
		if words := fmt.Sprintf("phase %s, %d of %d acted on: %s", b.Phase, b.Operations, b.Planned, b.counts()); words != last {
			last = words
			now, err := s.redisNow(ctx)
			if err != nil {
				return err
			}
			if s.p.flags.output == asTable {
				s.p.print("%s  %s", instant(jobs.At(now)), words)
			} else if err := s.p.writeLine(b); err != nil {
				return err
			}
			if err := s.p.stdout.Flush(); err != nil {
				return &failure{exitError, err}
			}
		}
		if b.over() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}
