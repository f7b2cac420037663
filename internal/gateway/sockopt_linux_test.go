package gateway

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"redrive/internal/policy"
)

// The kernel must give up unacknowledged bytes when the attempt's time is over.
func TestTheKernelGivesUpWhenTheAttemptEnds(t *testing.T) {
	t.Parallel()
	s := startFault(t, nil, func(p *peer) { _ = p.untilGone() })
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	x := New(Options{}).newExchange(ctx, testCall(s.url()))
	defer x.end(false)
	nc, err := x.dial(ctx, s.ln.Addr().String(), false)
	if err != nil {
		t.Fatal(err)
	}
	raw := nc.(*conn).tcp.Conn.(syscall.Conn)
	if got := userTimeout(t, raw); got != 0 {
		t.Errorf("TCP_USER_TIMEOUT is %v before anything is sent, want the system's own", got)
	}
	time.Sleep(20 * time.Millisecond)
	if _, err := nc.Write([]byte("POST")); err != nil {
		t.Fatal(err)
	}
	if got := userTimeout(t, raw); got <= 0 || got > 1480*time.Millisecond {
		t.Errorf("TCP_USER_TIMEOUT is %v, want what is left of 1.5s", got)
	}
}

func userTimeout(t *testing.T, c syscall.Conn) time.Duration {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	var getErr error
	if err := raw.Control(func(fd uintptr) {
		ms, getErr = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); err != nil || getErr != nil {
		t.Fatal(err, getErr)
	}
	return time.Duration(ms) * time.Millisecond
}

// A dial that nobody answers ends with the send window, not with the attempt's
// timeout, and is the other side's fault.
func TestADialThatNobodyAnswersEndsWithTheSendWindow(t *testing.T) {
	t.Parallel()
	addr := fullBacklog(t)
	call := testCall("http://" + addr)
	call.SendBy, call.Timeout = 300*time.Millisecond, 10*time.Second
	a := New(Options{}).Send(t.Context(), call)
	checkAnswer(t, a)
	if a.Sample.Phase != policy.PhaseConnect || a.Duration > 5*time.Second {
		t.Errorf("phase %s after %v (%s), want connect after 300ms", a.Sample.Phase, a.Duration, a.Err)
	}
}

// fullBacklog returns an address that accepts no further connection: the kernel
// drops what comes beyond the backlog of a socket that nobody accepts from.
func fullBacklog(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: bound.(*unix.SockaddrInet4).Port}).String()
	for range 4 {
		c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr // full
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the backlog of a socket without room takes four connections")
	return ""
}
