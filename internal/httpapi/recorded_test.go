package httpapi

import (
	"encoding/json"
	"net/http"
	"testing"
)

// discard keeps the headers of an answer.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// quoted is text as JSON.
func quoted(t testing.TB, text string) string {
	t.Helper()
	out, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
