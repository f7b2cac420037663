package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// event is one event of a stream.
type event struct {
	id     string
	change ledger.Change
}

// listening is a client of a stream.
type listening struct {
	t      testing.TB
	events chan event // closed when the stream has ended
	stop   context.CancelFunc
}

// listen follows events until the test ends or stop is called.
func (b *apiBundle) listen(t testing.TB, query, last string) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r, err := http.NewRequestWithContext(ctx, "GET", b.url+"/v1/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+reader)
	r.Header.Set("Accept", eventType)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != eventType {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	l := &listening{t, make(chan event, 1000), cancel}
	var reading sync.WaitGroup
	reading.Go(func() { // ends with the stream; the cleanup waits
		defer close(l.events)
		defer resp.Body.Close()
		var e event
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if id, ok := strings.CutPrefix(in.Text(), "id: "); ok {
				e.id = id
			}
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				_ = json.Unmarshal([]byte(data), &e.change)
			}
			if in.Text() == "" && e.id != "" {
				l.events <- e
				e = event{}
			}
		}
	})
	t.Cleanup(func() { cancel(); reading.Wait() })
	return l
}

func (l *listening) next() event {
	l.t.Helper()
	select {
	case e, open := <-l.events:
		if !open {
			l.t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(10 * time.Second):
		l.t.Fatal("no event came")
	}
	return event{}
}

// joined waits until n clients follow.
func (b *apiBundle) joined(n int) {
	b.t.Helper()
	for range 2000 {
		b.server.door.hub.mu.Lock()
		have := len(b.server.door.hub.listeners)
		b.server.door.hub.mu.Unlock()
		if have == n {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	b.t.Fatalf("there are never %d who follow", n)
}

func TestEventsAreToldAndGoOnAfterTheLastOneHad(t *testing.T) {
	t.Parallel()
	b := startAPI(t, redistest.Server(t).Client(t), nil)
	b.submit(`{"kind":"charge","key":"first","body":{}}`)
	cursor := ""
	{ // the cursor of what happened before anybody followed
		changes, err := b.ledger.ChangesAfter([]jobs.Dependency{"bank", "payrail"}, "payrail=0-0")
		if err != nil {
			t.Fatal(err)
		}
		some, err := changes.Next(t.Context(), noWait)
		if err != nil || len(some) != 1 {
			t.Fatalf("%v, %v", some, err)
		}
		cursor = some[0].Cursor
	}
	b.submit(`{"kind":"charge","key":"missed","body":{}}`)
	live, again := b.listen(t, "", ""), b.listen(t, "", cursor)
	if e := again.next(); e.change.Operation != "charge/missed" || e.change.State != "waiting" {
		t.Errorf("what was missed begins with %+v", e)
	}
	b.joined(2)
	for i := range 20 {
		b.submit(fmt.Sprintf(`{"kind":"charge","key":"o-%d","body":{}}`, i))
	}
	b.submit(`{"kind":"refund","key":"r-1","body":{}}`)
	seen := map[string]bool{}
	last := ""
	for !seen["refund/r-1"] {
		e := again.next()
		seen[e.change.Operation], last = true, e.id
	}
	if len(seen) != 21 {
		t.Errorf("%d operations told, want 21", len(seen))
	}
	again.stop()
	b.submit(`{"kind":"charge","key":"later","body":{}}`)
	if e := b.listen(t, "", last).next(); e.change.Operation != "charge/later" {
		t.Errorf("after a resumption comes %+v", e)
	}
	for i := range 20 { // it was connected before they happened: it misses none
		if e := live.next(); e.change.Operation != fmt.Sprintf("charge/o-%d", i) {
			t.Errorf("live: %+v, want number %d", e, i)
		}
	}
}

func TestEventsCanBeNarrowed(t *testing.T) {
	t.Parallel()
	b := startAPI(t, redistest.Server(t).Client(t), nil)
	for query, want := range map[string]string{"?dependency=bank": "refund/a", "?kind=payout": "payout/a", "?operation=charge/b": "charge/b"} {
		l := b.listen(t, query, "payrail=0-0")
		for _, name := range []string{"charge/a", "charge/b", "payout/a", "refund/a"} {
			kind, key, _ := strings.Cut(name, "/")
			b.submit(fmt.Sprintf(`{"kind":%q,"key":%q,"body":{}}`, kind, key))
		}
		if e := l.next(); e.change.Operation != want {
			t.Errorf("%s: %s, want %s", query, e.change.Operation, want)
		}
		l.stop()
	}
}

func TestStreamsBeyondTheirPlacesAreTurnedAway(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.Limits.MaxEventStreams = 3 })
	for range 3 {
		b.listen(t, "", "")
	}
	b.joined(3)
	refused := 0
	for range 200 {
		if g := b.ask(ask{method: "GET", path: "/v1/events", token: reader}); g.status == 503 {
			g.is(t, "one stream too many", busy)
			refused++
		}
	}
	if refused != 200 {
		t.Errorf("%d of 200 were turned away", refused)
	}
	if g := b.get("/v1/operations"); g.status != 200 {
		t.Errorf("another request beside full streams: %d", g.status)
	}
}

func TestAHeadOfEventsIsNoStream(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	if g := b.ask(ask{method: "HEAD", path: "/v1/events", token: reader}); g.status != 200 || g.header.Get("Content-Type") != eventType {
		t.Errorf("%d %v", g.status, g.header)
	}
	b.joined(0)
}

func TestOneReaderServesAllStreamsAndEndsWithTheLast(t *testing.T) {
	t.Parallel()
	b := startAPI(t, redistest.Server(t).Client(t), nil)
	blocked := func() int {
		clients, err := b.client.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(clients) {
			_, flags, _ := strings.Cut(line, " flags=")
			flags, _, _ = strings.Cut(flags, " ")
			if strings.Contains(line, " cmd=xread ") && strings.Contains(flags, "b") { // it waits in it now
				n++
			}
		}
		return n
	}
	var all []*listening
	for range 5 {
		all = append(all, b.listen(t, "", ""))
	}
	b.joined(5)
	most := 0
	for range 50 {
		most = max(most, blocked())
		time.Sleep(2 * time.Millisecond)
	}
	if most != 1 {
		t.Errorf("%d connections wait for events, want 1", most)
	}
	for _, l := range all {
		l.stop()
	}
	b.joined(0)
	b.server.door.hub.running.Wait()
}

func TestAStreamEndsWithTheServer(t *testing.T) {
	t.Parallel()
	b := setupAPI(t)
	l := b.listen(t, "", "")
	b.joined(1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	if err := b.server.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("closing took %s", took)
	}
	if _, open := <-l.events; open {
		t.Error("the stream goes on")
	}
}

// A client that does not read is let go, and nobody else waits for it.
func TestAListenerThatIsTooSlowIsLetGo(t *testing.T) {
	t.Parallel()
	h := newHub(nil, nil, nil)
	h.cancel = func() {} // as if its reader ran
	slow, quick := h.join(), h.join()
	for i := range listenerRoom + 1 {
		h.tell(ledger.Change{Operation: fmt.Sprint(i)})
		<-quick.changes
	}
	n := 0
	for range slow.changes {
		n++
	}
	if n != listenerRoom || len(h.listeners) != 1 {
		t.Errorf("the slow one got %d of %d, and %d are left", n, listenerRoom+1, len(h.listeners))
	}
	h.leave(slow) // harmless
	h.leave(quick)
	h.stop()
	if l := h.join(); l == nil {
		t.Error("no listener after the end")
	} else if _, open := <-l.changes; open {
		t.Error("somebody may follow after the end")
	}
}

func TestWhatIsBehindACursorIsNotToldTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change, seen string
		want         bool
	}{{"payrail=5-0", "payrail=6-0", true}, {"payrail=6-0", "payrail=6-0", false}, {"payrail=6-1", "payrail=6-2", true}, {"payrail=7-0", "payrail=6-9", false},
		{"bank=1-0,payrail=5-0", "bank=9-0,payrail=4-0", false}, {"payrail=5-0", "", false}} {
		if got := behind(ledger.Change{Dependency: "payrail", Cursor: c.change}, c.seen); got != c.want {
			t.Errorf("%s behind %s: %v", c.change, c.seen, got)
		}
	}
}
