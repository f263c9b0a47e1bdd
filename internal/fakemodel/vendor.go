package fakemodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// vendor is one format: where a call has what, what of it is refused, and how an answer is
// written.
type vendor struct {
	// key returns the credential of a call.
	key func(h http.Header) string
	// call is an example of a call, with members that are checked. Others are refused if strict.
	call   any
	strict bool
	// limits, efforts and system are the paths of each, the first efforts before others; tools
	// is that of the names of tools.
	limits, efforts, system []string
	tools                   string
	// read makes turns of a call. Its error is for status 400.
	read func(p *prompt, call any) error

	// says is how an answer and its errors are written, see answer.
	says map[string]string
	// finishes is how each reason to stop is, errors the name of each status, or of all that
	// begin with a digit.
	finishes map[string]string
	errors   map[int]string
	// framed is whether events have the binary frames of AWS.
	framed bool
	// fill is what stands for a name that the other formats do not have.
	fill func(a *answer, b *block, name string) string
}

// decode reads a call, of which p has what the URL says.
func (f *vendor) decode(p *prompt, body []byte) error {
	var c any
	err := json.Unmarshal(body, &c)
	if err == nil {
		err = fits(c, f.call, f.strict)
	}
	if err != nil {
		return fmt.Errorf("decode call: %w", err)
	}
	if p.model == "" {
		p.model, p.stream = text(c, "model"), get(c, "stream") == true
	}
	for _, path := range f.limits {
		p.maxTokens = max(p.maxTokens, number(c, path))
	}
	p.effort, p.tools = first(c, f.efforts...), texts(c, f.tools)
	for _, path := range f.system {
		p.system += strings.Join(texts(c, path), "")
	}
	return f.read(p, c)
}

// failure is the body of an error.
func (f *vendor) failure(status int, message string) json.RawMessage {
	a := &answer{of: f, p: &prompt{}, status: status, message: message}
	return json.RawMessage(a.form(fmt.Sprint("failure ", status/100), nil))
}

// read adds content: a text, or parts that are each read by part.
func (t *turn) read(content any, part func(t *turn, part any) error) error {
	switch content := content.(type) {
	case nil:
		return errors.New("content is missing")
	case string:
		t.texts = append(t.texts, content)
		return nil
	case []any:
		for _, p := range content {
			if err := part(t, p); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("decode content: %T is neither a text nor a list", content)
}

// plainID is an id of a call as Claude and Gemini take it.
var plainID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func bearer(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") }

// keyOf reads a header, or a bearer token where that is not.
func keyOf(header string) func(http.Header) string {
	return func(h http.Header) string { return cmp.Or(h.Get(header), bearer(h)) }
}
