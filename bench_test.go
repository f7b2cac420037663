package redrive

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"redrive/internal/redistest"
)

// nothing is a sender that answers at once: what is left is the client's own.
func nothing(context.Context, *Attempt) (Reply, error) {
	return Reply{Status: 201, Body: []byte(`{"id":"ch_1"}`)}, nil
}

func benchClient(b *testing.B, mode Mode) *Client {
	b.Helper()
	c, err := New(b.Context(), Options{RedisURL: redistest.Server(b).URL(), Mode: mode, Dependencies: []Dependency{{Name: "payrail", BaseURL: "http://127.0.0.1:1"}},
		Kinds: []Kind{{Name: "charge", Dependency: "payrail", Path: "/v1/charges", Class: Keyed}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func BenchmarkDo(b *testing.B) {
	for name, mode := range map[string]Mode{"light": Light, "durable": Durable} {
		b.Run(name, func(b *testing.B) {
			c := benchClient(b, mode)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := c.Do(b.Context(), charge(fmt.Sprint("order-", i)), nothing); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

func BenchmarkSubmitMany(b *testing.B) {
	c := benchClient(b, Durable)
	const size = 10_000
	var rounds atomic.Int64
	for b.Loop() {
		ops := make([]Operation, size)
		n := rounds.Add(1)
		for i := range ops {
			ops[i] = charge(fmt.Sprintf("order-%d-%d", n, i))
		}
		if _, err := c.SubmitMany(b.Context(), ops); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "operations/s")
}

// BenchmarkCallRefused is what a call costs that the used-up budget refuses.
func BenchmarkCallRefused(b *testing.B) {
	c := benchClient(b, Light)
	c.budget.note("payrail", StopBudget, maxDenial)
	fail := (&scripted{turn: []func() (Reply, error){status(500)}}).read
	b.ReportAllocs()
	for b.Loop() {
		c.budget.note("payrail", StopBudget, maxDenial)
		_, _ = c.Call(b.Context(), "payrail", fail)
	}
}
