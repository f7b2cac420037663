package redistest

import (
	"strings"
)

// Option changes how [Server] starts its redis-server.
type Option func(*settings)

type settings struct {
	args     []string
	config   []string
	password string
	shared   bool
}

// key tells servers of different settings apart when they are shared.
func (s settings) key() string {
	return strings.Join(s.config, "\n") + "\x00" + strings.Join(s.args, "\x00") + "\x00" + s.password
}

// WithArgs appends command line arguments, such as "--appendfsync", "always".
// They win over the configuration file.
func WithArgs(args ...string) Option {
	return func(s *settings) { s.args = append(s.args, args...) }
}

// WithConfig appends one line to the configuration file, such as
// `rename-command CONFIG ""`. Where a directive is repeated the last line wins.
func WithConfig(line string) Option {
	return func(s *settings) { s.config = append(s.config, line) }
}

// WithPassword makes the server demand password of the default user; the clients
// and the URL of this package carry it.
func WithPassword(password string) Option {
	return func(s *settings) { s.password = password }
}

// Shared hands out one server to every test of the process that asks for it with
// the same other options. It starts with the first of them and ends with the
// last. A test then keeps to its own namespace, never flushes everything, and
// cannot stop, kill or restart the server.
func Shared() Option {
	return func(s *settings) { s.shared = true }
}
