package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
)

// maxKey is the maximum length of an idempotencyKey, in characters.
const maxKey = 256

// shortText is the longest text that is decoded from one piece, in bytes as
// written.
const shortText = 64 << 10

// prompt is a checked request body.
type prompt struct {
	delivery    conversation.Delivery
	condition   conversation.Condition
	initialData json.RawMessage // nil if absent
	key         string          // "" if the caller sent none
	// files are the decoded attachments, in the order of delivery.Attachments.
	files []*spool
}

// Close releases the decoded attachments.
func (p *prompt) Close() error {
	var errs []error
	for _, f := range p.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// promptReader reads a prompt out of a spooled body.
type promptReader struct {
	opts *Options
	body *spool
	has  fields
	// budget is the number of bytes of text that may still be read into memory, apart from the
	// delivery's body.
	budget int64
	out    prompt
	words  vocabulary
}

// vocabulary contains the member names of a message in one line of the protocol.
type vocabulary struct{ body, attachments string }

// current is the vocabulary of the current line.
var current = vocabulary{body: "body", attachments: "attachments"}

// readPrompt decodes and validates a spooled body. The caller closes the prompt. A rejected body
// leaves no open file.
func readPrompt(opts *Options, body *spool) (*prompt, error) {
	has, err := locate(body, "kind and body")
	if err != nil {
		return nil, err
	}
	p := &promptReader{opts: opts, body: body, has: has, budget: opts.MaxTextBytes, words: current}
	return p.finish(p.read())
}

// finish returns the prompt, or closes it on error.
func (p *promptReader) finish(err error) (*prompt, error) {
	if err != nil {
		return nil, errors.Join(err, p.out.Close())
	}
	return &p.out, nil
}

// read validates the cheap members first, so that an invalid body is rejected before attachments are
// decoded.
func (p *promptReader) read() error {
	kind, err := p.kind()
	if err != nil {
		return err
	}
	p.out.delivery.Kind = kind
	if err := p.text(); err != nil {
		return err
	}
	if kind == conversation.KindSignal {
		if err := p.signal(); err != nil {
			return err
		}
	}
	if err := p.siblings(); err != nil {
		return err
	}
	if v, ok := p.has["attachments"]; ok && kind == conversation.KindUser {
		if err := p.attachments(v); err != nil {
			return err
		}
	}
	// Last, because it concerns members that are valid by themselves.
	if p.out.condition.Set && p.out.initialData != nil {
		return invalid("A uid and initialData contradict each other: initialData is for a conversation that is to be created.")
	}
	return nil
}

func (p *promptReader) kind() (conversation.Kind, error) {
	const shape = `The body must be {"kind":"user","body":…,"attachments"?:…} or {"kind":"signal","type":…,"body":…}`
	v, ok := p.has["kind"]
	if !ok {
		if _, nested := p.has["message"]; nested {
			return "", invalid("The message must not be nested in a message member. %s, with uid, initialData and "+
				"idempotencyKey at the same level.", shape)
		}
		return "", invalid("The member kind is missing. %s.", shape)
	}
	kind, err := p.string("kind", v)
	if err != nil {
		return "", err
	}
	switch k := conversation.Kind(kind); k {
	case conversation.KindUser, conversation.KindSignal:
		return k, nil
	}
	return "", invalid("The member kind is %.40q. %s.", kind, shape)
}

// text reads the delivery's body.
func (p *promptReader) text() error {
	name := p.words.body
	v, ok := p.has[name]
	if !ok {
		return invalid("The member %s is missing; it must be a string.", name)
	}
	if is, err := p.isString(v); err != nil || !is {
		return errors.Join(err, invalidType(is, name, "a string"))
	}
	text, err := p.decoded(v)
	if err != nil {
		return fmt.Errorf("read spooled body: %w", err)
	}
	if limit := p.opts.MaxTextBytes; int64(len(text)) > limit {
		return invalid("The member %s is longer than the limit of %d bytes.", name, limit)
	}
	p.out.delivery.Body = text
	return nil
}

// decoded returns the content of a scanned string. Content longer than MaxTextBytes may be truncated
// after the first byte over the limit.
func (p *promptReader) decoded(v span) (string, error) {
	if v.size() <= shortText {
		raw, err := p.body.bytes(v)
		if err != nil {
			return "", err
		}
		return unquote(raw[1 : len(raw)-1])
	}
	r, err := newStringReader(p.body.reader(v))
	if err != nil {
		return "", err
	}
	limit := p.opts.MaxTextBytes
	var b strings.Builder
	b.Grow(int(min(v.size(), limit+1))) // decoded text is rarely longer
	_, err = io.Copy(&b, io.LimitReader(r, limit+1))
	return b.String(), err
}

func (p *promptReader) signal() error {
	d := &p.out.delivery
	v, ok := p.has["type"]
	if !ok {
		return invalid("A signal needs the member type, a string that is not empty.")
	}
	var err error
	if d.Type, err = p.string("type", v); err != nil {
		return err
	}
	if d.Type == "" {
		return invalid("The member type of a signal must not be empty.")
	}
	if v, ok := p.has["tagName"]; ok {
		if d.TagName, err = p.string("tagName", v); err != nil {
			return err
		}
		if !conversation.ValidTagName(d.TagName) {
			return invalid("The member tagName must match ^[A-Za-z_][A-Za-z0-9_.-]*$.")
		}
	}
	if v, ok := p.has["attributes"]; ok {
		if d.Attributes, err = p.attributes(v); err != nil {
			return err
		}
	}
	return nil
}

func (p *promptReader) attributes(v span) (map[string]string, error) {
	raw, err := p.raw("attributes", v)
	if err != nil {
		return nil, err
	}
	const shape = "The member attributes must be an object whose values are strings"
	// Values are decoded one by one: only the last of a repeated name is validated.
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil || values == nil {
		return nil, invalid(shape + ".")
	}
	out := make(map[string]string, len(values))
	for name, value := range values {
		var text *string // null is not a string
		if err := json.Unmarshal(value, &text); err != nil || text == nil {
			return nil, invalid(shape+"; that of %.40q is not.", name)
		}
		out[name] = *text
	}
	return out, nil
}

// siblings reads the members next to the delivery.
func (p *promptReader) siblings() error {
	if v, ok := p.has["uid"]; ok {
		raw, err := p.raw("uid", v)
		if err != nil {
			return err
		}
		var uid *conversation.UID
		switch {
		case json.Unmarshal(raw, &uid) != nil:
			return invalid("The member uid must be a string or null.")
		case uid == nil:
			p.out.condition = conversation.Condition{Absent: true}
		default:
			p.out.condition = conversation.Condition{Set: true, UID: *uid}
		}
	}
	if v, ok := p.has["idempotencyKey"]; ok {
		key, err := p.string("idempotencyKey", v)
		if err != nil {
			return err
		}
		if n := utf8.RuneCountInString(key); n < 1 || n > maxKey {
			return invalid("The member idempotencyKey has %d characters; 1 to %d are allowed.", n, maxKey)
		}
		p.out.key = key
	}
	v, ok := p.has["initialData"]
	if !ok {
		return nil
	}
	raw, err := p.raw("initialData", v)
	if err != nil {
		return err
	}
	p.out.initialData = bytes.ToValidUTF8(raw, []byte("\ufffd")) // a copy
	return nil
}

// raw reads a value into memory. The result may share memory with the body.
func (p *promptReader) raw(name string, v span) ([]byte, error) {
	if v.size() > p.budget {
		return nil, invalid("The member %s is too long: without body and attachment data, a request has at most %d bytes.",
			name, p.opts.MaxTextBytes)
	}
	p.budget -= v.size()
	return p.body.bytes(v)
}

// string takes a string into memory.
func (p *promptReader) string(name string, v span) (string, error) {
	is, err := p.isString(v)
	if err != nil || !is {
		return "", errors.Join(err, invalidType(is, name, "a string"))
	}
	raw, err := p.raw(name, v)
	if err != nil {
		return "", err
	}
	return unquote(raw[1 : len(raw)-1])
}

// isString looks at the first byte of a scanned value.
func (p *promptReader) isString(v span) (bool, error) {
	var c [1]byte
	if _, err := p.body.ReadAt(c[:], v.from); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read spooled body: %w", err)
	}
	return c[0] == '"', nil
}

// invalidType returns the error of a value of the wrong type, nil if right is set.
func invalidType(right bool, name, want string) error {
	if right {
		return nil
	}
	return invalid("The member %s must be %s.", name, want)
}
