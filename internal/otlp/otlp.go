// Package otlp sends the spans of package tracing to a collector, if the environment asks
// for it by the variables that OpenTelemetry has fixed: see [Start].
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"redrive/internal/tracing"
)

const (
	// flushWithin bounds how long a stop waits for the last spans: a collector that is
	// away must not keep a worker from ending.
	flushWithin = 3 * time.Second
	// complainEvery is the least time between two lines about spans that were lost.
	complainEvery = time.Minute
)

// Options say who is traced.
type Options struct {
	Program string // service.name unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES names another
	Version string // service.version

	// GetenvFunc reads the environment for whether there is tracing at all. The exporter
	// reads its own variables (endpoint, headers, certificate, sampler, batches) from the
	// process's environment.
	GetenvFunc func(string) string
	Log        *slog.Logger // told of spans that were lost; nil: nobody
}

// Start begins tracing if the environment asks for it: OTEL_TRACES_EXPORTER=otlp, or an
// endpoint in OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT.
// OTEL_SDK_DISABLED=true and OTEL_TRACES_EXPORTER=none turn it off. Spans are sent as
// OTLP over HTTP (protobuf); another exporter or protocol is an error, not ignored.
//
// It returns the tracer (nil: off) and a function, never nil, that sends what is left,
// within some seconds, and ends what Start began. Start sets the process's handler for
// errors of OpenTelemetry, so call it once in a program.
func Start(ctx context.Context, o Options) (*tracing.Tracer, func(), error) {
	on, err := wanted(o.GetenvFunc)
	if err != nil || !on {
		return nil, func() {}, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, func() {}, fmt.Errorf("tracing: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", o.Program), attribute.String("service.version", o.Version)),
		resource.WithFromEnv()) // last: it wins
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, func() {}, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if o.Log != nil {
		otel.SetErrorHandler(&complaints{log: o.Log})
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushWithin)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			otel.Handle(err)
		}
	}
	return tracing.New(provider), stop, nil
}

// wanted reads whether there is tracing.
func wanted(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	anywhere := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") + getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); {
	case exporter == "none", exporter == "" && anywhere == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER %q: want otlp or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		protocol := getenv(name)
		if protocol == "" {
			continue
		}
		if protocol != "http/protobuf" {
			return false, fmt.Errorf("%s %q: want http/protobuf (collectors listen for it on port 4318)", name, protocol)
		}
		break // the more special one wins
	}
	return true, errors.Join(endpoint(getenv), sampler(getenv))
}

// endpoint refuses what the exporter would make another address of.
func endpoint(getenv func(string) string) error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		given := getenv(name)
		if given == "" {
			continue
		}
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return fmt.Errorf("%s %q: want a URL such as http://127.0.0.1:4318", name, given)
		}
	}
	return nil
}

// sampler refuses what would be left out with a word that is not about it.
func sampler(getenv func(string) string) error {
	known := []string{"", "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}
	name, share := strings.ToLower(strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER"))), strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER_ARG"))
	if !slices.Contains(known, name) {
		return fmt.Errorf("OTEL_TRACES_SAMPLER %q: want one of %s", name, strings.Join(known[1:], ", "))
	}
	if !strings.HasSuffix(name, "traceidratio") || share == "" {
		return nil
	}
	if v, err := strconv.ParseFloat(share, 64); err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG %q: want a share from 0 to 1", share)
	}
	return nil
}

// complaints says that spans were lost, at most once a minute.
type complaints struct {
	log  *slog.Logger
	mu   sync.Mutex // guards last
	last time.Time
}

// Handle is called by OpenTelemetry from any goroutine.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() && time.Since(c.last) < complainEvery {
		return
	}
	c.last = time.Now()
	c.log.LogAttrs(context.Background(), slog.LevelWarn, "traces not delivered: operations are not affected", slog.Any("err", err))
}
