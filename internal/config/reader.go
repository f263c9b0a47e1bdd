package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// value is a node and its position.
type value struct {
	at           *path
	node         *node
	line, column int    // position of its key, or of the item of a list
	name         string // name of its key
	example      string // valid "key: value"
}

// field is a key that a mapping may have.
type field struct {
	name    string
	example string // example of a value, as yaml
	read    func(value)
	// required makes its absence a mistake.
	required bool
}

// check validates a text.
type check func(text string) fault

// reader converts nodes to values and collects mistakes. It reads one file.
type reader struct {
	opts     Options
	file     string
	must     string
	mistakes []Mistake
	// seen holds the values of known keys by dotted path, blamed the paths that have a mistake.
	seen   map[string]value
	blamed map[string]bool
	// mounted holds the mounts of the file so far.
	mounted map[string]value
	// blankKeys is that of Server.
	blankKeys map[string]string
	// keys collects the known keys instead of reading them; nil otherwise.
	keys *keyList
}

// newReader returns the document of a file, nil if it cannot be read.
func newReader(file string, src []byte, opts *Options, must string) (*reader, *node) {
	r := &reader{file: file, must: must, seen: map[string]value{}, blamed: map[string]bool{}, mounted: map[string]value{}, blankKeys: map[string]string{}}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.Env == nil {
		r.opts.Env = os.LookupEnv
	}
	doc, m := document(src, must)
	if m != nil {
		r.mistakes = append(r.mistakes, *m)
		return r, nil
	}
	b := &builder{blame: r.add, built: map[*yaml.Node]*node{}}
	return r, b.build(doc, nil, 0)
}

func (r *reader) err() error {
	if len(r.mistakes) == 0 {
		return nil
	}
	return newError(r.file, r.mistakes)
}

func (r *reader) add(at *path, line, column int, f fault) {
	key := at.String()
	if key == "" {
		key = r.must
	}
	r.blamed[key] = true
	r.mistakes = append(r.mistakes, Mistake{max(line, 1), max(column, 1), key, f.problem, f.remedy})
}

// blame reports a mistake of a value, blameKey one of its key.
func (r *reader) blame(v value, f fault)    { r.add(v.at, v.node.line, v.node.column, f) }
func (r *reader) blameKey(v value, f fault) { r.add(v.at, v.line, v.column, f) }

// given returns the value of a known key of a mapping.
func (r *reader) given(v value, name string) (value, bool) {
	child, ok := r.seen[v.at.key(name).String()]
	return child, ok
}

// missing reports a required key that a mapping lacks.
func (r *reader) missing(v value, name, example string) {
	r.add(v.at.key(name), v.line, v.column, fault{"is missing", "add for example " + name + ": " + example})
}

// is reports whether a value has a kind, and adds a mistake if it does not.
func (r *reader) is(v value, want kind) bool {
	if r.keys != nil {
		return r.keys.wants(v, want)
	}
	switch have := v.node.kind; {
	case have == want:
		return true
	case have == broken:
	case have == null:
		remedy := "write for example " + v.example
		if v.example == "" {
			remedy = "write one, or remove the key"
		}
		r.blameKey(v, fault{"has no value", remedy})
	case want == text && v.example == "":
		r.blameKey(v, fault{fmt.Sprintf("is %s, want text", have), "put it in quotes"})
	default:
		r.blameKey(v, fault{fmt.Sprintf("is %s, want %s", have, want), "write for example " + v.example})
	}
	return false
}

// fields reads a mapping with known keys.
func (r *reader) fields(v value, fields []field) {
	if !r.is(v, mapping) {
		return
	}
	if r.keys != nil {
		r.keys.fields(v, fields)
		return
	}
	have := map[string]bool{}
	for _, p := range v.node.pairs {
		child := value{at: v.at.key(p.name), node: p.value, line: p.line, column: p.column, name: p.name}
		known := false
		for _, f := range fields {
			if f.name == p.name {
				known = true
				child.example = f.name + ": " + f.example
				r.seen[child.at.String()] = child
				f.read(child)
			}
		}
		have[p.name] = true
		if !known {
			r.blameKey(child, unknownKey(p.name, fields))
		}
	}
	for _, f := range fields {
		if f.required && !have[f.name] {
			r.missing(v, f.name, f.example)
		}
	}
}

// entries returns the values of a mapping with arbitrary names, without those whose kind differs from
// example.
func (r *reader) entries(v value, example string) []value {
	if !r.is(v, mapping) {
		return nil
	}
	if r.keys != nil {
		return r.keys.child(v.at.key("NAME"), "NAME")
	}
	var out []value
	for _, p := range v.node.pairs {
		child := value{at: v.at.key(p.name), node: p.value, line: p.line, column: p.column, name: p.name}
		if example != "" {
			child.example = keyText(p.name) + ": " + example
		}
		out = append(out, child)
	}
	return out
}

// items returns the values of a list.
func (r *reader) items(v value) []value {
	if !r.is(v, list) {
		return nil
	}
	if r.keys != nil {
		return r.keys.child(v.at.item(0), "")
	}
	var out []value
	for i, n := range v.node.items {
		out = append(out, value{at: v.at.item(i), node: n, line: n.line, column: n.column, example: v.example})
	}
	return out
}

