package luascript

import (
	"fmt"
	"regexp"
	"strings"
)

// piece is a function of a library, or what stands between two.
type piece struct {
	name string // "record.load", "latest"; "": no function, so that it always stays
	text string
}

var definition = regexp.MustCompile(`^(?:local )?function ([\w.]+)\(`)

// pieces takes a library apart. A function begins at the start of a line, and ends on it
// or with a line that is just "end".
func pieces(code string) ([]piece, error) {
	var out []piece
	open := false // inside a function
	for line := range strings.Lines(code) {
		found := definition.FindStringSubmatch(line)
		switch {
		case open && found != nil:
			return nil, fmt.Errorf("function %s begins inside %s: a function ends with a line that is just end", found[1], out[len(out)-1].name)
		case open:
			out[len(out)-1].text += line
			open = line != "end\n"
		case found != nil:
			out = append(out, piece{found[1], line})
			open = strings.HasSuffix(line, ")\n")
		default:
			out = append(out, piece{"", line})
		}
	}
	if open {
		return nil, fmt.Errorf("function %s has no line that is just end", out[len(out)-1].name)
	}
	return out, nil
}

// reached returns what of the pieces is needed by body: all that are no functions, and the
// functions that those, the body or one another name. A run of a script makes each
// function anew, called or not, and that is a large part of what a run costs.
func reached(all []piece, body string) string {
	kept := make([]bool, len(all))
	named := names(body)
	for more := true; more; {
		more = false
		for i, p := range all {
			if kept[i] || p.name != "" && !named[p.name] {
				continue
			}
			kept[i], more = true, true
			for name := range names(p.text) {
				named[name] = true
			}
		}
	}
	var out strings.Builder
	for i, p := range all {
		if kept[i] {
			out.WriteString(p.text)
		}
	}
	return out.String()
}

var dotted = regexp.MustCompile(`[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*`)

// names are the names in code that may be functions of a library: x, and x.y of x.y.z. A
// word in a string counts: too much is kept rather than too little.
func names(code string) map[string]bool {
	out := map[string]bool{}
	for _, chain := range dotted.FindAllString(code, -1) {
		parts := strings.SplitN(chain, ".", 3)
		out[parts[0]] = true
		if len(parts) > 1 {
			out[parts[0]+"."+parts[1]] = true
		}
	}
	return out
}

// Functions returns the names of the library's functions, for a test that each is needed
// by some script.
func (l Library) Functions() []string {
	parts, err := pieces(compact(strip(l.Source)))
	if err != nil {
		panic("luascript: library " + l.Name + ": " + err.Error()) // no script can be made of it either
	}
	var out []string
	for _, p := range parts {
		if p.name != "" {
			out = append(out, p.name)
		}
	}
	return out
}
