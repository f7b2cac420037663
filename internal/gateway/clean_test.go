package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"redrive/internal/jobs"
)

func failing(body []byte) func(*peer) {
	return afterRequest(func(p *peer) {
		p.say(fmt.Sprintf("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n", len(body)))
		_, _ = p.Write(body)
	})
}

// T83: bytes that are no text change neither the class nor the wait, and what is
// kept is text.
func TestT83AnErrorBodyThatIsNoText(t *testing.T) {
	t.Parallel()
	for name, body := range map[string][]byte{
		"bad bytes":      []byte("a\xff\xfeb"),
		"NUL":            []byte("a\x00b"),
		"lone surrogate": []byte("a\xed\xa0\x80b"),
		"1 MB of binary": bytes.Repeat([]byte{0, 0xff, 0xfe, 0x80, 'a'}, MaxAnswerBytes/5),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, nil, failing(body))
			a := New(Options{}).Send(t.Context(), testCall(s.url()))
			c := checkAnswer(t, a)
			if c.Class != jobs.Class503 || c.Hint.Wait.Seconds() != 7 {
				t.Errorf("class %s, hint %v, want 503 and 7s", c.Class, c.Hint.Wait)
			}
			if bytes.ContainsRune(a.Kept, 0) || !bytes.ContainsRune(a.Kept, 'a') {
				t.Errorf("kept %.40q", a.Kept)
			}
		})
	}
}

// T84: however long an answer is, what is kept of it is not.
func TestT84AHugeErrorIsCut(t *testing.T) {
	t.Parallel()
	s := startFault(t, nil, failing(bytes.Repeat([]byte("é"), 4<<20)))
	a := New(Options{}).Send(t.Context(), testCall(s.url()))
	checkAnswer(t, a)
	if len(a.Sample.Body) != MaxAnswerBytes || !a.Sample.BodyCut || !a.KeptCut {
		t.Errorf("read %d bytes, cut %v, kept cut %v", len(a.Sample.Body), a.Sample.BodyCut, a.KeptCut)
	}
	if len(a.Kept) > MaxKeptBytes || len(a.Kept) < MaxKeptBytes-utf8.UTFMax || len(a.Err) > MaxErrBytes {
		t.Errorf("kept %d bytes, error of %d", len(a.Kept), len(a.Err))
	}
}

func TestNoCredentialIsKept(t *testing.T) {
	t.Parallel()
	const token = `sk_live/51"H8=x`
	header := http.Header{"Authorization": {"Bearer " + token}, "X-Api-Key": {"k3y-0123456789"}, "X-Short": {"on"}, "Accept": {"application/json"}}
	for name, answer := range map[string]string{
		"echoed as it is": "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nbad token " + token + " and k3y-0123456789, on application/json",
		"echoed as JSON":  "HTTP/1.1 400 Bad Request\r\n\r\n" + `{"h":"Bearer sk_live/51\"H8=x","e":"sk_live\/51","k":"k3y-0123456789","on":"application/json"}`,
		"echoed in a URL": "HTTP/1.1 400 Bad Request\r\n\r\nsk_live%2F51%22H8%3Dx k3y-0123456789 on application/json",
		"as garbage":      "k3y-0123456789 " + token + "\r\n\r\n",
		"as bad header":   "HTTP/1.1 200 OK\r\nk3y-0123456789 " + token + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, nil, afterRequest(func(p *peer) { p.say(answer) }))
			call := testCall(s.url())
			call.Header = header
			a := New(Options{}).Send(t.Context(), call)
			checkAnswer(t, a)
			for _, secret := range []string{"H8", "k3y"} {
				if strings.Contains(string(a.Kept)+a.Err, secret) {
					t.Errorf("%q is in %q or %q", secret, a.Kept, a.Err)
				}
			}
			if a.Sample.Status == 400 && (!bytes.Contains(a.Kept, []byte("on")) || !bytes.Contains(a.Kept, []byte("application/json")) || !bytes.Contains(a.Kept, []byte(hidden))) {
				t.Errorf("kept %q", a.Kept)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\xff\x00b", "secret", 8)
	f.Add(strings.Repeat("é", 400), "é", MaxErrBytes)
	f.Add("xsecsecretretx", "secret", 20)
	f.Fuzz(func(t *testing.T, text, secret string, limit int) {
		limit = max(limit, len(cutMark)) % 4096
		if limit < len(cutMark) {
			return
		}
		line := cleanLine(cleanText(text), limit)
		if len(line) > limit || !utf8.ValidString(line) || strings.ContainsAny(line, "\x00\n\r") {
			t.Errorf("line of %d bytes, limit %d: %q", len(line), limit, line)
		}
		kept, cut := keep([]byte(text), secretsOf(http.Header{"X-Key": {secret}}))
		if len(kept) > MaxKeptBytes || !utf8.Valid(kept) || bytes.ContainsRune(kept, 0) || cut && len(text) <= MaxKeptBytes/4 {
			t.Errorf("kept %d bytes of %d, cut %v", len(kept), len(text), cut)
		}
	})
}
