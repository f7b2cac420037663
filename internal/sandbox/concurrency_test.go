package sandbox

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestManyClientsAreCountedExactly(t *testing.T) {
	t.Parallel()
	const clients, each, references = 32, 60, 50
	tb := setup(t, Options{Seed: 1})
	var bySent [references]atomic.Int64
	var inquiries atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(99, uint64(c)))
			for range each {
				n := dice.IntN(references)
				reference := fmt.Sprint("order-", n)
				if dice.IntN(5) == 0 {
					inquiries.Add(1)
					tb.call("GET", "/v1/charges?reference="+reference, "", "").want(t, http.StatusOK)
					continue
				}
				bySent[n].Add(1)
				if r := tb.charge(reference, "key-"+reference); r.status != 201 && r.status != 409 {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
	// Readers in between: what they see is only ever consistent.
	wg.Go(func() {
		for range 50 {
			sum := 0
			for _, e := range tb.sandbox.Ledger() {
				sum += e.Requests
			}
			if st := tb.sandbox.Stats(); st.Requests < sum {
				t.Errorf("the totals know %d requests, the ledger had %d before", st.Requests, sum)
			}
		}
	})
	wg.Wait()
	total := 0
	for n := range references {
		sent := int(bySent[n].Load())
		total += sent
		e := tb.entry(fmt.Sprint("order-", n))
		if e.Requests != sent || len(e.Attempts) != sent || e.SideEffects != min(sent, 1) {
			t.Errorf("got %+v, want %d requests and one side effect", e, sent)
		}
	}
	checkTotals(t, tb.sandbox.Stats(), total, int(inquiries.Load()))
}

// checkTotals checks the totals of a run and that the seconds add up to them.
func checkTotals(t *testing.T, st Stats, posts, inquiries int) {
	t.Helper()
	if st.Requests+st.Unread != posts || st.Inquiries != inquiries {
		t.Errorf("got %d requests, %d unread and %d inquiries, want %d POSTs and %d inquiries",
			st.Requests, st.Unread, st.Inquiries, posts, inquiries)
	}
	var sum Second
	for _, s := range st.Seconds {
		sum.Requests += s.Requests
		sum.Unread += s.Unread
		sum.Inquiries += s.Inquiries
		sum.SideEffects += s.SideEffects
	}
	if sum.Requests != st.Requests || sum.Unread != st.Unread || sum.Inquiries != st.Inquiries || sum.SideEffects != st.SideEffects {
		t.Errorf("the seconds add up to %+v, the totals are %+v", sum, st)
	}
}

func TestEveryFaultKeepsTheLedgersPromisesUnderLoad(t *testing.T) {
	t.Parallel()
	const clients, each, references = 16, 20, 40
	for _, m := range Modes {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			tb := setup(t, Options{Seed: 5})
			f := Fault{Mode: m, Share: new(0.5)}
			if m == Slow || m == Flaky || m == Storm {
				f.Latency = 2 * time.Millisecond
			}
			if m == Storm {
				f.PerSecond = 2000
			}
			tb.setFault(f)
			var wg sync.WaitGroup
			for c := range clients {
				wg.Go(func() {
					for i := range each {
						reference := fmt.Sprint("order-", (c*each+i*7)%references)
						tb.charge(reference, "key-"+reference)
					}
				})
			}
			wg.Wait()
			sum, effects := 0, 0
			for _, e := range tb.sandbox.Ledger() {
				sum += e.Requests
				effects += e.SideEffects
				if e.SideEffects > 1 || len(e.IDs) > 1 {
					t.Errorf("got %+v, want at most one object under one key", e)
				}
			}
			st := tb.sandbox.Stats()
			if st.Requests != sum || st.SideEffects != effects || st.Unreferenced != 0 {
				t.Errorf("the ledger has %d requests and %d side effects, the totals are %+v", sum, effects, st)
			}
			if (st.Hits == 0) != (m == None) {
				t.Errorf("got %d hits", st.Hits)
			}
			checkTotals(t, st, clients*each, 0)
		})
	}
}

// BenchmarkCharges measures whole requests over loopback on kept connections,
// client included.
func BenchmarkCharges(b *testing.B) {
	s := New(Options{})
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var n atomic.Int64
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			reference := fmt.Sprint("order-", n.Add(1))
			r, err := http.NewRequest("POST", url+"/v1/charges", strings.NewReader(chargeBody(reference)))
			if err != nil {
				b.Error(err)
				return
			}
			r.Header.Set("Idempotency-Key", reference)
			resp, err := client.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body) // else the connection is not used again
			resp.Body.Close()
			if resp.StatusCode != 201 {
				b.Errorf("got status %d", resp.StatusCode)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
