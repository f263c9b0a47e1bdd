package config

import (
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth bounds the nesting of values.
	maxDepth = 100
	// maxRepeated bounds the values that all aliases repeat.
	maxRepeated = 10_000
)

// kind is the type of a value, as named in mistakes.
type kind string

const (
	text    kind = "text"
	number  kind = "a number"
	boolean kind = "a boolean"
	null    kind = "nothing"
	mapping kind = "a mapping"
	list    kind = "a list"
	// broken values were already reported and are ignored.
	broken kind = "broken"
)

// node is an immutable value of the file. Nodes are shared where the file has aliases.
type node struct {
	kind         kind
	text         string // of text, number and boolean, as written
	line, column int
	pairs        []pair
	items        []*node
	size         int // number of values, including itself
}

// pair is an entry of a mapping. Names are unique.
type pair struct {
	name         string
	line, column int // position of the name
	value        *node
}

// builder converts the library's nodes.
type builder struct {
	blame func(at *path, line, column int, f fault)
	// built holds the targets of aliases; nil while one is being built.
	built    map[*yaml.Node]*node
	repeated int
}

// build never returns nil.
func (b *builder) build(n *yaml.Node, at *path, depth int) *node {
	if n.Kind == yaml.AliasNode {
		return b.alias(n, at)
	}
	out := &node{kind: kindOf(n), text: n.Value, line: n.Line, column: n.Column, size: 1}
	if n.Anchor != "" {
		b.built[n] = nil
		defer func() { b.built[n] = out }()
	}
	switch {
	case out.kind == broken:
		b.blame(at, n.Line, n.Column, fault{"has an invalid tag", "remove the tag; no key needs one"})
	case depth > maxDepth:
		out.kind = broken
		b.blame(at, n.Line, n.Column, fault{fmt.Sprintf("is nested more than %d levels deep", maxDepth), "reduce the nesting"})
	case out.kind == mapping:
		lines := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			b.pair(out, n.Content[i], n.Content[i+1], lines, at, depth)
		}
	case out.kind == list:
		for i, item := range n.Content {
			v := b.build(item, at.item(i), depth+1)
			out.items = append(out.items, v)
			out.size += v.size
		}
	}
	return out
}

// alias returns the target of an alias.
func (b *builder) alias(n *yaml.Node, at *path) *node {
	out := b.built[n.Alias]
	var f fault
	switch {
	case out == nil:
		f = fault{"the alias refers to itself", "write the value in its place"}
	case b.repeated > maxRepeated: // was reported
		return &node{kind: broken, line: n.Line, column: n.Column, size: 1}
	case b.repeated+out.size > maxRepeated:
		b.repeated = maxRepeated + 1
		f = fault{fmt.Sprintf("aliases repeat more than %d values", maxRepeated), "write the values in their places"}
	default:
		b.repeated += out.size
		return out
	}
	b.blame(at, n.Line, n.Column, f)
	return &node{kind: broken, line: n.Line, column: n.Column, size: 1}
}

// pair adds an entry to a mapping unless its name is invalid. lines holds the names so far.
func (b *builder) pair(out *node, key, val *yaml.Node, lines map[string]int, at *path, depth int) {
	name := b.build(key, at, depth+1)
	// Built in any case: an alias may refer to it.
	v := b.build(val, at.key(name.text), depth+1)
	out.size += v.size
	switch name.kind {
	case broken:
		return
	case null, mapping, list:
		b.blame(at, key.Line, key.Column, fault{fmt.Sprintf("a key is %s, want text", name.kind), "write the key as plain text"})
		return
	}
	if key.ShortTag() == "!!merge" {
		b.blame(at.key(name.text), key.Line, key.Column, fault{"merge keys are not supported", "write the keys out, or use an alias for a whole value"})
		return
	}
	if line, ok := lines[name.text]; ok {
		b.blame(at.key(name.text), key.Line, key.Column,
			fault{fmt.Sprintf("the key is duplicated, first on line %d", line), "remove one of the two"})
		return
	}
	lines[name.text] = key.Line
	out.pairs = append(out.pairs, pair{name.text, key.Line, key.Column, v})
}

// kindOf returns broken for a tag that does not fit its value or is unknown.
func kindOf(n *yaml.Node) kind {
	switch tag := n.ShortTag(); n.Kind {
	case yaml.MappingNode:
		if tag == "!!map" {
			return mapping
		}
	case yaml.SequenceNode:
		if tag == "!!seq" {
			return list
		}
	case yaml.ScalarNode:
		switch tag {
		case "!!str", "!!timestamp", "!!merge": // Dates are texts.
			return text
		case "!!int", "!!float":
			return number
		case "!!bool":
			return boolean
		case "!!null":
			return null
		}
	}
	return broken
}

// isWhole reports whether a number is a decimal integer, optionally with underscores between its
// digits.
func (n *node) isWhole() bool {
	return regexp.MustCompile(`^[-+]?(0|[1-9](_?[0-9])*)$`).MatchString(n.text)
}
