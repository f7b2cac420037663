package dedupe

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Fields names what a fingerprint covers, in the order of its field digests.
var Fields = []string{"content_type", "params", "headers", "credential", "idempotency_key", "body"}

// Request is what two submissions must agree in to be the same request.
type Request struct {
	ContentType    string
	Params         map[string]string
	Headers        map[string]string
	Credential     string
	IdempotencyKey string // as given by the submitter; "" when it gave none
	Body           []byte
}

// Fingerprint is '<22 characters over everything>:<4 characters per field>', in
// URL-safe base64. The first part (128 bits) decides; the second only names
// differences. 47 bytes, so that the record in Redis stays compact.
type Fingerprint string

const fieldDigestBytes = 3 // 4 characters of base64

// Of returns the fingerprint of a request. JSON bodies that differ only in layout
// or in the order of keys have the same one; numbers count as written.
func Of(r Request) Fingerprint {
	parts := [][]byte{
		[]byte(r.ContentType),
		flatten(r.Params, func(s string) string { return s }),
		flatten(r.Headers, strings.ToLower),
		[]byte(r.Credential),
		[]byte(r.IdempotencyKey),
		canonicalBody(r.ContentType, r.Body),
	}
	whole := sha256.New()
	var fields strings.Builder
	for _, p := range parts {
		io.WriteString(whole, strconv.Itoa(len(p))+":") // length first: no two lists of parts read alike
		whole.Write(p)
		sum := sha256.Sum256(p)
		fields.WriteString(base64.RawURLEncoding.EncodeToString(sum[:fieldDigestBytes]))
	}
	return Fingerprint(base64.RawURLEncoding.EncodeToString(whole.Sum(nil)[:16]) + ":" + fields.String())
}

func flatten(m map[string]string, name func(string) string) []byte {
	pairs := make([]string, 0, len(m))
	for k, v := range m {
		pairs = append(pairs, strconv.Quote(name(k))+"="+strconv.Quote(v))
	}
	slices.Sort(pairs)
	return []byte(strings.Join(pairs, ","))
}

func canonicalBody(contentType string, body []byte) []byte {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || !(media == "application/json" || strings.HasSuffix(media, "+json")) {
		return body
	}
	canonical, err := Canonical(body)
	if err != nil {
		return body
	}
	return canonical
}

var errNotCanonical = errors.New("duplicate key, broken character, trailing data or too deep")

// maxDepth bounds the nesting of what is made canonical: sorting copies each level
// into the one above it.
const maxDepth = 1000

// Canonical rewrites a JSON text without layout and with sorted keys. Numbers
// keep the digits they were written with. It returns an error for text that is
// not JSON, that nests deeper than 1,000 levels, or that readers disagree about:
// because it repeats a key in one object, or because a string holds a broken
// character (invalid UTF-8 or half a surrogate pair, both read as U+FFFD).
func Canonical(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out bytes.Buffer
	if err := canonicalValue(d, &out, 0); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errNotCanonical
	}
	return out.Bytes(), nil
}

func canonicalValue(d *json.Decoder, out *bytes.Buffer, depth int) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return errNotCanonical
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return canonicalObject(d, out, depth)
		}
		out.WriteByte('[')
		for first := true; d.More(); first = false {
			if !first {
				out.WriteByte(',')
			}
			if err := canonicalValue(d, out, depth+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		_, err := d.Token()
		return err
	case json.Number:
		out.WriteString(v.String())
	case string:
		return canonicalString(v, out)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		out.Write(b)
	}
	return nil
}

func canonicalObject(d *json.Decoder, out *bytes.Buffer, depth int) error {
	members := map[string][]byte{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return errNotCanonical
		}
		if _, twice := members[key]; twice {
			return errNotCanonical
		}
		var value bytes.Buffer
		if err := canonicalValue(d, &value, depth+1); err != nil {
			return err
		}
		members[key] = value.Bytes()
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	keys := make([]string, 0, len(members))
	for k := range members {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := canonicalString(k, out); err != nil {
			return err
		}
		out.WriteByte(':')
		out.Write(members[k])
	}
	out.WriteByte('}')
	return nil
}

func canonicalString(s string, out *bytes.Buffer) error {
	if strings.ContainsRune(s, utf8.RuneError) {
		return errNotCanonical
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	out.Write(b)
	return nil
}
