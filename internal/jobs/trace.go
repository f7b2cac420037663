package jobs

import (
	"errors"
	"strings"
)

// CheckTraceparent checks a W3C trace context of version 00: "00-", 32 hex digits of
// the trace, "-", 16 of the span, "-", 2 of the flags; in lower case, and neither id
// all zero.
func CheckTraceparent(s string) error {
	part := strings.Split(s, "-")
	if len(part) != 4 || part[0] != "00" || !hexID(part[1], 32) || !hexID(part[2], 16) || len(part[3]) != 2 || !hexDigits(part[3]) {
		return errors.New("want a W3C traceparent of version 00, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	}
	return nil
}

func hexID(s string, size int) bool {
	return len(s) == size && hexDigits(s) && strings.Trim(s, "0") != ""
}

func hexDigits(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
