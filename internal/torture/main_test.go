package torture

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"
)

var (
	seconds    = flag.Int("seconds", 8, "how long the script of faults lasts; the rest that follows takes up to 45 s")
	seed       = flag.Uint64("seed", 1, "what script and orders are drawn from")
	perSecond  = flag.Int("per-second", 45, "orders a second")
	reportFile = flag.String("report", "", "where to write the report as Markdown; nothing: only to the test's log")
	tailCuts   = flag.Bool("tail-cuts", withTailCuts, "also cut the tail of the append-only file off, while only keyed and natural kinds run")
	keepLogs   = flag.String("logs", "", "folder for the logs of the workers; nothing: the last lines, if the test fails")
)

// binaries is where TestMain built the programs.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	redis.SetLogger(silent{}) // that Redis is away is what we do here
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "redrive-torture-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		build := exec.Command("go", "build", "-o", dir, "redrive/cmd/worker", "redrive/cmd/enqueue")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
			return 1
		}
		binaries = dir
		return m.Run()
	}())
}

// silent takes what the Redis client says of broken connections.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
