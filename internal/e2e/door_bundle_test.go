package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"redrive/internal/tlstest"
)

// doors are the HTTP APIs of the workers of one setting, with a token for each role, as
// somebody sees them who may not reach Redis.
type doors struct {
	setting
	cert   string            // that the workers show, and who asks trusts
	tokens map[string]string // the file that holds the token of each role
}

// newDoors adds TLS and tokens to a setting.
func newDoors(t *testing.T, s setting) doors {
	t.Helper()
	dir := t.TempDir()
	d := doors{setting: s, cert: filepath.Join(dir, "cert.pem"), tokens: map[string]string{}}
	key := filepath.Join(dir, "key.pem")
	tlstest.Write(t, d.cert, key, tlstest.Loopback(1))
	text := fmt.Sprintf("tls: {cert: '%s', key: '%s'}\ntokens:\n", d.cert, key)
	for _, role := range []string{"submit", "read", "operate"} {
		token := "the-token-of-" + role
		text += fmt.Sprintf("- {name: %s-only, roles: [%s], sha256: %x}\n", role, role, sha256.Sum256([]byte(token)))
		d.tokens[role] = filepath.Join(dir, role)
		if err := os.WriteFile(d.tokens[role], []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	appendFile(t, s.config, text)
	return d
}

var listening = regexp.MustCompile(`"msg":"serving health, metrics and the API".*"listen":"([^"]+)"`)

// open starts a worker, and returns where its API is.
func (d doors) open(t *testing.T) (*process, string) {
	t.Helper()
	p := d.worker(t)
	var at string
	await(t, 30*time.Second, "a worker to serve its API", func() bool {
		if found := listening.FindStringSubmatch(p.out.String()); found != nil {
			at = found[1]
		}
		return at != ""
	})
	await(t, 30*time.Second, "a worker to answer at "+at, func() bool {
		_, _, code := d.ask(t, "read", at, "stats", "-o", "json")
		return code == 0
	})
	return p, at
}

// asking is how enqueue is told of a door and of who comes to it.
func (d doors) asking(role, at string, args ...string) (env, all []string) {
	env = []string{"SSL_CERT_FILE=" + d.cert, "SSL_CERT_DIR=" + filepath.Dir(d.config)} // no authority but that one
	return env, append(args, "--server", "https://"+at, "--token-file", d.tokens[role])
}

// ask runs one command under the token of a role.
func (d doors) ask(t *testing.T, role, at string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	env, args := d.asking(role, at, args...)
	return enqueueWith(t, env, args...)
}

// road is a way to a door, on which one long request can be held up in its middle.
type road struct {
	l    net.Listener
	held chan struct{} // closed when a request is held up; it stays so until the door is gone
	ways sync.WaitGroup

	mu    sync.Mutex // guards the rest
	to    string
	after int // bytes of one connection that pass before it is held up; 0: it never is
}

func newRoad(t *testing.T, to string) *road {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &road{l: l, to: to, held: make(chan struct{})}
	r.ways.Go(r.serve) // ends with the listener; the cleanup waits
	t.Cleanup(func() { l.Close(); r.ways.Wait() })
	return r
}

func (r *road) at() string { return r.l.Addr().String() }

// lead says where it leads from now on, and after how many bytes it holds the next long
// request up.
func (r *road) lead(to string, after int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to, r.after = to, after
}

func (r *road) serve() {
	for {
		from, err := r.l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		to, after := r.to, r.after
		r.mu.Unlock()
		door, err := net.Dial("tcp", to)
		if err != nil {
			from.Close()
			continue
		}
		answered := make(chan struct{}) // closed when the door says nothing more
		r.ways.Go(func() {              // ends with the door, or with who asks
			defer close(answered)
			_, _ = io.Copy(from, door)
			from.Close()
			door.Close()
		})
		r.ways.Go(func() { // ends with who asks, or with the door
			if after > 0 {
				if n, _ := io.CopyN(door, from, int64(after)); n == int64(after) {
					close(r.held)
					<-answered
					return
				}
			}
			_, _ = io.Copy(door, from)
			door.Close()
		})
	}
}
