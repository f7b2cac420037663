package ledger

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// Redis Cluster refuses a script that touches a key of another slot than the
// declared one: one life of every kind on a node in cluster mode proves that none does.
func TestT28EveryScriptKeepsToOneSlot(t *testing.T) {
	t.Parallel()
	bus, err := net.Listen("tcp", "127.0.0.1:0") // a free port; by default it is the server's plus 10,000, which may not exist
	if err != nil {
		t.Fatal(err)
	}
	port := bus.Addr().(*net.TCPAddr).Port
	bus.Close()
	srv := redistest.Server(t, redistest.WithConfig("cluster-enabled yes"), redistest.WithConfig(fmt.Sprint("cluster-port ", port)))
	rdb := srv.Client(t)
	if err := rdb.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if info, _ := rdb.ClusterInfo(t.Context()).Result(); strings.Contains(info, "cluster_state:ok") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}

	b := setup(t, rdb)
	b.terms.Retention.DeadMS, b.terms.Retention.AuditMS = 1, 1
	for _, c := range b.oneOfEach() {
		if err := c.call(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	_, err = b.Pause(b.Context(), dep, hour, ann)
	b.must(err)
	b.must(b.Resume(b.Context(), dep, ann))
	b.add("late", b.sent("req-1", jobs.OutcomeUnknown, time.Second))
	b.wantAnswer(b.submit("late", b.sent("req-2", jobs.OutcomeUnknown, time.Second)), jobs.Duplicate, jobs.Waiting)
	b.pass(3 * hour)
	b.lostAttempts()
	b.sweep()
	b.pass(3000 * hour)
	b.retire()
	b.retire()
}
