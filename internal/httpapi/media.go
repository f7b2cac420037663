package httpapi

import (
	"mime"
	"strconv"
	"strings"
)

// The types of bodies and answers.
const (
	jsonType   = "application/json"
	ndjsonType = "application/x-ndjson"
	eventType  = "text/event-stream"
	yamlType   = "application/yaml"
)

// isType reports whether a Content-Type header names want, in UTF-8 where it says how it
// is encoded.
func isType(header, want string) bool {
	media, params, err := mime.ParseMediaType(header)
	if err != nil || media != want {
		return false
	}
	charset, said := params["charset"]
	return !said || strings.EqualFold(charset, "utf-8")
}

// accepts reports whether Accept headers let an answer be of type want (RFC 9110,
// section 12.5.1): the most specific range that matches decides. No header accepts all.
func accepts(headers []string, want string) bool {
	if len(headers) == 0 {
		return true
	}
	family, _, _ := strings.Cut(want, "/")
	best, good := 0, false
	for _, part := range strings.Split(strings.Join(headers, ","), ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		rank := 0
		switch media {
		case want:
			rank = 3
		case family + "/*":
			rank = 2
		case "*/*":
			rank = 1
		}
		if rank > best {
			q, err := strconv.ParseFloat(params["q"], 64)
			best, good = rank, err != nil || q > 0
		}
	}
	return good
}
