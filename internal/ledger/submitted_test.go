package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// answers are the counted answers as `kind answer n`, sorted.
func (b *bundle) answers() []string {
	b.Helper()
	s, err := b.Snapshot(b.Context(), dep)
	b.must(err)
	var out []string
	for _, n := range s.Submitted {
		out = append(out, fmt.Sprint(n.Kind, " ", n.Answer, " ", n.N))
	}
	slices.Sort(out)
	return out
}

func (b *bundle) wantAnswers(want ...string) {
	b.Helper()
	if got := b.answers(); !slices.Equal(got, want) {
		b.Fatalf("answers counted: %q, want %q", got, want)
	}
}

func TestSubmissionsAreCountedByTheirAnswer(t *testing.T) {
	each(t, func(s *suite) {
		s.test("one by one and together", func(b *bundle) {
			b.wantAnswers()
			b.add("o1")
			b.submit("o1")
			b.submit("o1", body(`{"amount":1}`))
			_, err := b.Submit(b.Context(), b.submitTerms(), []Entry{b.entry("o2"), b.entry("o3"), b.entry("o3"), b.entry("o4", deadline(b.now().Add(-hour).Format(time.RFC3339)))})
			b.must(err)
			b.wantAnswers("charge accepted 3", "charge conflict 1", "charge duplicate 2", "charge refused 1")
		})
		s.test("what only reads, or fails, counts nothing", func(b *bundle) {
			b.add("o1")
			g := b.start("o1")
			b.finish(g, succeeded())
			b.sweep()
			b.get("o1")
			b.wantAnswers("charge accepted 1")
		})
		s.test("what a worker tells of its own is no submission", func(b *bundle) {
			b.add("o1")
			again, err := b.start("o1").Again(dep, b.target)
			b.must(err)
			_, err = b.Submit(b.Context(), b.submitTerms(), []Entry{again})
			b.must(err)
			b.wantAnswers("charge accepted 1")
		})
		s.test("garbage in the hash is not shown", func(b *bundle) {
			b.add("o1")
			b.must(b.rdb.HSet(b.Context(), b.key(dep, "submitted"), "nonsense", "7", "charge duplicate", "many").Err())
			if got := strings.Join(b.answers(), ","); !strings.HasPrefix(got, "charge accepted 1") || strings.Contains(got, "nonsense") {
				b.Fatalf("answers counted: %s", got)
			}
		})
	})
}

// A count is not worth an answer.
func TestAFullRedisAnswersWhatItCannotCount(t *testing.T) {
	t.Parallel()
	rdb := redistest.Server(t).Client(t)
	b := setup(t, rdb)
	b.add("o1")
	b.must(rdb.ConfigSet(b.Context(), "maxmemory", "1").Err())
	r := b.submit("o1")
	b.must(rdb.ConfigSet(b.Context(), "maxmemory", "0").Err())
	b.wantAnswer(r, jobs.Duplicate, jobs.Waiting)
	b.wantAnswers("charge accepted 1")
}

// Calls beyond the first are attempts and inquiries: what they cost an operation is
// told of its end.
func TestAnEndTellsOfSendsAndInquiries(t *testing.T) {
	each(t, func(s *suite) {
		s.test("by what the inquiry found", func(b *bundle) {
			b.unresolved("o1")
			b.settledTime()
			b.ask("o1", jobs.InquiryPending)
			b.pass(5 * time.Second)
			f := b.ask("o1", jobs.InquirySucceeded)
			if len(f.Ended) != 1 || f.Ended[0].Sends != 1 || f.Ended[0].Inquiries != 2 {
				b.Fatalf("ended %+v, want 1 send and 2 inquiries", f.Ended)
			}
		})
		s.test("by an attempt, with its correlation id behind", func(b *bundle) {
			b.add("o1", func(s *jobs.Submission) { s.CorrelationID = "checkout-77" })
			f := b.attempt("o1", succeeded())
			if len(f.Ended) != 1 || f.Ended[0].Sends != 1 || f.Ended[0].Inquiries != 0 || f.Ended[0].CorrelationID != "checkout-77" {
				b.Fatalf("ended %+v", f.Ended)
			}
		})
	})
}
