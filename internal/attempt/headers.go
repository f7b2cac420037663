package attempt

import (
	"errors"
	"fmt"
	"net/http"

	"redrive/internal/config"
	"redrive/internal/jobs"
)

// HeaderFunc returns the headers of a dependency's configuration for one attempt
// under a credential, secrets resolved now. It returns [ErrNoCredential] when the
// configuration has no such credential, and another error when a secret cannot be
// read at this moment. Safe for concurrent use.
type HeaderFunc func(dep jobs.Dependency, credential string) (http.Header, error)

// ErrNoCredential is returned by a [HeaderFunc] for a credential that the
// configuration does not know: an operation that chose it cannot be sent.
var ErrNoCredential = errors.New("no such credential in the configuration")

// Headers returns the headers that a configuration gives a dependency, and
// on top those of the credential. Every ${...} is looked up at each call, so that
// a rotated secret file is used by the next attempt. Errors name the reference
// that is missing, never a value.
func Headers(c *config.Config, getenv func(string) string) HeaderFunc {
	return func(dep jobs.Dependency, credential string) (http.Header, error) {
		d := c.Dependencies[dep]
		if d == nil {
			return nil, fmt.Errorf("dependency %s: %w", dep, ErrNoCredential)
		}
		account, ok := d.Credentials[credential]
		if !ok && credential != jobs.DefaultCredential {
			return nil, fmt.Errorf("credential %s of dependency %s: %w", credential, dep, ErrNoCredential)
		}
		h := http.Header{}
		return h, errors.Join(resolve(h, d.Headers, getenv), resolve(h, account.Headers, getenv))
	}
}

func resolve(into http.Header, from map[string]config.Secret, getenv func(string) string) error {
	var errs []error
	for name, secret := range from {
		value, err := secret.Resolve(getenv)
		if err != nil {
			errs = append(errs, fmt.Errorf("header %s: %w", name, err))
			continue
		}
		into.Set(name, value)
	}
	return errors.Join(errs...)
}
