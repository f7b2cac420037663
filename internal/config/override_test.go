package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFlagsWinOverEnvironmentAndEnvironmentOverFile(t *testing.T) {
	t.Parallel()
	vars := map[string]string{EnvRedisURL: "redis://:pa$word@env:1/1", EnvNamespace: "env", EnvListen: "env:1", EnvLogLevel: "WARN", EnvLogFormat: "json"}
	flags := Overrides{RedisURL: "redis://flag:2/2", Namespace: "flag", Listen: "flag:2", LogLevel: "error", LogFormat: "text"}
	for _, tt := range []struct {
		name                   string
		flags                  Overrides
		vars                   map[string]string
		url, namespace, listen string
		level                  slog.Level
		format                 LogFormat
	}{
		{"file", Overrides{}, nil, "redis://127.0.0.1:6379/0", "redrive", "127.0.0.1:8080", slog.LevelInfo, LogAuto},
		{"environment", Overrides{}, vars, "redis://:pa$word@env:1/1", "env", "env:1", slog.LevelWarn, LogJSON},
		{"flags", flags, vars, "redis://flag:2/2", "flag", "flag:2", slog.LevelError, LogText},
		{"flags alone", flags, nil, "redis://flag:2/2", "flag", "flag:2", slog.LevelError, LogText},
		{"one flag", Overrides{Namespace: "flag"}, vars, "redis://:pa$word@env:1/1", "flag", "env:1", slog.LevelWarn, LogJSON},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := mustParse(t, minimal)
			if err := c.Override(tt.flags, env(tt.vars)); err != nil {
				t.Fatal(err)
			}
			url, err := c.Redis.ResolveURL(noEnv)
			if err != nil || url != tt.url {
				t.Errorf("url is %q, %v, want %q", url, err, tt.url)
			}
			if c.Redis.Namespace != tt.namespace || c.Listen != tt.listen || c.Log.Level != tt.level || c.Log.Format != tt.format {
				t.Errorf("got %+v", c)
			}
		})
	}
}

func TestOverrideNamesTheFlagOrVariableThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flags Overrides
		vars  map[string]string
		want  string
	}{
		{Overrides{RedisURL: "redis://:hunter2@"}, nil, "--redis"},
		{Overrides{RedisURL: "http://hunter2"}, nil, "--redis"},
		{Overrides{Namespace: "Shop"}, nil, "--namespace"},
		{Overrides{Listen: "8080"}, nil, "--listen"},
		{Overrides{Listen: "127.0.0.1:x"}, nil, "--listen"},
		{Overrides{LogLevel: "loud"}, nil, "--log-level"},
		{Overrides{LogFormat: "xml"}, nil, "--log-format"},
		{Overrides{}, map[string]string{EnvRedisURL: "hunter2"}, EnvRedisURL},
		{Overrides{}, map[string]string{EnvNamespace: "{x}"}, EnvNamespace},
		{Overrides{}, map[string]string{EnvListen: "x"}, EnvListen},
		{Overrides{}, map[string]string{EnvLogLevel: "x"}, EnvLogLevel},
		{Overrides{}, map[string]string{EnvLogFormat: "x"}, EnvLogFormat},
	} {
		err := mustParse(t, minimal).Override(tt.flags, env(tt.vars))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want+": ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v %v: got %v", tt.flags, tt.vars, err)
		}
	}
}

// inDir runs the rest of the test in a directory of its own: the place of
// ./redrive.yaml. Such a test cannot be parallel.
func inDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	return dir
}

func TestFindFollowsTheOrderOfPlaces(t *testing.T) {
	inDir(t, map[string]string{"redrive.yaml": minimal, "env.yaml": minimal, "flag.yaml": minimal})
	vars := env(map[string]string{EnvConfig: "env.yaml"})
	for _, tt := range []struct {
		flag   string
		getenv func(string) string
		want   string
	}{{"flag.yaml", vars, "flag.yaml"}, {"", vars, "env.yaml"}, {"", noEnv, LocalPath}} {
		if path, found, err := Find(tt.flag, tt.getenv); path != tt.want || !found || err != nil {
			t.Errorf("got %q, %v, %v, want %q", path, found, err, tt.want)
		}
	}
}

func TestFindInsistsOnAFileThatIsNamed(t *testing.T) {
	inDir(t, map[string]string{"redrive.yaml": minimal})
	for _, tt := range []struct {
		flag   string
		getenv func(string) string
		want   string
	}{
		{"missing.yaml", noEnv, "--config"},
		{"", env(map[string]string{EnvConfig: "missing.yaml"}), EnvConfig},
	} {
		_, found, err := Find(tt.flag, tt.getenv)
		if found || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, %v, want an error that names %s", found, err, tt.want)
		}
	}
}

func TestFindWithoutAnyFile(t *testing.T) {
	if _, err := os.Stat(SystemPath); err == nil {
		t.Fatalf("this machine has %s: the test cannot tell", SystemPath)
	}
	inDir(t, nil)
	if path, found, err := Find("", noEnv); path != "" || found || err != nil {
		t.Errorf("got %q, %v, %v", path, found, err)
	}
	vars := env(map[string]string{EnvRedisURL: "redis://env:1/1"})
	c, found, err := Open("", Overrides{Namespace: "shop"}, vars)
	if err != nil || found || c.Redis.Namespace != "shop" || c.Path != "" || len(c.Kinds) != 0 {
		t.Errorf("got %+v, %v, %v", c, found, err)
	}
	if _, _, err := Open("", Overrides{}, noEnv); err == nil || !strings.Contains(err.Error(), EnvRedisURL) {
		t.Errorf("without Redis: got %v", err)
	}
}

func TestOpenTakesRedisFromElsewhereIfTheFileDoesNotNameIt(t *testing.T) {
	withoutRedis := minimal[strings.Index(minimal, "\n")+1:]
	inDir(t, map[string]string{"redrive.yaml": withoutRedis, "busted.yaml": "nonsense: 1\n"})
	c, found, err := Open("", Overrides{RedisURL: "redis://flag:1/1"}, noEnv)
	if err != nil || !found || c.Path != LocalPath || c.Kinds["charge"] == nil {
		t.Errorf("got %+v, %v, %v", c, found, err)
	}
	var list *Error
	if _, _, err := Open("", Overrides{}, noEnv); !errors.As(err, &list) || list.Problems[0].File != LocalPath || list.Problems[0].Path != "redis.url" {
		t.Errorf("got %v", err)
	}
	if _, err := Load(LocalPath); !errors.As(err, &list) {
		t.Errorf("Load alone accepts it: %v", err)
	}
	if _, _, err := Open("busted.yaml", Overrides{RedisURL: "redis://flag:1/1"}, noEnv); !errors.As(err, &list) {
		t.Errorf("got %v", err)
	}
	if _, _, err := Open("", Overrides{RedisURL: "nonsense"}, noEnv); err == nil {
		t.Error("a flag that is wrong is accepted")
	}
}
