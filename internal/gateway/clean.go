package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	cutMark = "… (cut)"
	hidden  = "[hidden]"
	// minSecretBytes: blotting out anything shorter would only tear the text apart.
	minSecretBytes = 4
)

// openHeaders are configured headers whose values are no secret and are likely to
// stand in an answer.
var openHeaders = []string{"Accept", "Accept-Charset", "Accept-Language", "Content-Type", "User-Agent"}

// secretsOf returns what blots out the configured header values of a text, in the
// forms in which a server may give them back: as sent, without the scheme, and as
// JSON or a URL writes them.
func secretsOf(h http.Header) *strings.Replacer {
	var forms []string
	for name, values := range h {
		if slices.Contains(openHeaders, http.CanonicalHeaderKey(name)) {
			continue
		}
		for _, value := range values {
			forms = append(forms, formsOf(value)...)
			if _, token, ok := strings.Cut(value, " "); ok {
				forms = append(forms, formsOf(strings.TrimSpace(token))...)
			}
		}
	}
	// Longest first: the replacer takes the first that fits.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, form := range forms {
		pairs = append(pairs, form, hidden)
	}
	return strings.NewReplacer(pairs...)
}

func formsOf(secret string) []string {
	if len(secret) < minSecretBytes {
		return nil
	}
	forms := []string{secret, url.QueryEscape(secret), strings.ReplaceAll(secret, "/", `\/`)}
	if quoted, err := json.Marshal(secret); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	return forms
}

// cleanText makes text fit for every store and screen: valid UTF-8 without NUL.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// cleanLine cuts clean text to one line of at most limit bytes, with a mark.
func cleanLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	return cutAt(s, limit-len(cutMark)) + cutMark
}

// keep returns what the ledger may store of a body, and whether that is less than
// all of it. Secrets go before the cut, so that none is left in half.
func keep(body []byte, s *strings.Replacer) (kept []byte, cut bool) {
	text := s.Replace(cleanText(string(body)))
	if len(text) <= MaxKeptBytes {
		return []byte(text), false
	}
	return []byte(cutAt(text, MaxKeptBytes)), true
}

// cutAt cuts valid UTF-8 to at most n bytes without splitting a character.
func cutAt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
