package config

import (
	"cmp"
	"strings"
	"time"
)

//go:generate go test . -run TestConfigurationPage -rewrite

// knownKey is a valid key of parley.yaml.
type knownKey struct {
	// path is dotted. NAME stands for a name that the file chooses, "[]" for each item of a list.
	path string
	// kind is that of its value: text, a duration, a number, a boolean, a list, a mapping.
	kind string
	// example is a value, as yaml.
	example  string
	required bool
}

// allKeys returns every key of parley.yaml, in the order in which the reader defines them. Keys that a
// subagent shares with its agent, or a model with its provider, are listed once.
func allKeys() []knownKey {
	r, _ := newReader("parley.yaml", []byte("{}"), nil, "agents")
	r.keys = &keyList{at: map[string]int{}}
	r.server(value{node: &node{kind: broken}})
	return r.keys.all
}

// keyList collects keys instead of reading them: values are broken, so no function reads one.
type keyList struct {
	all []knownKey
	at  map[string]int // index of a path
}

// generic replaces the indexes of a path by "[]".
func generic(p *path) string { return strings.ReplaceAll(p.String(), "[0]", "[]") }

// fields adds keys, and those below them.
func (l *keyList) fields(v value, fields []field) {
	for _, f := range fields {
		child := value{at: v.at.key(f.name), node: &node{kind: broken}, name: f.name}
		at := generic(child.at)
		if _, ok := l.at[at]; ok || repeated(at) {
			continue
		}
		l.at[at] = len(l.all)
		l.all = append(l.all, knownKey{path: at, example: f.example, required: f.required})
		f.read(child)
	}
}

// repeated reports whether a key repeats one of its agent or its provider.
func repeated(path string) bool {
	if _, below, ok := strings.Cut(path, ".subagents[]."); ok {
		return below != "name" && below != "description"
	}
	return strings.Contains(path, ".models.NAME.")
}

// wants records the kind of a value, and reports whether it has children.
func (l *keyList) wants(v value, want kind) bool {
	if i, ok := l.at[generic(v.at)]; ok {
		k := &l.all[i]
		kind := string(want)
		if _, err := time.ParseDuration(k.example); err == nil && want == text {
			kind = "a duration"
		}
		k.kind = cmp.Or(k.kind, kind)
	}
	return want == mapping || want == list
}

// child returns the one value below a mapping of names, or in a list.
func (l *keyList) child(at *path, name string) []value {
	return []value{{at: at, node: &node{kind: broken}, name: name}}
}
