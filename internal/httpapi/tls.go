package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"redrive/internal/config"
)

// certificateLook is how often the files of a certificate are looked at, at most: each
// look is at a handshake.
const certificateLook = time.Second

// LoadTLS returns how to serve under a certificate, which is read again when its files
// change; one that cannot be read then is told to log once, and the one before goes on.
// nil where c names no files. An error when the files cannot be read now.
func LoadTLS(c config.TLS, log *slog.Logger) (*tls.Config, error) {
	return loadTLS(c, log, certificateLook)
}

func loadTLS(c config.TLS, log *slog.Logger, every time.Duration) (*tls.Config, error) {
	if c == (config.TLS{}) {
		return nil, nil
	}
	k := &certificate{files: c, log: log, every: every}
	stamp, err := k.look()
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	if err := k.load(stamp); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: k.get}, nil
}

// Leaf returns the certificate of the server that the files of c hold, as they are now.
// nil where c names none. An error when they cannot be read, or do not belong together.
func Leaf(c config.TLS) (*x509.Certificate, error) {
	if c == (config.TLS{}) {
		return nil, nil
	}
	pair, err := readPair(c)
	if err != nil {
		return nil, err
	}
	return pair.Leaf, nil
}

func readPair(c config.TLS) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls: certificate %s with key %s: %w", c.Cert, c.Key, err)
	}
	return pair, nil
}

// certificate is the one in force.
type certificate struct {
	files config.TLS
	log   *slog.Logger
	every time.Duration // that the files are looked at, at most

	mu       sync.Mutex // guards the rest
	now      *tls.Certificate
	read     stamp // of the files when they were read last
	lookedAt time.Time
}

// stamp tells whether files changed.
type stamp struct {
	certAt, keyAt     time.Time
	certSize, keySize int64
}

func (k *certificate) look() (stamp, error) {
	cert, err := os.Stat(k.files.Cert)
	if err != nil {
		return stamp{}, err // *PathError names the file
	}
	key, err := os.Stat(k.files.Key)
	if err != nil {
		return stamp{}, err
	}
	return stamp{cert.ModTime(), key.ModTime(), cert.Size(), key.Size()}, nil
}

// load needs mu, or to be alone.
func (k *certificate) load(s stamp) error {
	k.read, k.lookedAt = s, time.Now()
	pair, err := readPair(k.files)
	if err != nil {
		return err
	}
	k.now = &pair
	return nil
}

func (k *certificate) get(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.lookedAt) < k.every {
		return k.now, nil
	}
	k.lookedAt = time.Now()
	s, err := k.look()
	if err != nil {
		s = stamp{} // told once, until the files are there again
	}
	if s == k.read {
		return k.now, nil
	}
	if err == nil {
		err = k.load(s)
	}
	k.read = s
	if err != nil {
		k.log.LogAttrs(h.Context(), slog.LevelError, "the changed certificate cannot be used: the one before goes on", slog.Any("err", err))
	} else {
		k.log.LogAttrs(h.Context(), slog.LevelInfo, "serving under a changed certificate", slog.String("cert", k.files.Cert))
	}
	return k.now, nil
}
