package cli

import (
	"strings"
	"testing"

	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/redistest"
)

// Whatever a person does while Redis takes no writes ends with "try again", says why
// and changes nothing.
func TestEveryCommandThatRedisRefusesToWriteForEndsWithAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	client := srv.Client(t)
	b := setup(t, client)
	b.env["REDRIVE_REDIS_URL"] = srv.URL()
	b.asks("payout")
	b.submit(submission("payout", "unknown", 1), submission("charge", "dead", 1), submission("charge", "dead2", 1))
	b.attempt("payout/unknown", timedOut(ledger.StepAsk))
	b.attempt("charge/dead", decline(402, "no"))
	b.attempt("charge/dead2", decline(402, "no"))
	b.longOver("payout/unknown")
	batch := *into[operator.Outcome](t, b.must(exitOK, "dlq", "requeue", "charge/dead", "charge/dead2", "-y", "--note", "x", "-o", "json")).Batch
	commands := [][]string{
		line("pause payrail --note x"), line("resolve payout/unknown --applied --note x"),
		line("reconcile payout/unknown --note x"), line("cancel payout/unknown -y --note x"), line("dlq discard payout/unknown -y --note x"),
		line("dlq requeue payout/unknown -y --note x"), line("batch stop " + batch + " --note x"), line("add charge/new --body {}"),
		line("show payout/unknown --reveal"), line("gate override payrail --cap 5 --for 1h --note x"), line("first-attempts payrail --ok 1"),
	}
	config := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(why string, commands ...[]string) {
		t.Helper()
		for _, args := range commands {
			got := b.run(args...)
			if got.code != exitAgain {
				t.Errorf("%s: enqueue %s: exit %d, want %d: %s", why, strings.Join(args, " "), got.code, exitAgain, got.stderr)
			}
			says(t, got.stderr, why)
			hides(t, got.stderr, "may have been accepted", "ended early")
		}
	}
	before := b.operation("payout/unknown")

	config("min-replicas-to-write", "1")
	freeing := [][]string{line("resume payrail --note x"), line("gate clear payrail --note x")}
	refused("fewer replicas than min-replicas-to-write", append(commands, freeing...)...)
	says(t, b.must(exitAgain, "add", "charge/new", "--body", "{}").stderr, "nothing was written")
	says(t, b.must(exitAgain, "resolve", "payout/unknown", "--applied", "--note", "x").stderr, "no operation was changed")
	config("min-replicas-to-write", "0")

	config("maxmemory", "1mb") // what frees memory is let through by a full Redis
	refused("full", commands...)
	config("maxmemory", "0")

	if err := client.SlaveOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	refused("read-only replica", append(commands, freeing...)...)
	if err := client.SlaveOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	if after := b.operation("payout/unknown"); after.State != before.State || after.Applied != before.Applied {
		t.Errorf("it was %+v and is %+v", before, after)
	}
	b.must(exitNotFound, "show", "charge/new")
}
