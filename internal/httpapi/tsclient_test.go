package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
)

// tsclient is a folder with a driver in TypeScript, the packages that it needs, and the
// types that another generator than the server's makes of the committed document.
type tsclient struct {
	t   *testing.T
	dir string
}

func newTSClient(t *testing.T) *tsclient {
	t.Helper()
	c := &tsclient{t, t.TempDir()}
	for _, from := range []string{"tsclient/package.json", "tsclient/package-lock.json", "tsclient/tsconfig.json", "tsclient/driver.ts", "../../docs/openapi.yaml"} {
		text, err := os.ReadFile(filepath.FromSlash(from))
		if err != nil {
			t.Fatal(err)
		}
		c.write(filepath.Base(from), text)
	}
	c.must("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	c.must("npm", "run", "generate")
	return c
}

func (c *tsclient) write(name string, text []byte) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), text, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// run starts a program in the folder and waits for it. env comes beside the test's own.
func (c *tsclient) run(env []string, name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 4*time.Minute) // npm may have much to fetch
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, append(os.Environ(), env...), &out, &errs
	cmd.WaitDelay = time.Second // a child of npm may hold the pipes
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (c *tsclient) must(name string, args ...string) {
	c.t.Helper()
	if out, errs, err := c.run(nil, name, args...); err != nil {
		c.t.Fatalf("%s %s: %v (scripts/test-tools installs node and npm)\n%s%s", name, strings.Join(args, " "), err, out, errs)
	}
}

// A client of another generator's making can be compiled strictly, and does with the
// served API what the ledger then knows of.
func TestAClientGeneratedFromTheDocumentDrivesTheAPI(t *testing.T) {
	t.Parallel()
	c := newTSClient(t)
	c.must("npm", "run", "check")
	b := startAPI(t, redistest.Server(t).Client(t), func(a *API) {
		a.Kinds[2].MaxBacklog = 1 // of refund: what is one too many is seen soon
	})
	out, errs, err := c.run([]string{"API_URL=" + b.url, "TOKEN_SUBMIT=" + submitter, "TOKEN_READ=" + reader, "TOKEN_ALL=" + all}, "node", filepath.Join("out", "driver.js"))
	if err != nil {
		t.Fatalf("the driver: %v\n%s%s", err, out, errs)
	}
	did := into[struct {
		Submitted, Cancelled, Dead, Told int
		Met                              map[string]string
	}](t, got{body: out})
	page, err := b.ledger.List(t.Context(), ledger.Filter{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	states := map[jobs.State]int{}
	for _, o := range page.Items {
		states[o.State]++
	}
	want := map[jobs.State]int{jobs.Waiting: did.Submitted - did.Cancelled - did.Dead, jobs.Cancelled: did.Cancelled, jobs.Dead: did.Dead}
	if did.Submitted < 20 || len(page.Items) != did.Submitted || !maps.Equal(states, want) {
		t.Errorf("the driver did %s and the ledger knows %v", out, states)
	}
	entries, err := b.ledger.Audit(t.Context(), "payrail", zeroTime, 100)
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action+" by "+e.By)
	}
	if got := strings.Join(actions, ", "); got != "cancel by ann, pause by ann, resume by ann, override by ann, clear by ann" {
		t.Errorf("the audit tells of %s", got)
	}
	if problems := map[string]string{"401": "unauthorized", "403": "forbidden", "404": "not-found", "409": "conflict", "422": "invalid", "429": "backlog-full"}; !maps.Equal(did.Met, problems) {
		t.Errorf("problems met: %v, want %v", did.Met, problems)
	}

	// The check is one: against a document in which a field has another name, the same
	// driver does not compile.
	document, err := os.ReadFile(filepath.Join(c.dir, "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.write("openapi.yaml", bytes.ReplaceAll(document, []byte("next_cursor"), []byte("next_page")))
	c.must("npm", "run", "generate")
	if out, _, err := c.run(nil, "npm", "run", "check"); err == nil || !strings.Contains(out, "next_cursor") {
		t.Errorf("a driver that reads a field which is not there compiles: %v\n%s", err, out)
	}
}

// Nothing in the list of packages says from where they are fetched: that is the choice of
// whoever runs the test.
func TestTheLockOfTheGeneratedClientNamesNoSource(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("tsclient", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]map[string]json.RawMessage `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	if len(lock.Packages) < 4 {
		t.Errorf("%d packages", len(lock.Packages))
	}
	for name, p := range lock.Packages {
		if _, said := p["resolved"]; said {
			t.Errorf("%s says where it is fetched (npm install --omit-lockfile-registry-resolved)", name)
		}
		if name != "" && p["integrity"] == nil {
			t.Errorf("%s has no digest", name)
		}
	}
}
