package httpapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/wire"
)

// between stands between a client and Redis, and can play one that was restarted and
// loads its data.
type between struct {
	listener net.Listener
	redis    string
	loading  atomic.Bool
	refused  atomic.Int64 // commands, while it loads
}

func newBetween(t *testing.T, redis string) *between {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &between{listener: l, redis: redis}
	var serving sync.WaitGroup
	var open sync.Map   // of connections
	serving.Go(func() { // ends with the listener; the cleanup waits
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(client, nil)
			serving.Go(func() { b.serve(client) }) // ends with the connection
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		serving.Wait()
	})
	return b
}

func (b *between) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", b.redis)
	if err != nil {
		return
	}
	defer server.Close()
	var answering sync.WaitGroup
	defer answering.Wait()
	defer server.Close()                                                    // before it is waited for
	answering.Go(func() { _, _ = io.Copy(client, server); client.Close() }) // ends with the server's connection
	for in := bufio.NewReader(client); ; {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		if b.loading.Load() {
			b.refused.Add(1)
			_, err = io.WriteString(client, "-LOADING Redis is loading the dataset in memory\r\n")
		} else {
			_, err = server.Write(command)
		}
		if err != nil {
			return
		}
	}
}

// readCommand reads one command as clients write them: an array of strings.
func readCommand(in *bufio.Reader) ([]byte, error) {
	head, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	var n int
	if _, err := fmt.Sscanf(head, "*%d\r\n", &n); err != nil {
		return nil, errors.New("no command")
	}
	out := []byte(head)
	for range n {
		length, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		var bytes int
		if _, err := fmt.Sscanf(length, "$%d\r\n", &bytes); err != nil {
			return nil, errors.New("no string")
		}
		text := make([]byte, bytes+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		out = append(append(out, length...), text...)
	}
	return out, nil
}

// startBehind is an API of little patience, whose Redis it reaches through a between.
func startBehind(t *testing.T) (*between, *apiBundle) {
	t.Helper()
	between := newBetween(t, redistest.Server(t).Addr())
	client, err := ledger.Connect("redis://"+between.listener.Addr().String(), ledger.ConnectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return between, startAPI(t, client, func(a *API) { a.Limits.Timeout = 700 * time.Millisecond })
}

func TestARedisThatRestartsAndLoadsIsSaidByEveryRouteAndComesBack(t *testing.T) {
	t.Parallel()
	between, b := startBehind(t)
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	b.submit(`{"kind":"payout","key":"o-2","body":{}}`)
	b.dead("d-1", false)
	between.loading.Store(true)
	for _, c := range append(changes, routeCases...) {
		switch {
		case strings.Contains(c.path, "openapi"), strings.HasSuffix(c.path, "/outcome"), c.path == "/v1/kinds": // known without Redis, kinds for a while
			continue
		}
		p := b.ask(c.ask(all)).is(t, c.pattern, redisAway)
		if c.gives != eventType && !strings.Contains(p.Detail, "loading its data") {
			t.Errorf("%s: %s", c.pattern, p.Detail)
		}
		if strings.HasPrefix(c.pattern, "GET ") && strings.Contains(p.Detail, "may have been made") {
			t.Errorf("%s speaks of what may have been changed: %s", c.pattern, p.Detail)
		}
	}
	if g := b.ask(ask{method: "GET", path: "/livez"}); g.status != http.StatusOK {
		t.Errorf("/livez meanwhile: %d", g.status)
	}
	between.loading.Store(false)
	b.until("it is served again", func() bool {
		return b.post("/v1/operations", `{"kind":"charge","key":"o-1","body":{}}`).status == http.StatusOK
	})
	for name, want := range map[string]jobs.State{"charge/o-1": jobs.Waiting, "payout/o-2": jobs.Waiting, "refund/d-1": jobs.Dead} {
		if v := into[wire.OperationView](t, b.get("/v1/operations/"+name)); v.State != want {
			t.Errorf("%s is %s", name, v.State)
		}
	}
	if n := len(into[Page](t, b.get("/v1/operations")).Items); n != 3 {
		t.Errorf("%d operations, want 3: something was taken meanwhile", n)
	}
}

// An import during which Redis goes away says how far it came, and the same again goes on.
func TestAnImportDuringWhichRedisGoesAwayIsRepeatedWhole(t *testing.T) {
	t.Parallel()
	between, b := startBehind(t)
	body, feed := io.Pipe()
	defer feed.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/operations:import", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+submitter)
	r.Header.Set("Content-Type", ndjsonType)
	r.Close = true // the server closes the connection behind its answer: the next request must not meet that
	var feeding sync.WaitGroup
	taken := make(chan struct{}) // closed when the first line was answered
	feeding.Go(func() {          // ends with its writes: what reads them is closed in the end
		_, _ = io.WriteString(feed, `{"kind":"charge","key":"i-1","body":{}}`+"\n")
		<-taken
		between.loading.Store(true)
		_, _ = io.WriteString(feed, `{"kind":"charge","key":"i-2","body":{}}`+"\n")
		feed.Close()
	})
	resp, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	first, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	close(taken)
	rest, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	feeding.Wait()
	a := answersOf(t, first+string(rest))
	if len(a.lines) != 1 || a.lines[0].Answer != jobs.Accepted || a.last.Problem == nil || a.last.Problem.Type != problemURN+redisAway.name {
		t.Errorf("%s%s", first, rest)
	}
	between.loading.Store(false)
	var again answers
	b.until("the import is taken whole", func() bool {
		g := b.importText(`{"kind":"charge","key":"i-1","body":{}}` + "\n" + `{"kind":"charge","key":"i-2","body":{}}`)
		if g.status == http.StatusOK {
			again = answersOf(t, g.body)
		}
		return len(again.lines) == 2
	})
	if again.lines[0].Answer != jobs.Duplicate || again.lines[1].Answer != jobs.Accepted {
		t.Errorf("again: %+v", again.lines)
	}
}
