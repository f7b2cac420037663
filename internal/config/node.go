package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxEntries bounds how many entries one file may unfold to through aliases and
// merge keys: a few lines of them can stand for billions.
const maxEntries = 100_000

// maxMergeDepth bounds merge keys inside of what a merge key brings; a loop of
// them has no end otherwise.
const maxMergeDepth = 16

// decoder walks a syntax tree and collects what is wrong on the way.
type decoder struct {
	source   *source
	anchors  map[string]ast.Node
	entries  int // unfolded so far, see maxEntries
	merging  int // merge keys inside each other at this moment, see maxMergeDepth
	findings []finding
}

// value is a node and where it stands: the path that people write.
type value struct {
	d    *decoder
	path string
	at   position
	node ast.Node // aliases, anchors followed; nil after a problem that was reported
}

// fail reports a problem at v.
func (v value) fail(format string, args ...any) {
	v.d.findings = append(v.d.findings, finding{at: v.at, path: v.path, message: fmt.Sprintf(format, args...)})
}

// entry is one key of a mapping and its value.
type entry struct {
	key string
	at  position // of the key
	value
}

// anchor collects the anchors of a tree. A name that stands for two things is
// refused: YAML would let each alias mean the one before it, people rarely do.
func (d *decoder) anchor(n ast.Node) {
	ast.Walk(visitor(func(n ast.Node) {
		a, ok := n.(*ast.AnchorNode)
		if !ok {
			return
		}
		name := a.Name.GetToken().Value
		if _, twice := d.anchors[name]; twice {
			d.findings = append(d.findings, finding{at: place(a), message: fmt.Sprintf("the anchor &%s is given twice: rename one", name)})
		}
		d.anchors[name] = a.Value
	}), n)
}

type visitor func(ast.Node)

func (f visitor) Visit(n ast.Node) ast.Visitor { f(n); return f }

// value follows anchors and aliases from n.
func (d *decoder) value(path string, at position, n ast.Node) value {
	v := value{d: d, path: path, at: at}
	for seen := 0; ; seen++ {
		switch t := n.(type) {
		case *ast.AnchorNode:
			n = t.Value
			continue
		case *ast.AliasNode:
			name := t.Value.GetToken().Value
			target, ok := d.anchors[name]
			switch {
			case !ok:
				v.fail("alias *%s: no anchor &%s stands in this file", name, name)
				return v
			case seen > len(d.anchors): // *a -> &a *b -> &b *a
				v.fail("alias *%s leads back to itself", name)
				return v
			}
			n = target
			continue
		case *ast.TagNode:
			v.fail("the tag %s is not supported: write the value without it", t.GetToken().Value)
			return v
		}
		v.node = n
		return v
	}
}

// entriesOf returns the entries of a mapping in the file's order, those of merge
// keys behind the mapping's own, which win over them. ok is false after a problem
// that makes reading on pointless.
func (v value) entriesOf(what string) (entries []entry, ok bool) {
	own, ok := v.mapping(what)
	if !ok {
		return nil, false
	}
	byKey := map[string]position{}
	var merges []*ast.MappingValueNode
	for _, n := range own {
		if n.Key.IsMergeKey() {
			merges = append(merges, n)
			continue
		}
		e, ok := v.entry(n)
		if !ok {
			continue
		}
		if first, twice := byKey[e.key]; twice {
			if !scalar(n.Value) || confidentialPath(e.path) {
				v.d.hide(n.Value)
			}
			v.d.findings = append(v.d.findings, finding{at: e.at, path: v.path,
				message: fmt.Sprintf("%q is given twice (first in line %d): remove one", e.key, first.line)})
			continue
		}
		byKey[e.key] = e.at
		entries = append(entries, e)
	}
	for _, m := range merges {
		for _, e := range v.merged(m) {
			if _, known := byKey[e.key]; !known {
				byKey[e.key] = e.at
				entries = append(entries, e)
			}
		}
	}
	return entries, true
}

// mapping returns the raw entries of v.
func (v value) mapping(what string) ([]*ast.MappingValueNode, bool) {
	var own []*ast.MappingValueNode
	switch n := v.node.(type) {
	case nil:
		return nil, false
	case *ast.MappingNode:
		own = n.Values
	case *ast.MappingValueNode:
		own = []*ast.MappingValueNode{n}
	default:
		v.d.hide(v.node)
		v.fail("expected a mapping (%s), got %s", what, describe(v.node))
		return nil, false
	}
	if v.d.entries += len(own); v.d.entries > maxEntries {
		v.fail("aliases unfold this file to more than %d entries", maxEntries)
		return nil, false
	}
	return own, true
}

