package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

func (p *program) showRequest(d *ledger.Detail, spec jobs.KindSpec, known, reveal bool) {
	r := d.Request
	if d.Bare {
		p.print("request: none (only %s knows it; nothing is sent for it)", d.Dependency)
		return
	}
	if r.Method == "" {
		p.print("request: gone (only what answers duplicates is kept)")
		return
	}
	if !reveal {
		path := "(path masked)"
		if known {
			path = spec.Path
		}
		p.print("request: %s %s, %s, %s, body of %s; --reveal shows them", r.Method, path, orDash(r.ContentType),
			count(len(r.Headers), "header"), count(len(r.Body), "byte"))
		return
	}
	p.print("request: %s %s", r.Method, r.Path)
	if r.ContentType != "" {
		p.print("  Content-Type: %s", r.ContentType)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		p.print("  %s: %s", name, r.Headers[name])
	}
	p.printBody(r.Body)
	for _, n := range slices.SortedFunc(maps.Keys(d.Answers), byNumber) {
		p.print("answer to attempt %s:", n)
		p.printBody([]byte(d.Answers[n]))
	}
}

func byNumber(a, b string) int {
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return x - y
}

// printBody keeps the lines of a body.
func (p *program) printBody(body []byte) {
	switch {
	case len(body) == 0:
		p.print("  (no body)")
	case !utf8.Valid(body):
		p.print("  (%s that are not text)", count(len(body), "byte"))
	default:
		for _, line := range strings.Split(string(body), "\n") {
			p.print("  %s", strings.TrimSuffix(line, "\r"))
		}
	}
}
