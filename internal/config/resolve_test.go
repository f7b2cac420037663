package config

import (
	"errors"
	"strings"
	"testing"

	"redrive/internal/jobs"
)

const withSecrets = `
redis: {url: "redis://:${REDIS_PASSWORD}@${file:/nowhere/host}:6379/0"}
listen: ${HOST}:8080
dependencies:
  payrail:
    base_url: https://${PAYRAIL_HOST}/v1
    headers: {Authorization: "Bearer ${PAYRAIL_KEY}", X-Plain: plain}
    credentials:
      m1: {headers: {Authorization: "Bearer ${file:/nowhere/m1}"}}
operations: {charge: {dependency: payrail, request: {path: /charges}}}
`

func TestResolveSecretsListsEverythingThatIsMissingWithItsPlace(t *testing.T) {
	t.Parallel()
	err := mustParse(t, withSecrets).ResolveSecrets(noEnv)
	var list *Error
	if !errors.As(err, &list) {
		t.Fatalf("got %v", err)
	}
	want := []string{
		"redrive.yaml:2:14: redis.url: environment variable REDIS_PASSWORD is not set",
		"redrive.yaml:2:14: redis.url: read secret: open /nowhere/host: no such file or directory",
		"redrive.yaml:3:9: listen: environment variable HOST is not set",
		"redrive.yaml:6:15: dependencies.payrail.base_url: environment variable PAYRAIL_HOST is not set",
		"redrive.yaml:7:15: dependencies.payrail.headers.Authorization: environment variable PAYRAIL_KEY is not set",
		"redrive.yaml:9:22: dependencies.payrail.credentials.m1.headers.Authorization: read secret: open /nowhere/m1: no such file or directory",
	}
	if got := strings.Split(err.Error(), "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestResolveSecretsSettlesWhatMustHoldStill(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("${file:/nowhere/host}", "h", "${file:/nowhere/m1}", "${M1}").Replace(withSecrets)
	vars := map[string]string{"REDIS_PASSWORD": "pw", "HOST": "127.0.0.1", "PAYRAIL_HOST": "api.example", "PAYRAIL_KEY": "k1", "M1": "m1"}
	c := mustParse(t, text)
	if got := c.KindSpecs()[0].BaseURL; got != "" {
		t.Errorf("base URL of the spec is %q before it is known", got)
	}
	if err := c.ResolveSecrets(env(vars)); err != nil {
		t.Fatal(err)
	}
	d := c.Dependencies["payrail"]
	if c.Listen != "127.0.0.1:8080" || d.BaseURL != "https://api.example/v1" || c.KindSpecs()[0].BaseURL != d.BaseURL {
		t.Errorf("listen %q, base_url %q, spec %+v", c.Listen, d.BaseURL, c.KindSpecs()[0])
	}
	if err := c.Validate(); err != nil {
		t.Errorf("it is not valid any more: %v", err)
	}
	vars["PAYRAIL_KEY"] = "k2" // a rotated secret is used at once
	if got, err := d.Headers["Authorization"].Resolve(env(vars)); err != nil || got != "Bearer k2" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := c.Redis.ResolveURL(env(vars)); err != nil || got != "redis://:pw@h:6379/0" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestResolveSecretsChecksWhatComesOut(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("${file:/nowhere/host}", "h", "${file:/nowhere/m1}", "${M1}").Replace(withSecrets)
	vars := map[string]string{"REDIS_PASSWORD": "hun/ter2", "HOST": "a:b", "PAYRAIL_HOST": "hunter2@api.example", "PAYRAIL_KEY": "k1", "M1": "hunter2\nx"}
	c := mustParse(t, text)
	err := c.ResolveSecrets(env(vars))
	var list *Error
	if !errors.As(err, &list) || len(list.Problems) != 4 {
		t.Fatalf("got %v", err)
	}
	for i, path := range []string{"redis.url", "listen", "dependencies.payrail.base_url", "dependencies.payrail.credentials.m1.headers.Authorization"} {
		if list.Problems[i].Path != path {
			t.Errorf("problem %d is %v, want %s", i, list.Problems[i], path)
		}
	}
	if strings.Contains(err.Error(), "ter2") {
		t.Errorf("it shows a secret: %v", err)
	}
	if _, err := c.Redis.ResolveURL(env(vars)); err == nil || strings.Contains(err.Error(), "ter2") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Redis.ResolveURL(noEnv); err == nil || !strings.HasPrefix(err.Error(), "redis.url: ") {
		t.Errorf("got %v", err)
	}
}

func TestHeadersOfACredentialWinOverThoseOfItsDependency(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
redis: {url: "redis://127.0.0.1:6379/0"}
dependencies:
  one:
    base_url: https://one.example
    headers: {authorization: base, X-Both: base}
    credentials: {m1: {headers: {Authorization: m1, X-Own: m1}}}
  two:
    base_url: https://two.example
    headers: {Authorization: base}
    credentials: {default: {headers: {AUTHORIZATION: default}}}
operations: {charge: {dependency: one, request: {path: /c}}, refund: {dependency: two, request: {path: /r}}}
`)
	for _, tt := range []struct {
		dependency jobs.Dependency
		credential string
		want       map[string]string
	}{
		{"one", "m1", map[string]string{"Authorization": "m1", "X-Both": "base", "X-Own": "m1"}},
		{"one", jobs.DefaultCredential, map[string]string{"Authorization": "base", "X-Both": "base"}},
		{"one", "m2", nil},
		{"two", jobs.DefaultCredential, map[string]string{"Authorization": "default"}},
	} {
		headers, ok := c.Dependencies[tt.dependency].HeadersFor(tt.credential)
		if ok != (tt.want != nil) || len(headers) != len(tt.want) {
			t.Errorf("%s %s: got %d headers, %v, want %v", tt.dependency, tt.credential, len(headers), ok, tt.want)
			continue
		}
		for name, want := range tt.want {
			if got, err := headers[name].Resolve(noEnv); got != want || err != nil {
				t.Errorf("%s %s: %s is %q, %v, want %q", tt.dependency, tt.credential, name, got, err, want)
			}
		}
	}
	if got := strings.Join(c.KindSpecs()[0].Credentials, " ") + "; " + strings.Join(c.KindSpecs()[1].Credentials, " "); got != "default m1; default" {
		t.Errorf("the specs name the credentials %s", got)
	}
}
