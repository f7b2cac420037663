package cli

import (
	"context"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/tracing"
	"redrive/internal/wire"
)

// backend is what the commands act on and ask: the ledger itself ([atRedis]), or the API
// of a worker ([atServer]). Commands read the command line, ask the person and print;
// they do not know which of the two it is. Each method is one thing that a person asks
// for.
//
// What is wrong in itself is an [operator.InvalidError] or a [failure]; an error of the
// store or of the way to it is told by its own words, with what the caller adds ([noted]).
type backend interface {
	close()
	// where says where things are known, for people: in namespace redrive.
	where() string
	// now is the clock by which the ledger counts, for what is told beside its answers.
	now(ctx context.Context) (time.Time, error)
	// dependencies are all that are known, sorted.
	dependencies(ctx context.Context) ([]jobs.Dependency, error)

	// submittable returns a kind to submit to, once the store is fit to keep operations.
	submittable(ctx context.Context, kind jobs.Kind) (wire.Kind, error)
	// submit hands one operation in. A [refusedError] when it is wrong in itself.
	submit(ctx context.Context, sub *jobs.Submission) (jobs.Receipt, error)
	// importer makes ready to hand many in.
	importer(ctx context.Context, tracer *tracing.Tracer) (importer, error)

	list(ctx context.Context, w *operator.FilterWords) (page, error)
	countDead(ctx context.Context, w *operator.FilterWords) (deadGroups, error)
	// show finds an operation or, of a bare key, those of every kind that has it.
	show(ctx context.Context, name string, reveal bool) ([]shown, error)
	// export calls take for each dead letter, as a submission, and left with why one is none.
	export(ctx context.Context, w *operator.FilterWords, take func(*jobs.Submission) error, left func(why string)) error
	gates(ctx context.Context, deps []string) ([]wire.Gate, error)
	stats(ctx context.Context) (wire.Stats, error)
	audit(ctx context.Context, about, since string, limit int64) ([]ledger.AuditEntry, error)
	batches(ctx context.Context, since string, limit int) ([]*operator.Batch, error)
	batch(ctx context.Context, id string) (*operator.BatchProgress, error)
	// follow calls each for every change, of some dependencies or of all, until ctx ends.
	follow(ctx context.Context, deps []string, each func([]ledger.Change) error) error

	// choose fixes the set of a bulk action.
	choose(ctx context.Context, c choice) (chosen, error)
	// reconcilable leaves out operations of kinds that nobody knows. In a file they are
	// faults; named by a person they end the command before anything is done.
	reconcilable(ctx context.Context, named []namedAt, fromFile bool) ([]jobs.ID, []operator.Fault, error)
	reconcile(ctx context.Context, ids []jobs.ID, firstSent time.Time, order operator.Order) (operator.Report, error)
	resolve(ctx context.Context, found []operator.Finding, order operator.Order) (operator.Report, error)
	stopBatch(ctx context.Context, id string, order operator.Order) (operator.Stopped, error)
	pause(ctx context.Context, dep jobs.Dependency, span time.Duration, order operator.Order) (paused, error)
	resume(ctx context.Context, dep jobs.Dependency, credential string, order operator.Order) (paused, error)
	override(ctx context.Context, dep jobs.Dependency, values map[string]int64, span time.Duration, order operator.Order) (overrideAnswer, error)
	clearOverride(ctx context.Context, dep jobs.Dependency, order operator.Order) (overrideAnswer, error)
	firstAttempts(ctx context.Context, dep jobs.Dependency, f ledger.Firsts) (firstsAnswer, error)
}

// choice says what a bulk action is about.
type choice struct {
	verb   string                // of the action
	names  []jobs.ID             // nil: all that match
	words  *operator.FilterWords // which those are
	states []jobs.State          // to choose among, unless words names some
}

// chosen is the set of a bulk action.
type chosen interface {
	// count is how many operations were chosen, those that do not exist included.
	count() int
	// check refuses a plan that cannot be carried out now.
	check(ctx context.Context, w operator.RequeueWords) error
	dryRun(ctx context.Context, w operator.RequeueWords) (operator.DryRun, error)
	requeue(ctx context.Context, w operator.RequeueWords, order operator.Order) (operator.Report, error)
	cancel(ctx context.Context, order operator.Order) (operator.Report, error)
	discard(ctx context.Context, order operator.Order) (operator.Report, error)
}

// importer hands in the lines of one file. When ctx ends, what is under way is still
// waited for. An error ends it early; t then knows what became of how many lines.
type importer interface {
	run(ctx context.Context, lines *lineReader, t *tally) error
}

// refusedError says what is wrong with a submission in itself.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *refusedError) Unwrap() error { return e.err }

// open returns what the command line and the environment say is acted on. The caller
// closes it.
func (p *program) open(ctx context.Context, a access) (backend, error) {
	if p.server != "" {
		return p.openServer(ctx)
	}
	return p.openRedis(ctx, a)
}
