package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible escapes what a terminal would obey or hide: control and format characters
// (also those that turn the direction of text), line separators, and bytes that are
// not UTF-8.
func visible(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case hidden(r) && r != utf8.RuneError:
			b.WriteString(escaped(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// escaped writes r as JSON does, which is also how it is shown.
func escaped(r rune) string {
	if r > 0xffff {
		hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
		return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// visibleJSON escapes the same in an encoded JSON text, where such characters can
// only stand inside strings.
func visibleJSON(text []byte) []byte {
	if !strings.ContainsFunc(string(text), func(r rune) bool { return hidden(r) && r >= 0x7f && r != utf8.RuneError }) {
		return text
	}
	var b strings.Builder
	for _, r := range string(text) {
		if hidden(r) && r >= 0x7f && r != utf8.RuneError {
			b.WriteString(escaped(r))
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}
