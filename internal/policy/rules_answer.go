package policy

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// view is a sample as expressions see it. Headers and body are made when the
// first expression asks for them, and then kept: one goroutine at a time.
type view struct {
	sample  Sample
	headers map[string]string
	body    any
	bodyErr error
	decoded bool
}

var _ cel.Activation = (*view)(nil)

// ResolveName returns the value of a variable.
func (a *view) ResolveName(name string) (any, bool) {
	switch name {
	case "status":
		return a.sample.Status, true
	case "headers":
		return a.joinedHeaders(), true
	case "body":
		body, err := a.decodedBody()
		if err != nil || body == nil {
			return types.NullValue, true
		}
		return body, true
	case "class":
		return string(classOf(a.sample)), true
	default:
		return nil, false
	}
}

// Parent returns nil: there are no other variables.
func (a *view) Parent() cel.Activation { return nil }

// joinedHeaders has lower-case names; several values of one are joined by ", ",
// as RFC 9110 section 5.3 has it.
func (a *view) joinedHeaders() map[string]string {
	if a.headers != nil {
		return a.headers
	}
	a.headers = make(map[string]string, len(a.sample.Header))
	for name, values := range a.sample.Header {
		name = strings.ToLower(name)
		joined := strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		if before, twice := a.headers[name]; twice {
			joined = before + ", " + joined
		}
		a.headers[name] = joined
	}
	return a.headers
}

var (
	errBodyCut    = errors.New("the body was cut short")
	errBodyLength = fmt.Errorf("the body is longer than %d bytes", MaxBodyBytes)
)

func (a *view) decodedBody() (any, error) {
	if a.decoded {
		return a.body, a.bodyErr
	}
	a.decoded = true
	body := trimBody(a.sample.Body)
	switch {
	case a.sample.BodyCut:
		a.bodyErr = errBodyCut
	case len(a.sample.Body) > MaxBodyBytes:
		a.bodyErr = errBodyLength
	case a.sample.UntilClose && len(body) > 0 && body[len(body)-1] >= '0' && body[len(body)-1] <= '9':
		a.bodyErr = errBodyCut // a number is the one JSON value that is valid when cut
	default:
		a.body, a.bodyErr = decodeJSON(body)
	}
	return a.body, a.bodyErr
}