// checked reads a text and reports the first failed check.
func (r *reader) checked(v value, checks ...check) (string, bool) {
	if !r.is(v, text) {
		return "", false
	}
	for _, c := range checks {
		if f := c(v.node.text); f != (fault{}) {
			r.blame(v, f)
			return v.node.text, false
		}
	}
	return v.node.text, true
}

// text reads a text; the empty one leaves dst unchanged.
func (r *reader) text(dst *string, checks ...check) func(value) {
	return func(v value) {
		if v.node.kind == text && v.node.text == "" {
			return
		}
		// An invalid text is kept too, so that it does not count as missing.
		if s, _ := r.checked(v, checks...); s != "" {
			*dst = s
		}
	}
}

// texts reads a list of different texts.
func (r *reader) texts(dst *[]string, checks ...check) func(value) {
	return func(v value) {
		first := map[string]int{}
		for i, item := range r.items(v) {
			s, ok := r.checked(item, checks...)
			if !ok {
				continue
			}
			if j, ok := first[s]; ok {
				r.blame(item, fault{fmt.Sprintf("%s is in the list twice, first as item %d", quote(s), j+1), "remove one of the two"})
				continue
			}
			first[s] = i
			*dst = append(*dst, s)
		}
	}
}

// whole reads a number that is 1 or more.
func (r *reader) whole(set func(int64)) func(value) { return r.count(1, set) }

// count reads a number that is least or more.
func (r *reader) count(least int64, set func(int64)) func(value) {
	return func(v value) {
		if !r.is(v, number) {
			return
		}
		remedy := "write for example " + v.example + ", or remove the key for the default"
		if !v.node.isWhole() {
			r.blame(v, fault{fmt.Sprintf("%s is not a whole decimal number", quote(v.node.text)), remedy})
			return
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(v.node.text, "_", ""), 10, strconv.IntSize)
		switch {
		case err != nil:
			r.blame(v, fault{fmt.Sprintf("%s is too large or too small", quote(v.node.text)), remedy})
		case n < least:
			r.blame(v, fault{fmt.Sprintf("is %d, want %d or more", n, least), remedy})
		default:
			set(n)
		}
	}
}

// truth reads true or false.
func (r *reader) truth(set func(bool)) func(value) {
	return func(v value) {
		if v.node.kind == text {
			r.blame(v, fault{fmt.Sprintf("%s is text, want true or false", quote(v.node.text)), "write for example " + v.example})
			return
		}
		if !r.is(v, boolean) {
			return
		}
		b, err := strconv.ParseBool(v.node.text)
		if err != nil { // an explicit tag
			r.blame(v, fault{fmt.Sprintf("%s is neither true nor false", quote(v.node.text)), "write for example " + v.example})
			return
		}
		set(b)
	}
}

// duration reads a text such as 1h30m.
func (r *reader) duration(dst *time.Duration) func(value) {
	return func(v value) {
		s, ok := r.checked(v)
		if !ok || s == "" {
			return
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			r.blame(v, fault{fmt.Sprintf("%s is not a duration", quote(s)), `write numbers with h, m or s, for example "1h30m"`})
			return
		}
		*dst = d
	}
}

// needs reports whether the variable named by v must be set.
func (r *reader) needs(v value) bool {
	at := v.at.String()
	return r.opts.Needs == nil || slices.ContainsFunc(r.opts.Needs, func(key string) bool { return at == key || strings.HasPrefix(at, key+".") })
}

// variable reads the name of an environment variable and resolves it.
func (r *reader) variable(dst *string) func(value) {
	return r.variableOr(dst, func(v value, shown string, set bool) {
		problem := " is empty"
		if !set {
			problem = " is not set"
		}
		r.blame(v, fault{shown + problem, "export it and start again, or remove the key"})
	})
}

// variableOr is variable with a function for a variable that is unset or blank. shown describes the
// variable without a secret that was written in place of its name.
func (r *reader) variableOr(dst *string, blank func(v value, shown string, set bool)) func(value) {
	return func(v value) {
		name, ok := r.checked(v)
		if !ok || name == "" {
			return
		}
		// A secret in place of the name must not be shown, so only text that looks like a variable
		// name is.
		shown := "the named environment variable"
		if regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,63}$`).MatchString(name) {
			shown = "the environment variable " + name
		} else if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) {
			remedy := "put the secret into an environment variable and write its name, for example " + v.example
			if regexp.MustCompile(`^\$\{?[A-Za-z_][A-Za-z0-9_]*\}?$`).MatchString(name) {
				remedy = `write only the name, without "$" and braces, for example ` + v.example
			}
			r.blame(v, fault{"is not the name of an environment variable", remedy})
			return
		}
		secret, set := r.opts.Env(name)
		secret = strings.TrimSpace(secret)
		switch {
		case secret == "" && !r.needs(v):
		case secret == "":
			blank(v, shown, set)
		case strings.ContainsFunc(secret, func(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) }):
			r.blame(v, fault{shown + " contains a space or a line break", "export only the secret"})
		default:
			*dst = secret
		}
	}
}