// entry reads one key.
func (v value) entry(n *ast.MappingValueNode) (entry, bool) {
	at := place(n.Key)
	key, ok := n.Key.(*ast.StringNode)
	if !ok {
		v.d.hide(n.Value)
		v.d.findings = append(v.d.findings, finding{at: at, path: v.path,
			message: fmt.Sprintf("a key must be text, got %s: put it in quotes", describe(n.Key))})
		return entry{}, false
	}
	path := key.Value
	if v.path != "" {
		path = v.path + "." + key.Value
	}
	valueAt := at
	if scalar(n.Value) {
		valueAt = place(n.Value)
	}
	e := entry{key: key.Value, at: at, value: v.d.value(path, valueAt, n.Value)}
	if _, known := v.d.source.at[path]; !known {
		v.d.source.at[path] = valueAt
	}
	return e, true
}

// list returns the items of a list, each with its number in the path, counted from
// 1 as people do. ok is false after a problem that makes reading on pointless.
func (v value) list(what string) (items []value, ok bool) {
	seq, ok := v.node.(*ast.SequenceNode)
	if !ok {
		if v.node != nil {
			v.fail("expected a list (%s), got %s", what, describe(v.node))
		}
		return nil, false
	}
	if v.d.entries += len(seq.Values); v.d.entries > maxEntries {
		v.fail("aliases unfold this file to more than %d entries", maxEntries)
		return nil, false
	}
	for i, n := range seq.Values {
		item := v.d.value(fmt.Sprintf("%s.%d", v.path, i+1), place(n), n)
		if _, known := v.d.source.at[item.path]; !known {
			v.d.source.at[item.path] = item.at
		}
		items = append(items, item)
	}
	return items, true
}

// merged returns the entries of <<: *a or <<: [*a, *b].
func (v value) merged(n *ast.MappingValueNode) []entry {
	list := []ast.Node{n.Value}
	if seq, ok := n.Value.(*ast.SequenceNode); ok {
		list = seq.Values
	}
	if v.d.merging++; v.d.merging > maxMergeDepth {
		v.fail("merge keys inside each other more than %d deep: is one of them a loop?", maxMergeDepth)
		list = nil
	}
	defer func() { v.d.merging-- }()
	var all []entry
	for _, item := range list {
		target := v.d.value(v.path, place(item), item)
		if es, ok := target.entriesOf("what << merges in"); ok {
			all = append(all, es...)
		}
	}
	return all
}

// confidentialPath reports whether what stands at path is or contains a secret.
func confidentialPath(path string) bool {
	for _, key := range strings.Split(path, ".") {
		if slices.Contains([]string{"headers", "credentials", "url", "base_url"}, key) {
			return true
		}
	}
	return false
}

// hide keeps every value below n out of excerpts.
func (d *decoder) hide(n ast.Node) {
	switch n := n.(type) {
	case nil:
	case *ast.MappingNode:
		for _, entry := range n.Values {
			d.hide(entry.Value)
		}
	case *ast.MappingValueNode:
		d.hide(n.Value)
	case *ast.SequenceNode:
		for _, item := range n.Values {
			d.hide(item)
		}
	case *ast.AnchorNode:
		d.hide(n.Value)
	case *ast.TagNode:
		d.hide(n.Value)
	case *ast.AliasNode: // a name; what it stands for is hidden where that is read
	default:
		d.hideScalar(n)
	}
}

func (d *decoder) hideScalar(n ast.Node) {
	t := n.GetToken()
	at := place(n)
	text := strings.TrimSpace(t.Origin)
	if l, ok := n.(*ast.LiteralNode); ok { // | or >: the text stands below
		text = "\n" + l.Value.GetToken().Origin
	}
	add := func(line int, s span) { d.source.masks[line] = append(d.source.masks[line], s) }
	below := strings.Count(text, "\n")
	if below == 0 {
		add(at.line, span{at.column - 1, at.column - 1 + len([]rune(text))})
		return
	}
	add(at.line, span{at.column - 1, toEndOfLine})
	for i := 1; i <= below; i++ {
		add(at.line+i, span{0, toEndOfLine})
	}
}

// scalar reports whether n stands in one place, unlike mappings and lists, whose
// own token can be far from where they begin.
func scalar(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode, *ast.AnchorNode, *ast.MappingKeyNode, nil:
		return false
	}
	return true
}

// place returns where n begins.
func place(n ast.Node) position {
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 && !m.IsFlowStyle {
			n = m.Values[0].Key // the token of a block mapping is its first colon
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// describe names the type of n in the words of an error.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.BoolNode:
		return "true or false"
	case *ast.FloatNode:
		return "a number with a fraction"
	case *ast.IntegerNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.StringNode:
		if quoted(n) {
			return "text in quotes"
		}
		return "text"
	case *ast.LiteralNode:
		return "text"
	}
	return "something else"
}

func quoted(n *ast.StringNode) bool {
	return n.Token.Type == token.DoubleQuoteType || n.Token.Type == token.SingleQuoteType
}
