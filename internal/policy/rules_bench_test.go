package policy

import (
	"fmt"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

// page is an answer of n charges.
func page(n int, status string) string {
	item := `{"id":"ch_%d","status":"` + status + `","amount":4200,"currency":"GBP","reference":"order-1001","metadata":{"a":"b"}}`
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(item, i)
	}
	return `{"object":"list","has_more":false,"data":[` + strings.Join(items, ",") + `]}`
}

func BenchmarkRules(b *testing.B) {
	specs := make([]RuleSpec, 8)
	for i := range specs {
		specs[i] = RuleSpec{When: fmt.Sprintf(`status == 402 && body.error.code == "code_%d"`, i), Verdict: jobs.VerdictRetryAfter, Processed: no}
	}
	r := mustRules(b, specs...)
	for name, s := range map[string]Sample{
		"last_of_8": answer(402, nil, `{"error":{"code":"code_7","message":"`+strings.Repeat("x", 300)+`"}}`),
		"none_of_8": answer(200, nil, `{"id":"ch_1","status":"succeeded"}`),
		"missing":   answer(402, nil, `{"fault":{}}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Classify(s, jobs.IdempotencyKeyed)
			}
		})
	}
}

func BenchmarkInquiry(b *testing.B) {
	q := mustInquiry(b, chargeInquiry)
	for _, n := range []int{0, 1, 100, 1000} {
		s := answer(200, nil, page(n, "failed"))
		b.Run(fmt.Sprintf("%d_charges", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(s.Body)))
			for b.Loop() {
				if says, _, err := q.Read(s); err != nil {
					b.Fatal(says, err)
				}
			}
		})
	}
}

func BenchmarkResults(b *testing.B) {
	r := mustResults(b, map[string]string{"id": "body.id", "amount": "body.amount"})
	s := answer(200, nil, `{"id":"ch_1","amount":4200,"status":"succeeded"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := r.Read(s); errs != nil {
			b.Fatal(errs)
		}
	}
}

// BenchmarkCostLimit is how long one evaluation may hold a slot at the very worst.
func BenchmarkCostLimit(b *testing.B) {
	q := mustInquiry(b, InquirySpec{Answers: []int{200}, Succeeded: `body.data.exists(c, body.data.exists(d, d.id == "x" && c.id == "y"))`})
	s := answer(200, nil, page(5000, "failed"))
	a := view{sample: s}
	if _, err := a.decodedBody(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := q.rules[0].is.isTrue(&a); err == nil {
			b.Fatal("the limit was not reached")
		}
	}
}

func BenchmarkCompileRules(b *testing.B) {
	specs := []RuleSpec{{When: `status == 402 && body.error.code == "processing_error"`, Verdict: jobs.VerdictRetryAfter, Processed: no}}
	for b.Loop() {
		mustRules(b, specs...)
	}
}
