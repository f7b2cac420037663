package httpapi

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/jobs"
	"redrive/internal/redistest"
)

// A stream that was asked to go on behind an id of the future was silent for ever.
func TestAStreamThatWentBackIsToldAgain(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, newClient func(testing.TB) redis.UniversalClient) {
		b := startAPI(t, newClient(t), nil)
		b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
		b.submit(`{"kind":"refund","key":"o-2","body":{}}`)
		const future = "99999999999999-0"
		for _, id := range []string{"payrail=" + future, "bank=" + future + ",payrail=" + future, "bank=0-0,payrail=18446744073709551615-18446744073709551615"} {
			l := b.listen(t, "?dependency=payrail", id)
			if e := l.next(); e.change.Operation != "charge/o-1" || strings.Contains(e.id, "payrail="+future) {
				t.Errorf("after %s: %+v", id, e)
			}
			name := "charge/after-" + strings.ReplaceAll(id, "=", "-")[:20]
			b.submit(`{"kind":"charge","key":"` + strings.TrimPrefix(name, "charge/") + `","body":{}}`)
			for e := l.next(); e.change.Operation != name; e = l.next() { // those of before may come again
				if !strings.HasPrefix(e.change.Operation, "charge/") {
					t.Fatalf("%+v", e)
				}
			}
			l.stop()
		}
		r, err := http.NewRequestWithContext(t.Context(), "GET", b.url+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + reader}, "Last-Event-Id": {"payrail=" + future}}
		resp, err := b.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if strings.HasPrefix(in.Text(), "data:") {
				t.Error("nothing says that events come again")
				break
			}
			if strings.HasPrefix(in.Text(), ": ") && strings.Contains(in.Text(), "payrail") {
				break
			}
		}
	})
}

// A reader that was ahead of a Redis that came back with an older state told nobody
// anything until the ids had caught up.
func TestAReaderFollowsAStreamThatWentBack(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, nil)
	b.submit(`{"kind":"charge","key":"o-1","body":{}}`)
	changes, err := b.ledger.ChangesAfter([]jobs.Dependency{"payrail"}, "payrail=99999999999999-0")
	if err != nil {
		t.Fatal(err)
	}
	some, err := changes.Next(t.Context(), noWait)
	if err != nil || len(some) != 1 || some[0].Operation != "charge/o-1" {
		t.Errorf("%+v, %v", some, err)
	}
	if back, err := changes.Rewind(t.Context()); err != nil || len(back) != 0 {
		t.Errorf("where it stands well: %v, %v", back, err)
	}
}
