package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"redrive/internal/config"
	"redrive/internal/ledger"
	"redrive/internal/operator"
	"redrive/internal/remote"
)

// The exit codes.
const (
	exitOK       = 0 // done; also a duplicate
	exitError    = 1
	exitUsage    = 2 // usage or invalid input
	exitPartly   = 3 // some were refused
	exitNotFound = 4
	exitConflict = 5 // conflict, or not allowed in this state (all of them)
	exitAgain    = 6 // Redis away or full, backlog full, the reply was lost, or not yet on the replicas asked for
)

// failure is an error with the exit code that it ends the program with. Without
// err all was said before.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

func usagef(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// asFlags names the fields of an error as flags: --more-attempts.
func asFlags(err error) error {
	var invalid *operator.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	return usagef("%s", invalid.Text(func(f operator.Field) string { return "--" + strings.ReplaceAll(string(f), "_", "-") }))
}

// exitWith ends the program with code and says nothing more; nil for exitOK.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &failure{code: code}
}

// codeOf says how the program ends for an error of a command that names no code
// itself.
func codeOf(err error) int {
	var f *failure
	var binding *ledger.BindingError
	var file *config.Error
	switch {
	case errors.As(err, &f):
		return f.code
	case errors.As(err, &file), errors.Is(err, ledger.ErrCursor):
		return exitUsage
	case errors.As(err, &binding):
		return exitConflict
	case errors.Is(err, ledger.ErrNotFound):
		return exitNotFound
	case errors.Is(err, ledger.ErrBacklogFull):
		return exitAgain
	case fromServer(err):
		return serverCode(err)
	case fromStore(err):
		return redisCode(err)
	}
	return exitError
}

// fromStore reports whether err tells of Redis, of a server, or of the way there.
func fromStore(err error) bool {
	if fromServer(err) {
		return true
	}
	var reply redis.Error
	var network net.Error // every errno is one too, also that of a missing file
	var path *fs.PathError
	var link *os.LinkError
	if errors.As(err, &path) || errors.As(err, &link) {
		return false
	}
	return errors.As(err, &reply) || errors.As(err, &network) || isTLS(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, context.DeadlineExceeded)
}

// unchanged reports whether err says that surely nothing was written.
func unchanged(err error) bool { return ledger.WritesRefused(err) || remote.Undone(err) }

// redisCode is exitAgain for what can pass by itself: a refused password,
// permission or certificate does not, nor does a broken script.
func redisCode(err error) int {
	switch ledger.ReplyCode(err) {
	case "":
	case "NOAUTH", "WRONGPASS", "NOPERM", "ERR", "WRONGTYPE", "NOSCRIPT", "MOVED", "CROSSSLOT":
		return exitError
	default:
		return exitAgain
	}
	if isTLS(err) {
		return exitError
	}
	return exitAgain
}

func isTLS(err error) bool {
	var certificate *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &unknown) || errors.As(err, &record)
}
