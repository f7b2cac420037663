package ledger

import (
	"bufio"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redrive/internal/luascript"
)

// A script whose reply is lost may have run. The client must not send it again by
// itself: begin would be asked under a run id that its caller has given up, and only the
// caller knows whether to ask again.
func TestAClientSendsNoCommandTwice(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	var scripts atomic.Int64
	served := make(chan struct{})
	go func() { // ends when the listener is closed; the cleanup waits
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			// It answers nothing but errors, and hangs up on a script.
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				switch line := strings.ToLower(lines.Text()); {
				case line == "evalsha" || line == "eval":
					scripts.Add(1)
					conn.Close()
				case line == "hello" || line == "client" || line == "select" || line == "auth":
					_, _ = conn.Write([]byte("-ERR unknown command\r\n"))
				}
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-served
	})
	client, err := Connect("redis://"+listener.Addr().String()+"/0", ConnectOptions{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 5 {
		if _, err := beginScript.Run(t.Context(), client, "x:{d}", new(luascript.Args)); err == nil {
			t.Fatal("a reply came from a server that never answers")
		}
	}
	if n := scripts.Load(); n != 5 {
		t.Errorf("%d scripts for 5 calls", n)
	}
}
