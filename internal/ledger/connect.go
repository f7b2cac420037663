package ledger

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ConnectOptions tune a client. The zero value is fit for a command line.
type ConnectOptions struct {
	PoolSize int           // connections at most; 0: 10
	Timeout  time.Duration // of dialling, and of each read and write; 0: 3 s
	DialOnce bool          // a connection that is refused is an error at once; else it is tried five times in half a second
}

// Connect returns a client for a redis://, rediss:// or unix:// URL. It does not
// dial yet. The client never repeats a command by itself (0 would mean three
// times): only the caller knows whether a script whose reply was lost may be sent
// again.
func Connect(url string, o ConnectOptions) (redis.UniversalClient, error) {
	if url == "embedded" {
		return nil, fmt.Errorf("redis url %q: the embedded store belongs to worker demo", url)
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis url: %s", strings.TrimPrefix(redact(err.Error(), url), "redis: "))
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	if o.PoolSize == 0 {
		o.PoolSize = 10
	}
	opts.MaxRetries = -1
	if o.DialOnce {
		opts.DialerRetries = 1
	}
	opts.PoolSize = o.PoolSize
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = o.Timeout, o.Timeout, o.Timeout
	opts.ContextTimeoutEnabled = true
	opts.Protocol = 2
	opts.DisableIdentity = true
	// Notifications of managed servers look names up in DNS by themselves.
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opts), nil
}

// redact keeps a password in the URL out of the error that quotes it.
func redact(text, url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		if user, _, ok := strings.Cut(rest, "@"); ok {
			return strings.ReplaceAll(text, user+"@", "…@")
		}
	}
	return text
}
