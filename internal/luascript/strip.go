package luascript

import "strings"

// strip removes comments, and leaves strings as they are: Redis keeps each script's
// source in memory, and gets it over the wire whenever it forgot it. Line breaks
// stay, so that a line keeps its number.
func strip(source string) string {
	var out strings.Builder
	for rest := source; rest != ""; {
		n, comment := token(rest)
		if comment {
			out.WriteString(" " + strings.Repeat("\n", strings.Count(rest[:n], "\n")))
		} else {
			out.WriteString(rest[:n])
		}
		rest = rest[n:]
	}
	return out.String()
}

// token returns the length of what s begins with: a comment, a string, or one byte
// of code.
func token(s string) (n int, comment bool) {
	if after, ok := strings.CutPrefix(s, "--"); ok {
		if n := long(after); n > 0 {
			return 2 + n, true
		}
		if n := strings.IndexByte(s, '\n'); n >= 0 {
			return n, true
		}
		return len(s), true
	}
	if n := long(s); n > 0 {
		return n, false
	}
	if s[0] == '\'' || s[0] == '"' {
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case s[0], '\n':
				return i + 1, false
			}
		}
		return len(s), false
	}
	return 1, false
}

// long returns the length of the long bracket that s begins with ([[ … ]], or
// [=[ … ]=] with as many equals signs at both ends), 0 if it begins with none.
func long(s string) int {
	level := 0
	for level+1 < len(s) && s[level+1] == '=' {
		level++
	}
	if s == "" || s[0] != '[' || level+1 >= len(s) || s[level+1] != '[' {
		return 0
	}
	end := strings.Index(s, "]"+strings.Repeat("=", level)+"]")
	if end < 0 {
		return len(s)
	}
	return end + level + 2
}

// compact drops blank lines and spaces at the ends of lines. It knows nothing of
// strings over several lines, which no script has.
func compact(source string) string {
	var out strings.Builder
	for line := range strings.Lines(source) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}
