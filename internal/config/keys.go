package config

import (
	"cmp"
	"strings"
	"time"
)

//go:generate go test . -run TestConfigurationPage -rewrite

// knownKey is a key that a parley.yaml may have.
type knownKey struct {
	// path is dotted. NAME stands for a name that the file gives, "[]" for each item of a list.
	path string
	// kind is that of its value: text, a duration, a number, a boolean, a list, a mapping.
	kind string
	// example is a value, as yaml.
	example  string
	required bool
}

// allKeys returns every key that the reader of a parley.yaml knows, in the order in which it knows them. Keys of a subagent
// that its agent has too, and those of a model that its provider has too, come once.
func allKeys() []knownKey {
	r, _ := newReader("parley.yaml", []byte("{}"), nil, "agents")
	r.keys = &keyList{at: map[string]int{}}
	r.server(value{node: &node{kind: broken}})
	return r.keys.all
}

// keyList collects keys in place of reading them: values are broken, so no function reads one.
type keyList struct {
	all []knownKey
	at  map[string]int // index of a path
}

// generic is a path in which indexes are "[]".
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

// repeated reports whether a key is one of its agent, or of its provider, once more.
func repeated(path string) bool {
	if _, below, ok := strings.Cut(path, ".subagents[]."); ok {
		return below != "name" && below != "description"
	}
	return strings.Contains(path, ".models.NAME.")
}

// wants notes what a value has to be, and reports whether there is something below it.
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

// child is the one value below a mapping of names, or in a list.
func (l *keyList) child(at *path, name string) []value {
	return []value{{at: at, node: &node{kind: broken}, name: name}}
}
