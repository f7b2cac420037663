package cli

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/redistest"
)

// lossy is a way to a Redis that hands on every command, and whose connections end where
// the reply to a chosen change would come: it was made, and nobody hears of it.
type lossy struct {
	t     *testing.T
	admin redis.UniversalClient // the Redis itself
	to    string
	l     net.Listener
	ways  sync.WaitGroup // the goroutines below

	mu      sync.Mutex // guards the rest
	conns   []net.Conn
	changes string // that Redis had counted when a reply last came through
	answers int    // changes whose replies come through before one does not
	lost    bool
}

func newLossy(t *testing.T, srv *redistest.Redis, answers int) *lossy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &lossy{t: t, admin: srv.Client(t), to: srv.Addr(), l: l, answers: answers}
	w.changes = w.counted()
	w.ways.Go(w.accept) // ends with the listener; end waits
	return w
}

// counted is how many changes Redis counts: its server saves no snapshots, which begin anew.
func (w *lossy) counted() string {
	info, err := w.admin.Info(w.t.Context(), "persistence").Result()
	_, rest, ok := strings.Cut(info, "rdb_changes_since_last_save:")
	if err != nil || !ok {
		w.t.Errorf("redis counts no changes: %v %s", err, info)
	}
	n, _, _ := strings.Cut(rest, "\r")
	return n
}

func (w *lossy) accept() {
	for {
		from, err := w.l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", w.to)
		if err != nil {
			w.t.Error(err)
			from.Close()
			return
		}
		w.mu.Lock()
		w.conns = append(w.conns, from, to)
		if w.lost {
			from.Close()
		}
		w.mu.Unlock()
		w.ways.Go(func() { // ends with either side; end waits
			_, _ = io.Copy(to, from)
			to.Close()
		})
		w.ways.Go(func() { // ends with either side; end waits
			defer from.Close()
			reply := make([]byte, 64<<10)
			for {
				n, err := to.Read(reply)
				if err != nil || !w.pass() {
					return
				}
				if _, err := from.Write(reply[:n]); err != nil {
					return
				}
			}
		})
	}
}

// pass reports whether a reply comes through, and cuts every connection where it is the
// first that does not.
func (w *lossy) pass() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		return false
	}
	now := w.counted()
	if now == w.changes {
		return true
	}
	w.changes = now
	w.answers--
	w.lost = w.answers < 0
	if w.lost {
		for _, c := range w.conns {
			c.Close()
		}
	}
	return !w.lost
}

// end closes everything, and reports whether a reply was lost.
func (w *lossy) end() bool {
	w.l.Close()
	w.mu.Lock()
	for _, c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.ways.Wait()
	return w.lost
}

// With --redis a lost reply to pause, resume and the like was a cut connection and nothing
// more; a bulk action that had not begun was one that nobody knew of.
func TestALostReplyOfRedisSaysWhatMayHaveBeenDone(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t, redistest.WithConfig(`save ""`))
	client := srv.Client(t)
	for command, words := range everyChange {
		for answers := 0; ; answers++ {
			if err := client.FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			b := setup(t, client)
			if err := b.ledger.CheckSchema(t.Context()); err != nil { // a worker has written it
				t.Fatal(err)
			}
			b.submit(submission("charge", "a", 1), submission("charge", "dead", 1), submission("payout", "unknown", 1))
			b.attempt("charge/dead", decline(402, "no"))
			b.attempt("payout/unknown", timedOut(ledger.StepEnd))
			asked := b.specs["payout"]
			asked.Inquiry = &jobs.InquirySpec{SettleMS: 1, GiveUpAfterMS: 3600_000}
			if err := b.ledger.PublishKinds(t.Context(), []jobs.KindSpec{asked}); err != nil {
				t.Fatal(err)
			}
			args := line(command)
			switch args[0] + " " + args[1] {
			case "gate clear":
				b.must(exitOK, line("gate override payrail --cap 5 --for 1h --note x")...)
			case "resume payrail":
				b.refuse()
			case "batch stop":
				args[2] = strings.TrimSpace(b.requeued())
			}
			states := b.must(exitOK, line("list -o csv")...).stdout

			w := newLossy(t, srv, answers)
			direct := b.env["REDRIVE_REDIS_URL"]
			b.env["REDRIVE_REDIS_URL"] = "redis://" + w.l.Addr().String()
			got := b.runWith(`{"kind":"charge","key":"b","body":{}}`, args...)
			lost := w.end()
			b.env["REDRIVE_REDIS_URL"] = direct

			if !lost { // it has no more replies than that
				if answers == 0 || got.code == exitAgain {
					t.Errorf("%s: %d replies to changes, exit %d: %s", command, answers, got.code, got.stderr)
				}
				break
			}
			if got.code != exitAgain {
				t.Errorf("%s, reply %d: exit %d, want %d: %s", command, answers, got.code, exitAgain, got.stderr)
			}
			says(t, got.stderr, "redis at "+w.l.Addr().String())
			switch isBulk := strings.HasSuffix(words, "goes on with the rest"); {
			case isBulk && strings.Contains(got.stderr, untouched):
				if now := b.must(exitOK, line("list -o csv")...).stdout; now != states {
					t.Errorf("%s, reply %d: %s\nbefore:\n%s\nnow:\n%s", command, answers, got.stderr, states, now)
				}
			case args[0] == "batch" && strings.Contains(got.stderr, endedEarly):
			default:
				says(t, got.stderr, words)
			}
		}
	}
}

// requeued requeues the dead letter, and returns its batch.
func (b *testBundle) requeued() string {
	b.t.Helper()
	b.must(exitOK, line("dlq requeue charge/dead -y --note x")...)
	return b.must(exitOK, line("batch list -o name")...).stdout
}

// readOnly is the answer of a Redis that has become a replica.
type readOnly struct{}

func (readOnly) Error() string { return "READONLY You can't write against a read only replica." }
func (readOnly) RedisError()   {}

// Several operations are acted on at once: that one was refused says nothing of another
// whose reply was lost meanwhile.
func TestARefusedWriteSaidThatNothingWasChangedOfOthersToo(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: untouched, 1: untouched, 2: endedEarly} {
		p := newProgram(strings.NewReader(""), io.Discard, io.Discard, func(string) string { return "" })
		p.flags.output = asTable
		var told *noted
		if err := p.end(operator.Report{Results: make([]operator.Result, n), Failed: readOnly{}}, "cancelled", nil); !errors.As(err, &told) || told.note != want {
			t.Errorf("%d operations: %v, want %q", n, err, want)
		}
	}
}
