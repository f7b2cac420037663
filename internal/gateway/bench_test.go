package gateway

import (
	"testing"
)

// BenchmarkSend is the price of one attempt on loopback: a fresh connection and a
// fresh transport each.
func BenchmarkSend(b *testing.B) {
	s := startFault(b, nil, afterRequest(func(p *peer) { p.say(okAnswer) }))
	client := New(Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if a := client.Send(b.Context(), testCall(s.url())); a.Sample.Status != 200 {
				b.Errorf("status %d: %s", a.Sample.Status, a.Err)
			}
		}
	})
}
