package ledger

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"redrive/internal/jobs"
)

// walkQuestion is one inquiry that was handed out. Its answer may come late, or twice.
type walkQuestion struct {
	Question
	asked  time.Time
	answer jobs.InquiryAnswer // drawn once
	final  bool               // failed is final
	base   string
	said   bool
}

func (w *walk) inquireSome(t *rapid.T) {
	r, err := w.Inquire(w.Context(), w.terms, w.kinds, rapid.IntRange(0, 3).Draw(t, "want"), fmt.Sprint("ask", len(w.questions)), 10*time.Second)
	w.must(err)
	if r.Next < 0 || r.Next > 2*time.Second {
		t.Fatalf("next in %v", r.Next)
	}
	for _, q := range r.Questions {
		w.extra++ // a token each
		w.questions = append(w.questions, &walkQuestion{Question: q, asked: w.ledgerNow(), base: w.conditionsOf(q.ID).base})
	}
}

// answerSome hands in the answer of an inquiry, the first time or again, at once or late.
func (w *walk) answerSome(t *rapid.T) {
	if len(w.questions) == 0 {
		return
	}
	q := w.questions[len(w.questions)-1-rapid.IntRange(0, min(3, len(w.questions)-1)).Draw(t, "question")]
	if q.answer == "" {
		q.answer = rapid.SampledFrom([]jobs.InquiryAnswer{jobs.InquiryNotFound, jobs.InquiryNotFound, jobs.InquiryNotFound, jobs.InquiryNotFound,
			jobs.InquiryNothing, jobs.InquiryPending, jobs.InquiryFailed, jobs.InquirySucceeded}).Draw(t, "answer")
		q.final = rapid.Bool().Draw(t, "failed is final")
	}
	name := q.ID.String()
	o, before := w.ops[name], w.records()[name]
	f, err := w.Inquired(w.Context(), w.terms, q.Question, Inquired{Answer: q.answer, BaseURL: q.base, NotApplied: !q.final,
		StayDead: rapid.Bool().Draw(t, "stays dead"), Delay: rapid.SampledFrom([]time.Duration{0, minute}).Draw(t, "next inquiry")})
	w.must(err)
	if q.said && f.How == HowOwn {
		t.Fatalf("%s: the answer of %s was taken twice", name, q.RunID)
	}
	q.said = true
	if q.answer == jobs.InquirySucceeded {
		o.inquired = true
		return
	}
	if f.How != HowOwn {
		return
	}
	after := w.records()[name]
	settled := before["unk"] != "" && after["unk"] == ""
	switch q.answer {
	case jobs.InquiryFailed:
		if settled {
			if why := o.mayBeBelieved(q.asked, q.base); why != "" {
				t.Fatalf("%s: failed settled it, and %s", name, why)
			}
			o.settleUpTo(o.count)
		}
	case jobs.InquiryNotFound:
		if settled {
			if why := o.mayBeSettled(q.asked, q.base); why != "" {
				t.Fatalf("%s: not found settled it, and %s", name, why)
			}
			o.settleUpTo(o.count)
		}
		if o.notFound.IsZero() && after["nf"] != "" {
			o.notFound = w.ledgerNow()
		}
		return
	default:
		if settled {
			t.Fatalf("%s: %q settled it", name, q.answer)
		}
	}
	o.notFound = time.Time{}
}

// inquireAndAnswer gets far: time passes, and all that is asked is answered.
func (w *walk) inquireAndAnswer(t *rapid.T) {
	w.to(w.clock.Add(rapid.SampledFrom([]time.Duration{time.Second, 40 * time.Second, 40 * time.Second, minute}).Draw(t, "passes")))
	w.inquireSome(t)
	w.answerSome(t)
}
