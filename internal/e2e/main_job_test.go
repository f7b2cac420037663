package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"redrive/internal/redistest"
)

// TestThousandCharges is the main job: import, redeliver with two workers, and
// import again.
func TestThousandCharges(t *testing.T) {
	g := startGateway(t)
	s := newSetting(t, redisServer(t).URL(), "money", g.url, "")
	s.worker(t)
	s.worker(t)
	s.awaitKinds(t)
	const file = "../../examples/charges.jsonl"

	if a, code := s.importFile(t, file); a != (answers{Accepted: 1000}) || code != 0 {
		t.Fatalf("import: %+v, exit %d", a, code)
	}
	s.awaitStates(t, time.Minute, map[string]int{"succeeded": 1000})
	if requests, effects, twice := g.totals(t); requests != 1000 || effects != 1000 || twice != 0 {
		t.Fatalf("the gateway saw %d requests, %d effects, %d charged twice", requests, effects, twice)
	}

	if a, code := s.importFile(t, file); a != (answers{Duplicate: 1000}) || code != 0 {
		t.Errorf("import again: %+v, exit %d", a, code)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"amount":`, `"amount":1`, 1)
	copied := t.TempDir() + "/changed.jsonl"
	if err := os.WriteFile(copied, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, code := s.importFile(t, copied); a != (answers{Duplicate: 999, Conflict: 1}) || code != 3 {
		t.Errorf("import with one changed amount: %+v, exit %d", a, code)
	}
	if requests, _, _ := g.totals(t); requests != 1000 {
		t.Errorf("importing again made %d calls", requests-1000)
	}
}

// TestTombstoneAnswersDuplicate: the record is gone, its tombstone is not.
func TestTombstoneAnswersDuplicate(t *testing.T) {
	t.Parallel() // it waits for a minute, and little else
	g := startGateway(t)
	server := redisServer(t)
	s := newSetting(t, server.URL(), "money", g.url, "")
	appendFile(t, s.config, "retention: {succeeded: 1s}\n")
	s.worker(t)
	s.awaitKinds(t)
	add := func() string {
		out, _ := s.enqueue(t, "add", "charge/once", "--body", `{"amount":5,"currency":"GBP","reference":"once"}`, "-o", "json")
		return out
	}
	if out := add(); !strings.Contains(out, `"accepted"`) {
		t.Fatalf("add: %s", out)
	}
	rdb := server.Client(t)
	await(t, 90*time.Second, "the request to go and the tombstone to stay", func() bool {
		ctx := context.Background()
		request, err1 := rdb.Exists(ctx, "money:{payrail}:request:charge/once").Result()
		record, err2 := rdb.Exists(ctx, "money:{payrail}:op:charge/once").Result()
		return err1 == nil && err2 == nil && request == 0 && record == 1
	})
	if out := add(); !strings.Contains(out, `"duplicate"`) {
		t.Errorf("add after the record is gone: %s", out)
	}
	if out, code := s.enqueue(t, "add", "charge/once", "--body", `{"amount":6,"currency":"GBP","reference":"once"}`, "-o", "json"); code != 5 || !strings.Contains(out, `"conflict"`) {
		t.Errorf("add with another amount: exit %d, %s", code, out)
	}
	if requests, _, _ := g.totals(t); requests != 1 {
		t.Errorf("the gateway saw %d requests, want 1", requests)
	}
}

// TestChargeAndRefundSendDifferentKeys: gateways share keys across routes.
func TestChargeAndRefundSendDifferentKeys(t *testing.T) {
	g := startGateway(t)
	s := newSetting(t, redisServer(t).URL(), "money", g.url, "")
	s.worker(t)
	s.awaitKinds(t)
	for _, kind := range []string{"charge", "refund"} {
		if _, code := s.enqueue(t, "add", kind+"/order-1", "--body", `{"amount":5,"currency":"GBP","reference":"order-1"}`); code != 0 {
			t.Fatalf("add %s: exit %d", kind, code)
		}
	}
	s.awaitStates(t, 30*time.Second, map[string]int{"succeeded": 2})
	var keys []string
	for _, e := range g.ledger(t) {
		keys = append(keys, e.Keys...)
	}
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"charge:order-1", "refund:order-1"}) {
		t.Errorf("keys sent: %v", keys)
	}
}

// TestNamespacesDoNotMeet: two environments on one Redis, the same keys in both.
func TestNamespacesDoNotMeet(t *testing.T) {
	server := redisServer(t)
	var settings []setting
	var gateways []gateway
	for _, namespace := range []string{"blue", "green"} {
		g := startGateway(t)
		s := newSetting(t, server.URL(), namespace, g.url, "")
		s.worker(t)
		s.worker(t)
		settings, gateways = append(settings, s), append(gateways, g)
	}
	for _, s := range settings {
		s.awaitKinds(t)
		if a, code := s.importFile(t, charges(t, 1000, nil)); a.Accepted != 1000 || code != 0 {
			t.Fatalf("import into %s: %+v, exit %d", s.namespace, a, code)
		}
	}
	for i, s := range settings {
		s.awaitStates(t, 90*time.Second, map[string]int{"succeeded": 1000})
		if requests, effects, twice := gateways[i].totals(t); requests != 1000 || effects != 1000 || twice != 0 {
			t.Errorf("%s: %d requests, %d effects, %d twice", s.namespace, requests, effects, twice)
		}
	}
}

// TestEnqueueNeedsNeitherFileNorSecrets: a dead letter is listed, shown and
// requeued by a shell that knows the Redis URL alone.
func TestEnqueueNeedsNeitherFileNorSecrets(t *testing.T) {
	g := startGateway(t)
	s := newSetting(t, redisServer(t).URL(), "money", g.url, "")
	s.worker(t)
	s.awaitKinds(t)
	g.fault(t, `{"mode":"decline","share":1}`)
	if _, code := s.enqueue(t, "add", "payout/p1", "--body", `{"amount":5,"currency":"GBP","reference":"p1"}`); code != 0 {
		t.Fatalf("add: exit %d", code)
	}
	s.awaitStates(t, 30*time.Second, map[string]int{"dead": 1})
	if out, code := s.enqueue(t, "dlq", "list", "-o", "name"); code != 0 || strings.TrimSpace(out) != "payout/p1" {
		t.Fatalf("dlq list: exit %d, %q", code, out)
	}
	if out, code := s.enqueue(t, "show", "payout/p1"); code != 0 || !strings.Contains(out, "permanent") {
		t.Errorf("show: exit %d\n%s", code, out)
	}
	g.fault(t, `{"mode":"none"}`)
	if _, code := s.enqueue(t, "dlq", "requeue", "payout/p1", "--note", "the card works again", "--yes"); code != 0 {
		t.Fatalf("requeue: exit %d", code)
	}
	s.awaitStates(t, 30*time.Second, map[string]int{"succeeded": 1})
	if out, code := s.enqueue(t, "audit", "payout/p1"); code != 0 || !strings.Contains(out, "the card works again") {
		t.Errorf("audit: exit %d\n%s", code, out)
	}
}

// TestWithoutConfigCommand: a managed Redis allows no CONFIG. Standard works and
// names what it could not read; strict refuses until assume says it.
func TestWithoutConfigCommand(t *testing.T) {
	g := startGateway(t)
	server := redisServer(t, redistest.WithConfig(`rename-command CONFIG ""`))
	check := func(extra string) string {
		s := newSetting(t, server.URL(), "money", g.url, "")
		text, err := os.ReadFile(s.config)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), "namespace: money}", "namespace: money, "+extra+"}", 1)
		// Class none asks more of strict than assume can say: a replica, and fsync always.
		changed = strings.Replace(changed, "idempotency: none", "idempotency: natural", 1)
		if err := os.WriteFile(s.config, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		p := start(t, "worker", "check", "--config", s.config)
		select {
		case <-p.done:
		case <-time.After(30 * time.Second):
			t.Fatal("check did not end")
		}
		return fmt.Sprintf("%d %s", p.cmd.ProcessState.ExitCode(), p.out.String())
	}
	if out := check("durability: standard"); !strings.HasPrefix(out, "0 ") || !strings.Contains(out, "could not read") {
		t.Errorf("standard: %s", out)
	}
	if out := check("durability: strict"); !strings.HasPrefix(out, "1 ") || !strings.Contains(out, "could not read") {
		t.Errorf("strict: %s", out)
	}
	if out := check("durability: strict, assume: {maxmemory_policy: noeviction, persistence: aof}"); !strings.HasPrefix(out, "0 ") || !strings.Contains(out, "assumed") {
		t.Errorf("strict, with what cannot be read assumed: %s", out)
	}
}
