package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretResolvesVariablesFilesAndDollars(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("  from-file \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := env(map[string]string{"KEY": "from-env", "_k2": "$${KEY}"})
	for text, want := range map[string]string{
		"":                                    "",
		"plain":                               "plain",
		"Bearer ${KEY}":                       "Bearer from-env",
		"${KEY}":                              "from-env",
		"a${KEY}b${KEY}c":                     "afrom-envbfrom-envc",
		"$$":                                  "$",
		"$${KEY}":                             "${KEY}",
		"$$$$x":                               "$$x",
		"x$$${KEY}":                           "x$from-env",
		"${_k2}":                              "$${KEY}", // what a value holds is not looked at again
		"<${file:" + file + "}>":              "<from-file>",
		"ü ${KEY} {not} }a{":                  "ü from-env {not} }a{",
		"${KEY}@${file:" + file + "}:$${KEY}": "from-env@from-file:${KEY}",
	} {
		s, err := NewSecret(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := s.Resolve(getenv); err != nil || got != want {
			t.Errorf("%q resolves to %q, %v, want %q", text, got, err, want)
		}
		if refs := strings.Contains(strings.ReplaceAll(text, "$$", ""), "${"); s.HasRefs() != refs {
			t.Errorf("%q: HasRefs is %v", text, s.HasRefs())
		}
		if s.IsZero() != (text == "") {
			t.Errorf("%q: IsZero is %v", text, s.IsZero())
		}
	}
}

func TestLiteralSecretLeavesDollarsAlone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "pa$word", "${KEY}", "$$"} {
		s := LiteralSecret(text)
		if got, err := s.Resolve(noEnv); err != nil || got != text || s.HasRefs() {
			t.Errorf("%q resolves to %q, %v", text, got, err)
		}
	}
}

func TestSecretRefusesWhatIsNoReference(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"$", "a$b", "$KEY", "${", "${KEY", "${}", "${1KEY}", "${KEY }", "${file:}", "${file:relative}",
		"${env:KEY}", "$$$", "line\nbreak", "nul\x00", "del\x7f"} {
		s, err := NewSecret(text)
		if err == nil || !s.IsZero() {
			t.Errorf("%q: got no error", text)
		}
	}
}

func TestSecretNamesEveryReferenceThatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty, long, lines := write("empty", " \n"), write("long", strings.Repeat("x", maxSecretFileBytes+1)), write("lines", "hunter2\nhunter3")
	missing := filepath.Join(dir, "missing")
	s, err := NewSecret("${A}${file:" + empty + "}${file:" + long + "}${file:" + lines + "}${file:" + missing + "}${B}${OK}")
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.Resolve(env(map[string]string{"OK": "hunter2", "B": "hunter\x002"}))
	if err == nil || text != "" {
		t.Fatalf("got %q, %v", text, err)
	}
	for _, want := range []string{"variable A is not set", empty + " is empty", long + " is longer", "file " + lines + " holds a control",
		missing, "variable B holds a control"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter") {
		t.Errorf("the error shows a value:\n%v", err)
	}
}

func TestSecretFileIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	s, err := NewSecret("${file:" + path + "}")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "other", "third"} { // of one length, within one tick of the file system's clock
		if err := os.WriteFile(path, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Resolve(noEnv); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	t.Parallel()
	const hidden = "hunter2"
	c := mustParse(t, `
redis: {url: "redis://user:hunter2@127.0.0.1:6379/0"}
dependencies:
  payrail:
    base_url: https://api.payrail.example
    headers: {Authorization: "Bearer hunter2 ${HUNTER}"}
    credentials: {m1: {headers: {X-Key: hunter2}}}
operations: {charge: {dependency: payrail, request: {path: /v1/charges}}}
`)
	d := c.Dependencies["payrail"]
	type unexported struct{ s Secret }
	shown := map[string]string{}
	for name, v := range map[string]any{"config": c, "value": *c, "redis": c.Redis, "dependency": d, "headers": d.Headers,
		"credential": d.Credentials["m1"], "secret": c.Redis.URL, "pointer": &c.Redis.URL, "unexported": unexported{c.Redis.URL},
		"list": []Secret{c.Redis.URL}, "specs": c.KindSpecs(), "warnings": c.Warnings()} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			shown[name+" "+verb] = fmt.Sprintf(verb, v)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		shown[name+" json"] = string(text)
		var text1, text2 bytes.Buffer
		slog.New(slog.NewTextHandler(&text1, nil)).Info("shown", "v", v)
		slog.New(slog.NewJSONHandler(&text2, nil)).Info("shown", "v", v)
		shown[name+" slog"] = text1.String() + text2.String()
	}
	for how, text := range shown {
		if strings.Contains(text, hidden) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", hidden)) {
			t.Errorf("%s shows it: %s", how, text)
		}
	}
	if got := fmt.Sprint(c.Redis.URL, Secret{}); got != "[secret] " {
		t.Errorf("got %q", got)
	}
}
