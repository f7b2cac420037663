package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
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
			if _, err := operator.ParseWhen(operator.FieldSince, since, time.Time{}); err != nil {
				return err
			}
			b, err := p.open(ctx, reads)
			if err != nil {
				return err
			}
			defer b.close()
			found, err := b.batches(ctx, since, limit)
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

func (p *program) writeBatches(found []*operator.Batch) error {
	g := grid{header: []string{"batch", "action", "phase", "at", "by", "operations", "chosen by", "note"}}
	for _, b := range found {
		g.add(b.ID, b.Action, string(b.Phase), instant(b.At), b.By, strconv.Itoa(b.Planned), b.Filter, b.Note)
	}
	switch p.flags.output {
	case asJSON:
		if found == nil {
			found = []*operator.Batch{}
		}
		return p.writeJSON(struct {
			Items []*operator.Batch `json:"items"`
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
			p.print("%s", b.ID)
		}
	default:
		p.table(g)
	}
	return nil
}

// noBatch says where to look when there is no batch of a name.
func noBatch(b backend, id string) error {
	return &failure{exitNotFound, fmt.Errorf("%s: %w %s (enqueue batch list tells which there are)", id, ledger.ErrNoBatch, b.where())}
}

// checkBatchID refuses a name that cannot be one, such as that of a variable that is
// not set.
func checkBatchID(id string) error {
	if strings.TrimSpace(id) == "" {
		return usagef("ID is empty: want the name of a batch, such as b-20261130-071242-f426bf1c (enqueue batch list tells which there are)")
	}
	return nil
}

func (p *program) batchShowCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "show ID [--watch]",
		Short: "Show what became of a bulk action's operations so far",
		Long: "show counts the operations of a bulk action by their state. --watch writes a line at each change, until none of them is on its\n" +
			"way any more. A batch whose command gave no sign of life for a minute was cut off: the same command again goes on.",
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
				b, err := p.open(ctx, reads)
				if err != nil {
					return err
				}
				defer b.close()
				if watch {
					return p.watchBatch(ctx, b, args[0])
				}
				progress, err := b.batch(ctx, args[0])
				if err != nil {
					return err
				}
				return p.writeProgress(progress)
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "write a line at each change, until nothing is on its way any more")
	return cmd
}

// countsText is a progress in words: waiting 3, succeeded 9.
func countsText(b *operator.BatchProgress) string {
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

func (p *program) writeProgress(b *operator.BatchProgress) error {
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(b)
	case asJSONL:
		return p.writeLine(b)
	}
	p.print("%s: %s, phase %s, %d of %d acted on: %s", b.ID, b.Action, b.Phase, b.Operations, b.Planned, countsText(b))
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
	p.print("its operations: enqueue list --batch %s", b.ID)
	return nil
}

// watchEvery is how often it is looked what became of a batch.
const watchEvery = time.Second

// watchBatch writes a line at each change, and ends when there will be none.
func (p *program) watchBatch(ctx context.Context, on backend, id string) error {
	for last := ""; ; {
		b, err := on.batch(ctx, id)
		if err != nil {
			if ctx.Err() != nil {
				return nil // being interrupted is one way it ends
			}
			return err
		}
		if words := fmt.Sprintf("phase %s, %d of %d acted on: %s", b.Phase, b.Operations, b.Planned, countsText(b)); words != last {
			last = words
			now, err := on.now(ctx)
			if err != nil {
				return err
			}
			if p.flags.output == asTable {
				p.print("%s  %s", instant(jobs.At(now)), words)
			} else if err := p.writeLine(b); err != nil {
				return err
			}
			if err := p.stdout.Flush(); err != nil {
				return &failure{exitError, err}
			}
		}
		if b.Over() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}
