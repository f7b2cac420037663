package otlp

import (
	"strings"
	"testing"
)

func TestTracingIsOffUnlessTheEnvironmentAsksForIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  map[string]string
		on   bool
		says string // of the error
	}{
		"nothing":             {nil, false, ""},
		"an endpoint":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, true, ""},
		"one for traces":      {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, true, ""},
		"the exporter alone":  {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		"none":                {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, false, ""},
		"disabled":            {map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"}, false, ""},
		"another exporter":    {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, `OTEL_TRACES_EXPORTER "zipkin"`},
		"grpc":                {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, `OTEL_EXPORTER_OTLP_PROTOCOL "grpc": want http/protobuf`},
		"no URL":              {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4318"}, true, `OTEL_EXPORTER_OTLP_ENDPOINT "127.0.0.1:4318": want a URL`},
		"no host":             {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://"}, true, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		"no sampler":          {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "nonsense"}, true, `OTEL_TRACES_SAMPLER "nonsense"`},
		"no share":            {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"}, true, `OTEL_TRACES_SAMPLER_ARG "7"`},
		"a share":             {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}, true, ""},
		"grpc for the others": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on, err := wanted(func(name string) string { return tc.env[name] })
			if on != tc.on || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("on %v, error %v; want %v, %q", on, err, tc.on, tc.says)
			}
		})
	}
}
