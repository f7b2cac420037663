package ledger

import (
	"context"
	"time"

	"redrive/internal/budget"
	"redrive/internal/jobs"
	"redrive/internal/luascript"
)

// Spent is the gate's word on a retry that its caller sends by itself.
type Spent struct {
	Hold       jobs.Hold     // why it may not go; none: it may, and its token is spent
	Wait       time.Duration // until that may end
	Generation int64         // to be given back with how the retry ended
	News       News
}

// Spend asks the gate for one retry of something that is no operation, such as a read in
// a request path: it draws on the same bucket. said tells how the retry before ended, at
// its generation; the zero Said where there was none. Params of the gate count only where
// no worker has ever said its own. A call whose reply was lost may have cost a token: do
// not send.
func (l *Ledger) Spend(ctx context.Context, dep jobs.Dependency, spare budget.Params, said Said, generation int64) (Spent, error) {
	return l.spend(ctx, dep, spare, said, generation, true)
}

// Tell is [Ledger.Spend] without asking for another retry.
func (l *Ledger) Tell(ctx context.Context, dep jobs.Dependency, spare budget.Params, said Said, generation int64) error {
	_, err := l.spend(ctx, dep, spare, said, generation, false)
	return err
}

func (l *Ledger) spend(ctx context.Context, dep jobs.Dependency, spare budget.Params, said Said, generation int64, want bool) (Spent, error) {
	args := said.args(spare.SpareArgs(new(luascript.Args)), generation).Flag("want", want)
	r, err := spendScript.Run(ctx, l.rdb, l.slot(dep), args)
	if err != nil {
		return Spent{}, err
	}
	if len(r) < 4 {
		return Spent{}, unexpected("spend", r)
	}
	return Spent{Hold: jobs.Hold(r[0]), Wait: ms(r.Int(1)), Generation: r.Int(2), News: news(r[3])}, nil
}
