package config

import (
	"fmt"
	"strings"

	"redrive/internal/jobs"
)

// The environment variables that stand between flags and file. REDRIVE_BY and
// NO_COLOR belong to the commands.
const (
	EnvConfig    = "REDRIVE_CONFIG"
	EnvRedisURL  = "REDRIVE_REDIS_URL"
	EnvNamespace = "REDRIVE_NAMESPACE"
	EnvListen    = "REDRIVE_LISTEN"
	EnvLogLevel  = "REDRIVE_LOG_LEVEL"
	EnvLogFormat = "REDRIVE_LOG_FORMAT"
)

// Overrides are the values of flags; "" is a flag that was not given. They are
// taken as they are: a dollar in them means nothing.
type Overrides struct {
	RedisURL  string // --redis
	Namespace string // --namespace
	Listen    string // --listen
	LogLevel  string // --log-level
	LogFormat string // --log-format
}

// Override puts the environment over what the file said, and flags over both. The
// error says which flag or variable is wrong, and never shows the Redis URL.
func (c *Config) Override(flags Overrides, getenv func(string) string) error {
	for _, o := range []struct {
		flag, value, env string
		set              func(string) error
	}{
		{"--redis", flags.RedisURL, EnvRedisURL, c.setRedisURL},
		{"--namespace", flags.Namespace, EnvNamespace, c.setNamespace},
		{"--listen", flags.Listen, EnvListen, c.setListen},
		{"--log-level", flags.LogLevel, EnvLogLevel, c.setLogLevel},
		{"--log-format", flags.LogFormat, EnvLogFormat, c.setLogFormat},
	} {
		by, value := o.flag, o.value
		if value == "" {
			by, value = o.env, getenv(o.env)
		}
		if value == "" {
			continue
		}
		if err := o.set(value); err != nil {
			return fmt.Errorf("%s: %w", by, err)
		}
	}
	return nil
}

func (c *Config) setRedisURL(s string) error {
	if err := CheckRedisURL(s); err != nil {
		return err
	}
	c.Redis.URL = LiteralSecret(s)
	return nil
}

func (c *Config) setNamespace(s string) error {
	if err := jobs.CheckNamespace(s); err != nil {
		return err
	}
	c.Redis.Namespace = s
	return nil
}

func (c *Config) setListen(s string) error {
	if err := checkListen(s); err != nil {
		return err
	}
	c.Listen = s
	return nil
}

func (c *Config) setLogLevel(s string) error {
	level, err := jobs.Parse("log level", strings.ToLower(s), logLevels)
	if err != nil {
		return err
	}
	c.Log.Level = level.slog()
	return nil
}

func (c *Config) setLogFormat(s string) error {
	format, err := jobs.Parse("log format", strings.ToLower(s), LogFormats)
	if err != nil {
		return err
	}
	c.Log.Format = format
	return nil
}
