package httpapi

import (
	"fmt"
	"testing"

	"redrive/internal/redistest"
)

// As many matches as one request takes were told as if there were more.
func TestASetThatIsExactlyFullHasNoMore(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	b := startAPI(t, client, func(a *API) { a.mostChosen = 3 })
	for i := range 3 {
		b.submit(fmt.Sprintf(`{"kind":"charge","key":"o-%d","body":{}}`, i))
	}
	all := func(limit int, more bool) {
		t.Helper()
		body := fmt.Sprintf(`{"note":"x","filter":{"limit":%d},"dry_run":true}`, limit)
		if d := into[BulkDone](t, b.post("/v1/operations:cancel", body)); d.More != more {
			t.Errorf("limit %d: %d chosen, more %v", limit, d.Chosen, d.More)
		}
	}
	all(0, false)
	all(2, false) // no more was asked for
	b.submit(`{"kind":"charge","key":"o-4","body":{}}`)
	all(0, true)
	all(100, true)
	all(2, false)
}
