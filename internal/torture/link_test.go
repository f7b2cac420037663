package torture

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// link is the way of one process to Redis, through a proxy of its own: a cut takes
// one worker away and leaves the others.
type link struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
}

func newLink(t *testing.T, name, upstream string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	l := &link{t: t, proxy: toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)}
	l.up()
	t.Cleanup(l.proxy.Stop)
	return l
}

func (l *link) url() string { return "redis://" + l.proxy.Listen + "/0" }

// cut closes every connection and lets none come until up.
func (l *link) cut() { l.proxy.Stop() }

// up lets connections through again; nothing happens when it does already.
func (l *link) up() {
	if err := l.proxy.Start(); err != nil && err != toxiproxy.ErrProxyAlreadyStarted {
		l.t.Errorf("proxy %s: %v", l.proxy.Name, err)
	}
}

// The toxics of a link, by name.
const (
	toxicSlow = `{"name":"slow","type":"latency","stream":"downstream","attributes":{"latency":400,"jitter":300}}`
	toxicMute = `{"name":"mute","type":"timeout","stream":"downstream","attributes":{"timeout":150}}`
)

func (l *link) poison(toxic string) {
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil && !strings.Contains(err.Error(), toxiproxy.ErrToxicAlreadyExists.Error()) {
		l.t.Errorf("proxy %s: add %s: %v", l.proxy.Name, toxic, err)
	}
}

// cure takes a toxic away; nothing happens when it is not there.
func (l *link) cure(name string) {
	if l.proxy.Toxics.GetToxic(name) == nil {
		return
	}
	if err := l.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
		l.t.Errorf("proxy %s: remove %s: %v", l.proxy.Name, name, err)
	}
}

func linkName(i int) string { return fmt.Sprintf("worker-%d", i) }
