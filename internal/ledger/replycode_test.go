package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"redrive/internal/ledger"
)

// answered is an error reply, as the client hands it on.
type answered string

func (a answered) Error() string { return string(a) }
func (answered) RedisError()     {}

func TestARefusalInsideAScriptIsKnownByItsOwnCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		code    string
		refused bool
	}{
		{answered("NOREPLICAS Not enough good replicas to write."), "NOREPLICAS", true},
		{answered("ERR NOREPLICAS Not enough good replicas to write."), "NOREPLICAS", true},
		{answered("ERR READONLY You can't write against a read only replica."), "READONLY", true},
		{answered("ERR Error running script (call to f_x): @user_script: 7: -OOM command not allowed when used memory > 'maxmemory'."), "OOM", true},
		{answered("LOADING Redis is loading the dataset in memory"), "LOADING", false},
		{answered("ERR unknown command 'OOM '"), "ERR", false},
		{answered("ERR value is READONLY here"), "ERR", false},
		{errors.New("READONLY but of something else"), "", false},
		{nil, "", false},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("script pause: %w", err)
		}
		if code, refused := ledger.ReplyCode(err), ledger.WritesRefused(err); code != c.code || refused != c.refused {
			t.Errorf("%v: %q %v, want %q %v", err, code, refused, c.code, c.refused)
		}
	}
}
