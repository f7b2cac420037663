package worker

import (
	"errors"
	"fmt"
	"net/http"

	"redrive/internal/config"
	"redrive/internal/jobs"
)

// ConfigHeaders returns the headers that a configuration gives a dependency, and
// on top those of the credential. Every ${...} is looked up at each call, so that
// a rotated secret file is used by the next attempt. Errors name the reference
// that is missing, never a value.
func ConfigHeaders(c *config.Config, getenv func(string) string) HeaderFunc {
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
