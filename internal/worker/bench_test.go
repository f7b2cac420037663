package worker

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"redrive/internal/redistest"
)

// BenchmarkRedelivery reports rates and their ratio; ns/op says nothing here.
func BenchmarkRedelivery(b *testing.B) {
	srv := redistest.Server(b)
	for b.Loop() {
		rounds, err := Bench{Connect: func() (redis.UniversalClient, error) { return srv.Client(b), nil }, Rounds: 1}.Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(rounds[0].Redelivered, "redelivered/s")
		b.ReportMetric(rounds[0].BareAsynq, "asynq/s")
		b.ReportMetric(rounds[0].Ratio(), "ratio")
	}
}
