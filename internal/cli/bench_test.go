package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"redrive/internal/redistest"
)

// Import of 500-byte bodies into a redis-server on a unix socket.
func BenchmarkImport(b *testing.B) {
	srv := redistest.Server(b)
	w := setup(b, srv.Client(b))
	w.env["REDRIVE_REDIS_URL"] = "unix://" + srv.Socket()
	padding := strings.Repeat("x", 440)
	var file bytes.Buffer
	for i := range b.N {
		fmt.Fprintf(&file, `{"kind":"charge","key":"k%09d","body":{"amount":%d,"currency":"GBP","reference":"k%09d","pad":%q}}`+"\n", i, i, i, padding)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var stdout, stderr bytes.Buffer
	if code := Run(b.Context(), []string{"import", "-"}, &file, &stdout, &stderr, w.getenv); code != exitOK {
		b.Fatalf("exit %d: %s", code, stderr.String())
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "operations/s")
}
