package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document parses the one document of a file. Exactly one of the results is nil. must is a required
// key, which is blamed for a file without keys.
func document(src []byte, must string) (*yaml.Node, *Mistake) {
	if m := checkText(src, must); m != nil {
		return nil, m
	}
	docs, err := parse(src)
	if err != nil {
		return nil, syntaxMistake(src, err, must)
	}
	if len(docs) == 0 || empty(docs[0]) {
		return nil, &Mistake{1, 1, must, "the file is empty", "write at least the key " + must}
	}
	if len(docs) > 1 {
		m := &Mistake{docs[1].Line, docs[1].Column, must, "a second document begins here",
			`remove the line "---", or move the rest to another file`}
		if root := docs[1].Content[0]; root.Kind == yaml.MappingNode && len(root.Content) > 0 {
			m.Key = keyText(root.Content[0].Value)
		}
		return nil, m
	}
	return docs[0].Content[0], nil
}

func empty(doc *yaml.Node) bool {
	root := doc.Content[0]
	return root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null"
}

// parse returns the first two documents.
func parse(src []byte) (docs []*yaml.Node, err error) {
	// The library reports invalid input by panics, some of which it does not recover.
	defer func() {
		if v := recover(); v != nil {
			docs, err = nil, fmt.Errorf("yaml: %v", v)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for len(docs) < 2 {
		doc := new(yaml.Node)
		err := dec.Decode(doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// checkText detects characters that the library rejects without a line.
func checkText(src []byte, must string) *Mistake {
	if len(src) > maxFile {
		return &Mistake{1, 1, must, "the file is larger than 1 MiB", "name the configuration, not another file, or make it shorter"}
	}
	line, column := 1, 1
	for i := 0; i < len(src); {
		c, size := utf8.DecodeRune(src[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			return &Mistake{line, column, nearestKey(src, line, must), "the file is not UTF-8 text", "save it as UTF-8"}
		case !allowed(c, i):
			return &Mistake{line, column, nearestKey(src, line, must), fmt.Sprintf("the line holds the character %U", c), "remove it"}
		}
		column++
		if c == '\n' {
			line, column = line+1, 1
		}
		i += size
	}
	return nil
}

// allowed reports whether yaml allows a character; a byte order mark may begin the file.
func allowed(c rune, at int) bool {
	switch {
	case c == '\uFEFF':
		return at == 0
	case c == '\t', c == '\n', c == '\r', c == 0x85:
		return true
	}
	return c >= 0x20 && c <= 0x7E || c >= 0xA0 && c <= 0xFFFD || c > 0xFFFF
}

// syntaxMistake locates a syntax error.
func syntaxMistake(src []byte, err error, must string) *Mistake {
	problem := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(problem); m != nil {
		problem = problem[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	remedy := ""
	if strings.HasPrefix(problem, "unknown anchor") {
		// The rest may be a secret that begins with "*".
		problem, remedy = "an alias has no anchor", `put a text that begins with "*" in quotes, or define the anchor before`
	}
	lines := bytes.SplitAfter(src, []byte("\n"))
	line = min(max(brokenLine(lines, line), 1), len(lines))
	text := lines[line-1]
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	return &Mistake{
		Line: line, Column: len(indent) + 1, Key: nearestKey(src, line, must),
		Problem: "is not yaml: " + problem, Remedy: cmp.Or(remedy, syntaxRemedy(problem, indent)),
	}
}

// maxSearched bounds the bytes that are parsed again to find a line.
const maxSearched = 8 << 20

// brokenLine returns the line after the longest prefix of the file that is valid yaml. The library
// often reports the begin of the incomplete block or quote instead. For a file that is too large,
// brokenLine returns reported.
func brokenLine(lines [][]byte, reported int) int {
	src := bytes.Join(lines, nil)
	searched, end := 0, len(src)
	for n := len(lines); n > 0; n-- {
		end -= len(lines[n-1])
		searched += end
		if searched > maxSearched {
			return reported
		}
		if _, err := parse(src[:end]); err == nil {
			return n
		}
	}
	return reported
}

// syntaxRemedy returns the usual remedy for a syntax error.
func syntaxRemedy(problem string, indent []byte) string {
	switch {
	case bytes.ContainsRune(indent, '\t'):
		return "indent with spaces, not with tabs"
	case strings.Contains(problem, "mapping values are not allowed"):
		return `put a text that contains ": " in quotes, and check the indentation and the line before`
	case strings.Contains(problem, "expected alphabetic or numeric character"):
		return `put a text that begins with "*" or "&" in quotes`
	case strings.Contains(problem, "cannot start any token"):
		return "put the text in quotes"
	}
	return `check that each key is followed by ": ", and the quotes, brackets and indentation of this line`
}

// nearestKey returns the dotted path of the last key at or above a line, based on indentation, or must
// if there is none.
func nearestKey(src []byte, line int, must string) string {
	key := regexp.MustCompile(`^( *)["']?([A-Za-z0-9_-]{1,80})["']?\s*:(?:\s|$)`)
	lines := bytes.Split(src, []byte("\n"))
	var names []string
	for i, indent := min(line, len(lines))-1, maxFile; i >= 0 && indent > 0; i-- {
		if m := key.FindSubmatch(lines[i]); m != nil && len(m[1]) < indent {
			indent = len(m[1])
			names = append(names, string(m[2]))
		}
	}
	if len(names) == 0 {
		return must
	}
	slices.Reverse(names)
	return strings.Join(names, ".")
}
