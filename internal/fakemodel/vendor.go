package fakemodel

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// vendor is one format: the location of values in a call, the checks, and the encoding of responses.
type vendor struct {
	// forms is the content of its file. For calls: key lists the credential headers, of which the
	// first one present counts; takes is an example with the validated members, which are the only
	// allowed ones if strict is set; limits and efforts list paths, of which the first one present
	// counts; system and tools are paths. For responses see [answer].
	forms map[string]string
	takes any
	// read converts a call to turns. Its error causes status 400.
	read func(p *prompt, call any) error
	// fill implements names that only this vendor's forms contain.
	fill func(a *answer, b *block, name string) string
}

//go:embed vendors
var vendors embed.FS

// newVendor reads the files of a vendor; later ones override earlier ones. A line has a key, a colon
// and a form, and continues in lines that begin with a tab. Lines with the same key are lines of one
// form.
func newVendor(files string, v vendor) *vendor {
	v.forms = map[string]string{}
	for file := range strings.FieldsSeq(files) {
		text, err := vendors.ReadFile("vendors/" + file + ".txt")
		if err != nil {
			panic(err)
		}
		own := map[string]string{}
		for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\n\t", ""), "\n") {
			if key, value, ok := strings.Cut(line, ": "); ok && line[0] != '#' {
				own[key] = strings.TrimPrefix(own[key]+"\n"+value, "\n")
			}
		}
		maps.Copy(v.forms, own)
	}
	for key, form := range v.forms {
		v.forms[key] = v.whole(form)
	}
	if err := json.Unmarshal([]byte(v.forms["takes"]), &v.takes); err != nil {
		panic(fmt.Sprintf("fakemodel: decode takes of %s: %v", files, err))
	}
	return &v
}

// whole inlines the forms that a form names, and puts other names in braces.
func (f *vendor) whole(form string) string {
	return os.Expand(form, func(name string) string {
		if named := f.forms[name]; named != "" {
			return f.whole(named)
		}
		return "${" + name + "}"
	})
}

// decode decodes a call. p has the values of the URL.
func (f *vendor) decode(p *prompt, body []byte) error {
	var c any
	err := json.Unmarshal(body, &c)
	if err == nil {
		err = fits(c, f.takes, f.forms["strict"] != "")
	}
	if err != nil {
		return fmt.Errorf("decode call: %w", err)
	}
	if p.model == "" {
		p.model, p.stream = text(c, "model"), get(c, "stream") == true
	}
	for path := range strings.FieldsSeq(f.forms["limits"]) {
		p.maxTokens = max(p.maxTokens, number(c, path))
	}
	for path := range strings.FieldsSeq(f.forms["efforts"]) {
		p.effort = cmp.Or(p.effort, text(c, path))
	}
	for path := range strings.FieldsSeq(f.forms["system"]) {
		p.system += strings.Join(texts(c, path), "")
	}
	p.tools = texts(c, f.forms["tools"])
	if err := f.read(p, c); err != nil {
		return err
	}
	return p.check()
}

// key returns the credential of a call: a header, a bearer token, or the key id of a signature, which
// is not verified.
func (f *vendor) key(h http.Header) (key string) {
	for name := range strings.FieldsSeq(f.forms["key"]) {
		key = cmp.Or(key, h.Get(name))
	}
	if _, signer, ok := strings.Cut(key, "Credential="); ok {
		key, _, _ = strings.Cut(signer, "/")
	}
	return strings.TrimPrefix(key, "Bearer ")
}

// errorName returns the name of an error by its status.
func (f *vendor) errorName(status int) string {
	return cmp.Or(f.forms[fmt.Sprint("error ", status)], f.forms[fmt.Sprint("error ", status/100)])
}

func (f *vendor) failure(status int, message string) json.RawMessage {
	a := &answer{of: f, p: &prompt{}, status: status, message: message}
	return json.RawMessage(a.form(fmt.Sprint("failure ", status/100), nil))
}

// partsOf maps types of parts to the path of their content. Types with a + are allowed in model output
// only, those with a - are not allowed there.
type partsOf map[string]string

// read adds content: a text, or a list of parts.
func (t *turn) read(content any, parts partsOf) error {
	return t.each(content, func(part any) error {
		kind, side := text(part, "type"), "-"
		if t.side == sideAssistant {
			side = "+"
		}
		path, ok := parts[kind]
		if !ok {
			path, ok = parts[side+kind]
		}
		switch {
		case !ok || path == "thinking" && len(list(part, path)) == 0:
			return fmt.Errorf("invalid value %q of a part of %s", kind, t.side)
		case strings.HasPrefix(path, "image_url"):
			return t.showURL(get(part, path))
		case path != "thinking": // reasoning may be omitted
			t.texts = append(t.texts, text(part, path))
		}
		return nil
	})
}

// each adds content: a text, or a list of parts, which add converts.
func (t *turn) each(content any, add func(part any) error) error {
	switch content := content.(type) {
	case nil:
		return errors.New("content is missing")
	case string:
		t.texts = append(t.texts, content)
		return nil
	case []any:
		for _, part := range content {
			if err := add(part); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("decode content: %T is neither a text nor a list", content)
}

// plainID matches call ids that Claude and Gemini accept.
var plainID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
