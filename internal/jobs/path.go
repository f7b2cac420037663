package jobs

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// RenderPath fills a kind's path template: {key} with the operation's key and
// {params.NAME} with a param, each escaped for where it stands (a path segment,
// or the query after the first question mark), so that no value can leave its
// place. A value that is empty, "." or ".." is refused: it would name another
// resource than the template says.
func RenderPath(template string, key Key, params map[string]string) (string, error) {
	return renderPath(template, requestPlaceholders, values{key: key, params: params}.of)
}

// CheckPathTemplate reports why template cannot be a kind's path: it must begin
// with one slash, hold only printable ASCII without space, backslash and #, and
// use no placeholder but {key} and {params.NAME}.
func CheckPathTemplate(template string) error {
	_, err := renderPath(template, requestPlaceholders, anything)
	return err
}

// RenderInquiryPath fills the path template of a kind's inquiry as [RenderPath]
// does, with {idempotency_key} and {result.NAME}, a value that was kept of an
// answer, besides. A value that is not there is an error: a path without it would
// ask about another operation, or about all of them.
func RenderInquiryPath(template string, key Key, idempotencyKey string, params, result map[string]string) (string, error) {
	return renderPath(template, inquiryPlaceholders, values{key, idempotencyKey, params, result}.of)
}

// CheckInquiryPathTemplate reports why template cannot be the path of an inquiry:
// as [CheckPathTemplate], with the placeholders of [RenderInquiryPath].
func CheckInquiryPathTemplate(template string) error {
	_, err := renderPath(template, inquiryPlaceholders, anything)
	return err
}

// placeholders are what a template may use: names, and prefixes of names.
type placeholders struct {
	names, prefixes []string
	words           string // for people
}

var (
	requestPlaceholders = placeholders{[]string{"key"}, []string{"params."}, "{key} or {params.NAME}"}
	inquiryPlaceholders = placeholders{[]string{"key", "idempotency_key"}, []string{"params.", "result."},
		"{key}, {idempotency_key}, {params.NAME} or {result.NAME}"}
)

func (p placeholders) check(name string) error {
	known := slices.Contains(p.names, name) || slices.ContainsFunc(p.prefixes, func(prefix string) bool {
		return len(name) > len(prefix) && strings.HasPrefix(name, prefix)
	})
	if !known {
		return fmt.Errorf("unknown placeholder {%s} (want %s)", name, p.words)
	}
	return nil
}

// values is what placeholders stand for.
type values struct {
	key            Key
	idempotencyKey string
	params, result map[string]string
}

func (v values) of(name string) (string, error) {
	switch name {
	case "key":
		return string(v.key), nil
	case "idempotency_key":
		return v.idempotencyKey, nil
	}
	if result, ok := strings.CutPrefix(name, "result."); ok {
		value, ok := v.result[result]
		if !ok {
			return "", fmt.Errorf("the operation has no result %q", result)
		}
		return value, nil
	}
	param, _ := strings.CutPrefix(name, "params.")
	value, ok := v.params[param]
	if !ok {
		return "", fmt.Errorf("the submission has no param %q", param)
	}
	return value, nil
}

// anything is a value for every placeholder.
func anything(string) (string, error) { return "x", nil }

func renderPath(template string, allowed placeholders, value func(name string) (string, error)) (string, error) {
	if !strings.HasPrefix(template, "/") || strings.HasPrefix(template, "//") {
		return "", fmt.Errorf("path %q must begin with one slash", template)
	}
	var out strings.Builder
	escape := url.PathEscape
	for rest := template; rest != ""; {
		switch c := rest[0]; {
		case c == '{':
			name, after, ok := strings.Cut(rest[1:], "}")
			if !ok {
				return "", fmt.Errorf("path %q: a brace is not closed", template)
			}
			if err := allowed.check(name); err != nil {
				return "", fmt.Errorf("path %q: %w", template, err)
			}
			v, err := value(name)
			if err != nil {
				return "", fmt.Errorf("path %q: {%s}: %w", template, name, err)
			}
			if v == "" || v == "." || v == ".." {
				return "", fmt.Errorf("path %q: {%s} must not be %q", template, name, v)
			}
			out.WriteString(escape(v))
			rest = after
		case c == '}' || c <= ' ' || c > '~' || c == '#' || c == '\\':
			return "", fmt.Errorf("path %q: %q at position %d is not allowed", template, c, len(template)-len(rest)+1)
		default:
			if c == '?' {
				escape = escapeQuery
			}
			out.WriteByte(c)
			rest = rest[1:]
		}
	}
	return out.String(), nil
}

// escapeQuery writes a space as %20: unlike +, every server reads that as a space.
func escapeQuery(v string) string { return strings.ReplaceAll(url.QueryEscape(v), "+", "%20") }
