package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// pageHead is the part of docs/configuration.md above its tables.
const pageHead = `# Configuration

This page lists every key of parley.yaml with the kind of its value, its default and its meaning. "parley serve" and "parley dev"
read the file when they start and report all mistakes at once, each with a line and a remedy. Examples are in [README.md](../README.md) and
[deploy/](../deploy/README.md).

Secrets are never in the file: a key that ends in "Env" names the environment variable of a secret. A flag overrides its variable,
such as "PARLEY_LISTEN" for "--listen", which overrides the file. NAME is a name that you choose, "[]" an item of a list. A file for
"parley run" has the keys of one agent except "mounts", and the keys "name" and "providers".

This page is generated from the reader of the file. After a change of the reader, describe the key in
internal/config/testdata/meanings.txt and run "go test ./internal/config -run TestConfigurationPage -rewrite".
`

// meaning is the default of a key and its description.
type meaning struct{ fallback, text string }

func meanings(t *testing.T) map[string]meaning {
	t.Helper()
	src, err := os.ReadFile("testdata/meanings.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]meaning{}
	for line := range strings.Lines(string(src)) {
		parts := strings.SplitN(strings.TrimSpace(line), "|", 3)
		if len(parts) != 3 {
			t.Fatalf("testdata/meanings.txt: got %q, want path | default | text", line)
		}
		all[strings.TrimSpace(parts[0])] = meaning{strings.TrimSpace(parts[1]), strings.TrimSpace(parts[2])}
	}
	return all
}

// listed are keys whose members are described in their row.
var listed = []string{"providers.NAME.compat", "providers.NAME.thinkingLevelMap"}

// page generates docs/configuration.md.
func page(t *testing.T) []byte {
	known, described := allKeys(), meanings(t)
	// Keys without children come first, under one heading.
	all := slices.Clone(known)
	slices.SortStableFunc(known, func(a, b knownKey) int {
		return strings.Compare(order(all, a), order(all, b))
	})
	var b bytes.Buffer
	b.WriteString(strings.ReplaceAll(pageHead, `"`, "`"))
	section := ""
	for _, k := range known {
		top, _, _ := strings.Cut(k.path, ".")
		if i := strings.LastIndex(k.path, "."); i >= 0 && slices.Contains(listed, k.path[:i]) {
			continue
		}
		m, ok := described[k.path]
		if !ok {
			t.Errorf("key %s has no line in testdata/meanings.txt: add %q there", k.path, k.path+" | default | text")
		}
		delete(described, k.path)
		if heading := headingOf(known, top); heading != section {
			section = heading
			fmt.Fprintf(&b, "\n## %s\n\n| key | kind | default | meaning |\n|---|---|---|---|\n", section)
		}
		if k.kind == "" {
			t.Errorf("key %s: the reader asks for no kind of value", k.path)
		}
		if k.required {
			m.fallback = strings.TrimSuffix("required, "+m.fallback, ", ")
		}
		if slices.Contains(listed, k.path) {
			var members []string
			for _, other := range known {
				if name, ok := strings.CutPrefix(other.path, k.path+"."); ok {
					members = append(members, "`"+name+"`")
				}
			}
			m.text += ": " + strings.Join(members, ", ")
		}
		if m.fallback == "" {
			m.fallback = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.path, strings.TrimPrefix(k.kind, "a "), m.fallback, m.text)
	}
	for path := range described {
		t.Errorf("testdata/meanings.txt describes %s, which the reader does not know: remove the line", path)
	}
	return b.Bytes()
}

// order is "0" for a key that stands alone, and "1" for others.
func order(known []knownKey, k knownKey) string {
	if top, _, _ := strings.Cut(k.path, "."); headingOf(known, top) == "Server" {
		return "0"
	}
	return "1"
}

// headingOf is the top key if it has others below it, and "Server" for single ones.
func headingOf(known []knownKey, top string) string {
	for _, k := range known {
		if strings.HasPrefix(k.path, top+".") {
			return "`" + top + "`"
		}
	}
	return "Server"
}

// TestConfigurationPage: the page has every key that the reader of parley.yaml knows, and no other one.
func TestConfigurationPage(t *testing.T) {
	const name = "../../docs/configuration.md"
	want := page(t)
	// The other tests of the package define the flag.
	if flag.Lookup("rewrite").Value.String() == "true" && !t.Failed() {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		line := 0
		wanted := strings.Split(string(want), "\n")
		for i, l := range strings.Split(string(got), "\n") {
			if i >= len(wanted) || l != wanted[i] {
				line = i + 1
				break
			}
		}
		t.Errorf("docs/configuration.md differs from the reader of parley.yaml, from line %d on: run go test ./internal/config -run TestConfigurationPage -rewrite", line)
	}
}

// TestKeysMatchReader: the example of each key at the top is read without a mistake about a key, so that the list
// of keys is of the reader that reads files.
func TestKeysMatchReader(t *testing.T) {
	keys := allKeys()
	if len(keys) < 200 {
		t.Errorf("got %d keys, want 200 or more", len(keys))
	}
	opts := &Options{Env: func(string) (string, bool) { return "set", true }}
	for _, k := range keys {
		if strings.Contains(k.path, ".") {
			continue
		}
		if _, err := Parse("parley.yaml", []byte(k.path+": "+k.example+"\n"), opts); err != nil && strings.Contains(err.Error(), "the key is unknown") {
			t.Errorf("%s: %v", k.path, err)
		}
	}
}
