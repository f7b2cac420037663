package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// service is a program of another module that uses the client.
const service = `package main

import (
	"context"
	"fmt"

	"redrive"
)

func main() {
	_, err := redrive.New(context.Background(), redrive.Options{RedisURL: "http://127.0.0.1"})
	fmt.Println(err)
}
`

// The module has no address to fetch it from: docs/client.md says how another module
// takes it from a checkout.
func TestAnotherModuleTakesTheClientFromACheckout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": service, "go.mod": "module shop\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("mod", "edit", "-require=redrive@v0.0.0", "-replace=redrive="+load(t).root)
	run("build", "-mod=mod", "-o", "shop", ".")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "shop"))
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "redrive: redis url: invalid URL scheme: http\n" {
		t.Errorf("the service says %q (%v), want what is wrong with the URL", out, err)
	}
}
