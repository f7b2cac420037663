package gateway

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/policy"
)

// Whatever goes wrong, wherever: what we call not sent the server has not seen,
// and nothing is on the wire twice. The server's own record is the judge.
func TestNothingThatWasSentIsCalledNotSent(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex // guards rnd
	rnd := rand.New(rand.NewPCG(seed, 0))
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rnd.IntN(n)
	}
	misbehave := func(p *peer) { faults[draw(len(faults))](p, draw) }
	plain := startFault(t, nil, misbehave)
	secure := startFault(t, &tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}}, misbehave)
	servers := []*faultServer{plain, secure}
	client := New(Options{TLS: &tls.Config{RootCAs: ca.pool}})

	type result struct {
		key    string
		server *faultServer
		answer Answer
	}
	results := make([]result, bulkCalls)
	next := make(chan int) // closed by this test when all are handed out
	var workers sync.WaitGroup
	for range bulkAtOnce { // most of them wait for a timeout
		workers.Go(func() { // ended by closing next; waited for below
			for i := range next {
				s := servers[i%2]
				call := testCall(s.url())
				call.Request.IdempotencyKey = fmt.Sprintf("bulk-%06d-", i)
				call.Request.Body = bigBody(1 << draw(19))
				call.Timeout, call.SendBy = 300*time.Millisecond, policy.SendWindow
				if draw(4) == 0 { // so tight that it ends anywhere
					call.Timeout = time.Duration(1+draw(80)) * time.Millisecond
					call.SendBy = time.Duration(draw(60)) * time.Millisecond
				}
				results[i] = result{call.Request.IdempotencyKey, s, client.Send(t.Context(), call)}
			}
		})
	}
	for i := range bulkCalls {
		next <- i
	}
	close(next)
	workers.Wait()
	plain.stop()
	secure.stop()

	rows, seen := map[string]int{}, 0
	record := map[*faultServer]string{plain: plain.record(), secure: secure.record()}
	for _, r := range results {
		c := checkAnswer(t, r.answer)
		rows[c.Row]++
		copies := strings.Count(record[r.server], r.key)
		if copies > 1 {
			t.Errorf("%s was on the wire %d times", r.key, copies)
		}
		if copies > 0 && (c.Outcome == jobs.OutcomeNotSent || r.answer.WireBytes == 0) {
			t.Errorf("%s was seen by the server and is called %s, phase %s (%s)", r.key, c.Outcome, r.answer.Sample.Phase, r.answer.Err)
		}
		seen += copies
	}
	t.Logf("%d calls, %d seen by the servers, by row: %v", bulkCalls, seen, rows)
	for _, row := range []string{"H200", "N09", "N11", "N12", "N14", "N19"} {
		if rows[row] == 0 {
			t.Errorf("no call ended in row %s: the faults do not cover it", row)
		}
	}
	if rows[policy.RowUnlisted] > 0 || seen < bulkCalls/4 || seen == bulkCalls {
		t.Errorf("%d of %d seen, %d unlisted", seen, bulkCalls, rows[policy.RowUnlisted])
	}
}

// record returns all that the server's program ever read.
func (s *faultServer) record() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all strings.Builder
	for _, buf := range s.received {
		all.Write(buf.Bytes())
		all.WriteByte('\n')
	}
	return all.String()
}

// faults are what a server may do to a connection; draw makes each time another.
var faults = []func(p *peer, draw func(int) int){
	func(p *peer, _ func(int) int) { p.readRequest(); p.say(okAnswer) },
	func(p *peer, _ func(int) int) { p.reset() },
	func(p *peer, _ func(int) int) {},
	func(p *peer, draw func(int) int) { pause(draw); p.reset() },
	func(p *peer, draw func(int) int) { readSome(p, draw); p.reset() },
	func(p *peer, draw func(int) int) { readSome(p, draw) },
	func(p *peer, _ func(int) int) { p.readRequest(); p.reset() },
	func(p *peer, _ func(int) int) { p.readRequest() },
	func(p *peer, _ func(int) int) { p.readRequest(); _ = p.untilGone() },
	func(p *peer, draw func(int) int) { p.readRequest(); pause(draw); p.say(okAnswer) },
	func(p *peer, draw func(int) int) { p.readRequest(); p.say(okAnswer[:draw(len(okAnswer))]) },
	func(p *peer, draw func(int) int) { p.readRequest(); p.say(okAnswer[:draw(len(okAnswer))]); p.reset() },
	func(p *peer, _ func(int) int) { p.readRequest(); p.say("garbage\r\n\r\n") },
	func(p *peer, _ func(int) int) { early413(p) },
	func(p *peer, _ func(int) int) {
		p.say("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	},
	func(p *peer, _ func(int) int) { drip(p) },
}

func pause(draw func(int) int) { time.Sleep(time.Duration(draw(60)) * time.Millisecond) }

func readSome(p *peer, draw func(int) int) {
	buf := make([]byte, 1+draw(4096))
	_, _ = p.in.Read(buf)
}
