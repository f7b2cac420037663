package app

import (
	"crypto/x509"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redrive/internal/redistest"
	"redrive/internal/tlstest"
)

func TestCheckReadsTheCertificateThatRunWouldServeUnder(t *testing.T) {
	t.Parallel()
	srv := redistest.Server(t)
	now := time.Now()
	good, bare := tlstest.Loopback(1), tlstest.Loopback(1)
	good.NotAfter, good.DNSNames = now.Add(90*24*time.Hour), []string{"redrive.example"}
	bare.NotAfter, bare.IPAddresses = good.NotAfter, nil
	ended, early := tlstest.Loopback(1), tlstest.Loopback(1)
	ended.NotAfter = now.Add(-time.Minute)
	early.NotBefore = now.Add(time.Minute)
	for name, test := range map[string]struct {
		leaf x509.Certificate
		want string
		code int
	}{
		"good":           {good, "ok       tls: CERT for redrive.example, 127.0.0.1, until ", exitDone},
		"soon over":      {tlstest.Loopback(1), "warning  tls: CERT ends ", exitDone},
		"for no host":    {bare, "warning  tls: CERT names no host: clients will refuse it", exitDone},
		"over":           {ended, "error    tls: CERT ended ", exitError},
		"not begun":      {early, "error    tls: CERT begins ", exitError},
		"of another key": {good, "error    tls: certificate CERT with key KEY: ", exitError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
			tlstest.Write(t, cert, key, test.leaf)
			if name == "of another key" {
				tlstest.Write(t, filepath.Join(dir, "other.crt"), key, test.leaf)
			}
			b := setup(t)
			code := b.run(t, "check", "--config", file(t, working+"tls: {cert: "+cert+", key: "+key+"}\n", srv.URL(), "http://127.0.0.1:1"))
			if want := strings.NewReplacer("CERT", cert, "KEY", key).Replace(test.want); code != test.code || !strings.Contains(b.stdout.String(), want) {
				t.Errorf("exit %d, want %d; want %q in\n%s", code, test.code, want, b.stdout)
			}
		})
	}
	gone := filepath.Join(t.TempDir(), "gone.crt")
	b := setup(t)
	if code := b.run(t, "check", "--offline", "--config", file(t, working+"tls: {cert: "+gone+", key: "+gone+"}\n", srv.URL(), "http://127.0.0.1:1")); code != exitDone {
		t.Errorf("--offline looks at the file alone: exit %d\n%s", code, b.stdout)
	}
}
