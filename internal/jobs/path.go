package jobs

import (
	"fmt"
	"net/url"
	"strings"
)

// RenderPath fills a kind's path template: {key} with the operation's key and
// {params.NAME} with a param, each escaped for where it stands (a path segment,
// or the query after the first question mark), so that no value can leave its
// place. A value that is empty, "." or ".." is refused: it would name another
// resource than the template says.
func RenderPath(template string, key Key, params map[string]string) (string, error) {
	return renderPath(template, func(name string) (string, error) {
		if name == "key" {
			return string(key), nil
		}
		param, _ := strings.CutPrefix(name, "params.")
		value, ok := params[param]
		if !ok {
			return "", fmt.Errorf("the submission has no param %q", param)
		}
		return value, nil
	})
}

// CheckPathTemplate reports why template cannot be a kind's path: it must begin
// with one slash, hold only printable ASCII without space, backslash and #, and
// use no placeholder but {key} and {params.NAME}.
func CheckPathTemplate(template string) error {
	_, err := renderPath(template, func(string) (string, error) { return "x", nil })
	return err
}

func renderPath(template string, value func(name string) (string, error)) (string, error) {
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
			if err := checkPlaceholder(name); err != nil {
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

func checkPlaceholder(name string) error {
	if param, ok := strings.CutPrefix(name, "params."); ok && param != "" || name == "key" {
		return nil
	}
	return fmt.Errorf("unknown placeholder {%s} (want {key} or {params.NAME})", name)
}

// escapeQuery writes a space as %20: unlike +, every server reads that as a space.
func escapeQuery(v string) string { return strings.ReplaceAll(url.QueryEscape(v), "+", "%20") }
