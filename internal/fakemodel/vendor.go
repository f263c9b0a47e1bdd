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

// vendor is one format: where a call has what, what of it is refused, and how an answer is
// written.
type vendor struct {
	// says is what its file says. Of a call: key, the headers of the credential, of which the first
	// that is there counts; takes, an example with the members that are checked, of
	// which others are refused if it is strict; the paths limits, efforts, of which the first that is
	// there counts, system and tools. Of an answer: see answer.
	says  map[string]string
	takes any
	// read makes turns of a call. Its error is for status 400.
	read func(p *prompt, call any) error
	// fill is what stands for a name that is its alone.
	fill func(a *answer, b *block, name string) string
}

//go:embed vendors
var vendors embed.FS

// newVendor reads the files of a vendor, of which the later ones say what is other than in those before.
// In a file a line is a key, a colon and what is said. It goes on in lines that begin with a tab;
// lines of the same key are lines of the same.
func newVendor(files string, v vendor) *vendor {
	v.says = map[string]string{}
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
		maps.Copy(v.says, own)
	}
	for key, form := range v.says {
		v.says[key] = v.whole(form)
	}
	if err := json.Unmarshal([]byte(v.says["takes"]), &v.takes); err != nil {
		panic(fmt.Sprintf("fakemodel: what %s takes: %v", files, err))
	}
	return &v
}

// whole is a form with those that it names in it, and all other names in braces.
func (f *vendor) whole(form string) string {
	return os.Expand(form, func(name string) string {
		if named := f.says[name]; named != "" {
			return f.whole(named)
		}
		return "${" + name + "}"
	})
}

// decode reads a call, of which p has what the URL says.
func (f *vendor) decode(p *prompt, body []byte) error {
	var c any
	err := json.Unmarshal(body, &c)
	if err == nil {
		err = fits(c, f.takes, f.says["strict"] != "")
	}
	if err != nil {
		return fmt.Errorf("decode call: %w", err)
	}
	if p.model == "" {
		p.model, p.stream = text(c, "model"), get(c, "stream") == true
	}
	for path := range strings.FieldsSeq(f.says["limits"]) {
		p.maxTokens = max(p.maxTokens, number(c, path))
	}
	for path := range strings.FieldsSeq(f.says["efforts"]) {
		p.effort = cmp.Or(p.effort, text(c, path))
	}
	for path := range strings.FieldsSeq(f.says["system"]) {
		p.system += strings.Join(texts(c, path), "")
	}
	p.tools = texts(c, f.says["tools"])
	if err := f.read(p, c); err != nil {
		return err
	}
	return p.check()
}

// key returns the credential of a call: a header, of a bearer token the token, and of a signature,
// which is not checked, the id of the key that made it.
func (f *vendor) key(h http.Header) (key string) {
	for name := range strings.FieldsSeq(f.says["key"]) {
		key = cmp.Or(key, h.Get(name))
	}
	if _, signer, ok := strings.Cut(key, "Credential="); ok {
		key, _, _ = strings.Cut(signer, "/")
	}
	return strings.TrimPrefix(key, "Bearer ")
}

// errorName is the name of an error by its status.
func (f *vendor) errorName(status int) string {
	return cmp.Or(f.says[fmt.Sprint("error ", status)], f.says[fmt.Sprint("error ", status/100)])
}

// failure is the body of an error.
func (f *vendor) failure(status int, message string) json.RawMessage {
	a := &answer{of: f, p: &prompt{}, status: status, message: message}
	return json.RawMessage(a.form(fmt.Sprint("failure ", status/100), nil))
}

// partsOf are the parts of a content by their types: the path of what each shows. Types with a +
// are of what the model says, those with a - are not.
type partsOf map[string]string

// read adds content: a text, or parts.
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
		case path != "thinking": // which need not be shown
			t.texts = append(t.texts, text(part, path))
		}
		return nil
	})
}

// each adds content: a text, or parts that are each added by a function.
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

// plainID is an id of a call as Claude and Gemini take it.
var plainID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
