package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"slices"
	"testing"
	"time"

	"redrive/internal/jobs"
)

// authority is a certificate authority of one test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	ca := &authority{t: t, pool: x509.NewCertPool()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca.key = newKey(t)
	ca.cert = sign(t, template, template, ca.key, ca.key)
	ca.pool.AddCert(ca.cert)
	return ca
}

// issue returns a certificate for 127.0.0.1 after the change was made to it.
func (ca *authority) issue(change func(*x509.Certificate)) tls.Certificate {
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "gateway"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if change != nil {
		change(template)
	}
	key := newKey(ca.t)
	cert := sign(ca.t, template, ca.cert, key, ca.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestEveryPhaseOfTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	good := &tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}}
	wantsOurs := func(version uint16) *tls.Config {
		return &tls.Config{Certificates: good.Certificates, MinVersion: version, MaxVersion: version,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool}
	}
	answers := afterRequest(func(p *peer) { p.say(okAnswer) })
	for name, tc := range map[string]struct {
		server  *tls.Config
		client  *tls.Config
		row     string
		outcome jobs.Outcome
	}{
		"good":                        {good, &tls.Config{}, "H200", jobs.OutcomeSucceeded},
		"an authority we do not know": {&tls.Config{Certificates: []tls.Certificate{stranger.issue(nil)}}, &tls.Config{}, "N07", jobs.OutcomeNotSent},
		"another name": {&tls.Config{Certificates: []tls.Certificate{ca.issue(func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames = nil, []string{"other.example"}
		})}}, &tls.Config{}, "N07", jobs.OutcomeNotSent},
		"expired": {&tls.Config{Certificates: []tls.Certificate{ca.issue(func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Minute)
		})}}, &tls.Config{}, "N07", jobs.OutcomeNotSent},
		"no version in common": {&tls.Config{Certificates: good.Certificates, MaxVersion: tls.VersionTLS12}, &tls.Config{MinVersion: tls.VersionTLS13}, "N06", jobs.OutcomeNotSent},
		// With 1.2 the alert is the same as for any handshake that fails.
		"wants our certificate, 1.2":    {wantsOurs(tls.VersionTLS12), &tls.Config{}, "N06", jobs.OutcomeNotSent},
		"wants our certificate, 1.3":    {wantsOurs(tls.VersionTLS13), &tls.Config{}, "N08", jobs.OutcomeRefused},
		"does not know ours, 1.3":       {wantsOurs(tls.VersionTLS13), &tls.Config{GetClientCertificate: present(stranger.issue(nil))}, "N08", jobs.OutcomeRefused},
		"does not know ours, 1.2":       {wantsOurs(tls.VersionTLS12), &tls.Config{GetClientCertificate: present(stranger.issue(nil))}, "N08", jobs.OutcomeRefused},
		"wants our certificate, has it": {wantsOurs(tls.VersionTLS13), &tls.Config{GetClientCertificate: present(ca.issue(nil))}, "H200", jobs.OutcomeSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, tc.server, answers)
			tc.client.RootCAs = ca.pool
			a := New(Options{TLS: tc.client}).Send(t.Context(), testCall(s.url()))
			c := checkAnswer(t, a)
			if c.Row != tc.row || c.Outcome != tc.outcome {
				t.Errorf("row %s, outcome %s (%s), want %s, %s", c.Row, c.Outcome, a.Err, tc.row, tc.outcome)
			}
			want := 0
			if tc.row == "H200" {
				want = 1
			}
			s.wantRequests(want)
		})
	}
}

func present(cert tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
}

func TestWhatIsNotTLSOnAnHTTPSPort(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		handler func(*peer)
		rows    []string
	}{
		"plain HTTP":         {func(p *peer) { p.say("HTTP/1.1 400 Bad Request\r\n\r\n") }, []string{"N07"}},
		"anything else":      {func(p *peer) { p.say("220 mail.example ready\r\n") }, []string{"N06"}},
		"closed at once":     {func(*peer) {}, []string{"N06"}},
		"reset at once":      {func(p *peer) { time.Sleep(10 * time.Millisecond); p.reset() }, []string{"N05", "N06"}},
		"says nothing":       {func(p *peer) { _ = p.untilGone() }, []string{"N06"}},
		"half a ServerHello": {func(p *peer) { p.say("\x16\x03\x03\x00\x7a\x02"); _ = p.untilGone() }, []string{"N06"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFault(t, nil, tc.handler)
			call := testCall("https://" + s.ln.Addr().String())
			if name == "says nothing" || name == "half a ServerHello" {
				call.Timeout = time.Second
			}
			a := New(Options{}).Send(t.Context(), call)
			c := checkAnswer(t, a)
			if !slices.Contains(tc.rows, c.Row) || c.Outcome != jobs.OutcomeNotSent || a.WireBytes != 0 {
				t.Errorf("row %s, %d bytes (%s), want %v and not sent", c.Row, a.WireBytes, a.Err, tc.rows)
			}
			if s.seen(wire) != 0 {
				t.Error("the request went out in the clear")
			}
		})
	}
}
