package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"redrive/internal/jobs"
)

// Role is what a token may do. None contains another.
type Role string

// The roles.
const (
	RoleSubmit  Role = "submit"  // hand operations in, and tell of first attempts
	RoleRead    Role = "read"    // look at everything but payload
	RoleOperate Role = "operate" // change what is there, and see payload together with read
)

// Roles lists the roles.
var Roles = []Role{RoleSubmit, RoleRead, RoleOperate}

// Loopback is the name, in the audit, of whoever uses the HTTP API from this machine where
// there are no tokens. No token may bear it, nor [jobs.ByRedrive].
const Loopback = "loopback"

// Token is somebody who may use the HTTP API.
type Token struct {
	Name   string // as in the audit; matches the rule of names
	Roles  []Role // at least one
	SHA256 [sha256.Size]byte
}

// TLS names the files of the certificate that listen is served under. They are read
// again when they change. Both empty: no TLS, the default.
type TLS struct {
	Cert string // absolute path of a PEM file: the certificate, then its chain
	Key  string // absolute path of the PEM file of its key
}

// API bounds what users of the HTTP API can hold of the process.
type API struct {
	MaxRequests     int           // requests at once, but for event streams and imports; 1 to 10,000; default 64
	MaxImports      int           // imports at once; 1 to 100; default 4
	MaxEventStreams int           // event streams at once; 1 to 10,000; default 100
	MaxImportBytes  int64         // of one import's body; 1 KiB to 1 TiB; default 256 MiB
	Timeout         time.Duration // of one request, but for event streams and imports; 1 s to 5 min; default 15 s
}

func defaultAPI() API {
	return API{MaxRequests: 64, MaxImports: 4, MaxEventStreams: 100, MaxImportBytes: 256 << 20, Timeout: 15 * time.Second}
}

const maxTokenCount = 1000 // each request is compared with all of them

func (d *decoder) api(o *object, c *Config) {
	if v, ok := o.take("tokens"); ok {
		items, _ := v.list("[{name: ..., roles: [read], sha256: ...}]")
		for _, item := range items {
			c.Tokens = append(c.Tokens, d.token(item))
		}
	}
	if v, ok := o.take("tls"); ok {
		t := v.object("cert: /path, key: /path")
		t.text("cert", &c.TLS.Cert)
		t.text("key", &c.TLS.Key)
		t.done()
	}
	if v, ok := o.take("api"); ok {
		a := v.object("max_requests: 64, timeout: 15s")
		integer(a, "max_requests", &c.API.MaxRequests)
		integer(a, "max_imports", &c.API.MaxImports)
		integer(a, "max_event_streams", &c.API.MaxEventStreams)
		integer(a, "max_import_bytes", &c.API.MaxImportBytes)
		a.span("timeout", &c.API.Timeout)
		a.done()
	}
}

func (d *decoder) token(v value) Token {
	var t Token
	o := v.object("name: checkout, roles: [submit, read], sha256: ...")
	o.text("name", &t.Name)
	if v, ok := o.take("roles"); ok {
		items, _ := v.list("[submit, read, operate]")
		for _, item := range items {
			text, ok := item.plain()
			if !ok {
				continue
			}
			role, err := jobs.Parse("role", text, Roles)
			if err != nil {
				item.fail("%v%s", err, didYouMean(text, words(Roles)))
				continue
			}
			t.Roles = append(t.Roles, role)
		}
	}
	if v, ok := o.take("sha256"); ok {
		d.hide(v.node) // it may be the token itself, by mistake
		if text, ok := v.plain(); ok {
			sum, err := parseSHA256(text)
			if err != nil {
				v.fail("%v", err)
			}
			t.SHA256 = sum
		}
	}
	o.done()
	return t
}

// parseSHA256 reads the digest of a token. The error does not show text.
func parseSHA256(text string) (sum [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(sum) {
		return sum, errors.New("not the SHA-256 of a token: 64 hexadecimal digits, as printf %s TOKEN | sha256sum writes them")
	}
	return [sha256.Size]byte(b), nil
}

func (v *validator) api() {
	if len(v.c.Tokens) > maxTokenCount {
		v.fail("tokens", "%d tokens, at most %d can be", len(v.c.Tokens), maxTokenCount)
	}
	empty := sha256.Sum256(nil)
	for i, t := range v.c.Tokens {
		path := fmt.Sprintf("tokens.%d", i+1)
		v.check(path+".name", jobs.CheckName(t.Name))
		switch t.Name {
		case Loopback:
			v.fail(path+".name", "%s is who asks where there are no tokens: the audit could not tell them apart", t.Name)
		case jobs.ByRedrive:
			v.fail(path+".name", "%s is who acts where nobody does: the audit could not tell them apart", t.Name)
		}
		if len(t.Roles) == 0 {
			v.fail(path+".roles", "required: at least one of submit, read, operate")
		}
		for n, r := range t.Roles {
			v.word(fmt.Sprintf("%s.roles.%d", path, n+1), "role", string(r), words(Roles))
			if slices.Contains(t.Roles[:n], r) {
				v.fail(fmt.Sprintf("%s.roles.%d", path, n+1), "role %s is given twice", r)
			}
		}
		switch t.SHA256 {
		case [sha256.Size]byte{}:
			v.fail(path+".sha256", "required: the SHA-256 of the token in hexadecimal digits")
		case empty:
			v.fail(path+".sha256", "that is the SHA-256 of no token at all")
		}
		for n, other := range v.c.Tokens[:i] {
			if other.Name == t.Name {
				v.fail(path+".name", "%q is the name of token %d too: the audit could not tell them apart", t.Name, n+1)
			}
			if other.SHA256 == t.SHA256 {
				v.fail(path+".sha256", "token %d is the same: the audit could not tell them apart", n+1)
			}
		}
	}
	t := v.c.TLS
	for _, file := range []struct{ key, path, other string }{{"cert", t.Cert, t.Key}, {"key", t.Key, t.Cert}} {
		switch {
		case file.path == "" && file.other != "":
			v.fail("tls."+file.key, "required: a certificate and its key are two files")
		case file.path != "" && !filepath.IsAbs(file.path):
			v.fail("tls."+file.key, "%q: write the whole path", file.path)
		}
	}
	a := v.c.API
	v.between("api.max_requests", int64(a.MaxRequests), 1, 10_000, "no request could be answered")
	v.between("api.max_imports", int64(a.MaxImports), 1, 100, "no import could be answered")
	v.between("api.max_event_streams", int64(a.MaxEventStreams), 1, 10_000, "no event stream could be answered")
	v.between("api.max_import_bytes", a.MaxImportBytes, 1<<10, 1<<40, "nothing could be imported")
	if a.Timeout < time.Second || a.Timeout > 5*time.Minute {
		v.fail("api.timeout", "%s is not from 1s to 5m", spanText(a.Timeout))
	} else {
		v.span("api.timeout", a.Timeout)
	}
}

// api warns where tokens travel in the open.
func (w *warnings) api(c *Config) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || loopback(host) || hasRefs(c.Listen) {
		return
	}
	if len(c.Tokens) > 0 && c.TLS == (TLS{}) {
		w.add("tokens-in-the-open", "listen", "write tls, or let a proxy that speaks TLS stand before a loopback address",
			"%s is reached from other machines without tls: tokens and operations travel readable for whoever listens in", c.Listen)
	}
}
