package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// What services link must be light, whatever it reaches through.
func TestTheClientBringsNothingOfAWorker(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", "redrive")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 50 {
		t.Fatalf("only %d packages: %v", len(packages), packages)
	}
	for _, name := range packages {
		for _, heavy := range []string{"github.com/hibiken/asynq", "github.com/prometheus", "github.com/spf13", "github.com/danielgtaylor/huma", "github.com/alicebob/miniredis",
			"gonum.org", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "google.golang.org/grpc", "redrive/internal/worker", "redrive/internal/httpapi",
			"redrive/internal/metrics", "redrive/internal/app", "redrive/internal/cli", "redrive/internal/sandbox", "net/http/httptest", "testing"} {
			if name == heavy || strings.HasPrefix(name, heavy+"/") {
				t.Errorf("the client links %s", name)
			}
		}
	}
}
