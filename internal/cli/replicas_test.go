package cli

import (
	"encoding/json"
	"testing"

	"redrive/internal/redistest"
)

// A shell without the configuration file waits as the workers published it.
func TestWhatIsNotOnTheReplicasYetEndsWithAgain(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicated(t, 1)
	b := setup(t, primary.Client(t))
	specs := testSpecs()
	for i := range specs {
		specs[i].WaitReplicas = 1
	}
	if err := b.ledger.PublishKinds(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	add := []string{"add", "charge/o1", "--body", `{"amount":1}`, "-o", "json"}
	answer := func(code int) string {
		t.Helper()
		var r struct{ Answer string }
		if err := json.Unmarshal([]byte(b.must(code, add...).stdout), &r); err != nil {
			t.Fatal(err)
		}
		return r.Answer
	}
	b.must(exitOK, "add", "charge/o0", "--body", `{"amount":1}`)

	replicas[0].Freeze()
	for range 2 {
		if got := answer(exitAgain); got != "unsure" {
			t.Errorf("add: %s, want unsure", got)
		}
	}
	says(t, b.must(exitAgain, "add", "charge/o1", "--body", `{"amount":1}`).stderr, "not yet on the replicas asked for: add the same again")
	imported := b.mustWith(exitAgain, `{"kind":"charge","key":"o2","body":{"amount":1}}`+"\n", "import", "-", "-o", "json")
	var sum struct{ Unsure, Accepted int }
	if err := json.Unmarshal([]byte(imported.stdout), &sum); err != nil || sum.Unsure != 1 || sum.Accepted != 0 {
		t.Errorf("import: %+v %v", sum, err)
	}
	cancelled := b.must(exitAgain, "cancel", "charge/o0", "--note", "why", "--yes", "-o", "json")
	says(t, cancelled.stderr, "1 of them not yet on the replicas asked for")
	var out struct {
		Done, Unsure int
		Items        []struct{ Unsure bool }
	}
	if err := json.Unmarshal([]byte(cancelled.stdout), &out); err != nil || out.Done != 1 || out.Unsure != 1 || !out.Items[0].Unsure {
		t.Errorf("cancel: %s", cancelled.stdout)
	}

	replicas[0].Thaw()
	if got := answer(exitOK); got != "duplicate" {
		t.Errorf("add with the replica back: %s", got)
	}
	b.must(exitOK, "cancel", "charge/o1", "--note", "why", "--yes")
}
