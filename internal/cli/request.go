package cli

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"redrive/internal/wire"
)

func (p *program) showRequest(o shown, reveal bool) {
	switch {
	case o.Bare:
		p.print("request: none (only %s knows it; nothing is sent for it)", o.Dependency)
		return
	case o.Outline == nil:
		p.print("request: gone (only what answers duplicates is kept)")
		return
	case !reveal:
		path := "(path masked)"
		if o.kind != nil {
			path = o.kind.Path
		}
		p.print("request: %s %s, %s, %s, body of %s; --reveal shows them", o.Outline.Method, path, orDash(o.Outline.ContentType),
			count(o.Outline.Headers, "header"), count(o.Outline.BodyBytes, "byte"))
		return
	}
	r := o.Request
	p.print("request: %s %s", r.Method, r.Path)
	if r.ContentType != "" {
		p.print("  Content-Type: %s", r.ContentType)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		p.print("  %s: %s", name, r.Headers[name])
	}
	p.printBody(r)
	for _, n := range slices.SortedFunc(maps.Keys(o.Answers), byNumber) {
		p.print("answer to attempt %s:", n)
		p.printText(o.Answers[n])
	}
}

func byNumber(a, b string) int {
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return x - y
}

func (p *program) printBody(r *wire.Revealed) {
	if size := base64.StdEncoding.DecodedLen(len(r.BodyBase64)); size > 0 {
		p.print("  (%s that are not text)", count(size-strings.Count(r.BodyBase64, "="), "byte"))
		return
	}
	p.printText(r.Body)
}

// printText keeps the lines of a body.
func (p *program) printText(body string) {
	switch {
	case body == "":
		p.print("  (no body)")
	case !utf8.ValidString(body):
		p.print("  (%s that are not text)", count(len(body), "byte"))
	default:
		for _, line := range strings.Split(body, "\n") {
			p.print("  %s", strings.TrimSuffix(line, "\r"))
		}
	}
}
