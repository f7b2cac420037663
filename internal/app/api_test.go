package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// ask sends a request to the API of a running program.
func ask(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestRunTakesOperationsOverHTTPAndRedeliversThem(t *testing.T) {
	t.Parallel()
	srv, g, b := redistest.Server(t), newGateway(t), setup(t)
	g.release()
	config := working + fmt.Sprintf("tokens: [{name: shop, roles: [submit, read], sha256: %x}]\n", sha256.Sum256([]byte("a-token")))
	r := b.start(t, "run", "--config", file(t, config, srv.URL(), g.URL))
	url := healthURL(t, b)
	const one = `{"kind":"charge","key":"order-1","body":{"amount":1}}`
	if status, body := ask(t, "POST", url+"/v1/operations", "a-token", one); status != http.StatusCreated {
		t.Fatalf("submit: %d %s", status, body)
	}
	awaitStates(t, ledger.New(srv.Client(t), "redrive"), jobs.Succeeded, 1)
	if status, body := ask(t, "GET", url+"/v1/operations/charge/order-1", "a-token", ""); status != 200 || !strings.Contains(body, `"state":"succeeded"`) {
		t.Errorf("get: %d %s", status, body)
	}
	if status, body := ask(t, "GET", url+"/v1/dependencies/payrail", "a-token", ""); status != 200 || !strings.Contains(body, `"parameters_known":true`) {
		t.Errorf("gate: %d %s", status, body)
	}
	for token, want := range map[string]int{"": 401, "another": 401} {
		if status, body := ask(t, "POST", url+"/v1/operations", token, one); status != want {
			t.Errorf("token %q: %d %s, want %d", token, status, body, want)
		}
	}
	if status, body := ask(t, "POST", url+"/v1/dependencies/payrail/pause", "a-token", `{"note":"x"}`); status != 403 {
		t.Errorf("pause without the role: %d %s", status, body)
	}
	if status, _ := get(t, url+"/metrics"); status != 200 {
		t.Errorf("/metrics needs a token: %d", status)
	}
	if strings.Contains(b.stderr.String(), "a-token") {
		t.Error("the token is logged")
	}
	if code := r.stop(t); code != exitDone {
		t.Errorf("exit %d:\n%s", code, b.stderr)
	}
}

func TestRunDoesNotStartUnderACertificateThatIsNotThere(t *testing.T) {
	t.Parallel()
	srv, b := redistest.Server(t), setup(t)
	config := working + "tls: {cert: /nonexistent/tls.crt, key: /nonexistent/tls.key}\n"
	if code := b.run(t, "run", "--config", file(t, config, srv.URL(), "http://127.0.0.1:1")); code != exitError {
		t.Errorf("exit %d, want %d", code, exitError)
	}
	if text := b.stderr.String(); !strings.Contains(text, "/nonexistent/tls.crt") {
		t.Errorf("it is not said why:\n%s", text)
	}
}
