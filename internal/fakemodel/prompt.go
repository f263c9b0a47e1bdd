package fakemodel

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// prompt is a call, independent of formats.
type prompt struct {
	model, system, effort string
	stream                bool
	// maxTokens is 0 for no limit.
	maxTokens int
	tools     []string
	turns     []turn
}

// Sides of turns.
const (
	sideUser      = "user"
	sideAssistant = "assistant"
	sideTool      = "tool"
)

// turn is a message, its tool results, or its other content.
type turn struct {
	side   string
	texts  []string
	images []string
	// calls are the calls of an assistant; result is the id of an answered one.
	calls  []call
	result string
}

type call struct{ id, name, args string }

// add appends a turn. Formats whose results cannot contain images append those in a further turn.
func (p *prompt) add(t turn) {
	last := len(p.turns) - 1
	if t.side == sideUser && last >= 0 && p.turns[last].side == sideTool && len(t.texts) > 0 && strings.HasPrefix(t.texts[0], "Images th") {
		p.turns[last].images = append(p.turns[last].images, t.images...)
		return
	}
	p.turns = append(p.turns, t)
}

// check rejects calls that all vendors reject.
func (p *prompt) check() error {
	if p.model == "" {
		return errors.New("model is missing")
	}
	var open []string
	for i, t := range p.turns {
		if t.side == sideTool {
			at := slices.Index(open, t.result)
			if at < 0 {
				return fmt.Errorf("message %d: result of %q answers no open call", i, t.result)
			}
			open = slices.Delete(open, at, at+1)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("message %d: calls %q are not answered", i, open)
		}
		for _, c := range t.calls {
			if c.id == "" || c.name == "" || slices.Contains(open, c.id) {
				return fmt.Errorf("message %d: call %q of %q: id is missing or repeated", i, c.id, c.name)
			}
			open = append(open, c.id)
		}
	}
	switch n := len(p.turns); {
	case n == 0:
		return errors.New("messages are missing")
	case p.turns[n-1].side == sideAssistant || len(open) > 0:
		return errors.New("the last message must be of a user or answer all calls")
	}
	return nil
}

func (p *prompt) step() (*step, error) {
	text, at, n := p.last()
	steps, err := parse(text)
	switch {
	case err != nil:
		return nil, err
	case n < len(steps):
		return steps[n], nil
	case p.turns[len(p.turns)-1].side == sideTool:
		return newStep().addText("The tool said: " + p.results()), nil
	}
	echo := "You said: " + text
	for _, image := range p.turns[at].images {
		echo += " [" + image + "]"
	}
	return newStep().addText(echo), nil
}

// last returns the last text of the last user message, the index of that message, and the number of
// responses since. If there is none, the text is empty and the index is the last one.
func (p *prompt) last() (text string, at, step int) {
	for i, t := range slices.Backward(p.turns) {
		switch t.side {
		case sideUser:
			if n := len(t.texts); n > 0 {
				text = t.texts[n-1]
			}
			return text, i, step
		case sideAssistant:
			step++
		}
	}
	return "", max(len(p.turns)-1, 0), step
}

// results joins the trailing tool results.
func (p *prompt) results() string {
	var texts []string
	for i := len(p.turns) - 1; i >= 0 && p.turns[i].side == sideTool; i-- {
		texts = append(texts, strings.Join(p.turns[i].texts, "\n"))
	}
	slices.Reverse(texts)
	return strings.Join(texts, "; ")
}

// callID returns an id that differs from those of earlier responses and that every vendor accepts.
func (p *prompt) callID(n int) string { return fmt.Sprintf("c%05d%03d", len(p.turns), n) }

// words counts the words of the input, which are its tokens.
func (p *prompt) words() int {
	n := len(strings.Fields(p.system)) + len(p.tools)
	for _, t := range p.turns {
		n += len(t.images) + len(t.calls)
		for _, text := range t.texts {
			n += len(strings.Fields(text))
		}
	}
	return n
}

// hash identifies calls with the same messages.
func (p *prompt) hash() string {
	var b []byte
	add := func(texts ...string) {
		b = strconv.AppendInt(b, int64(len(texts)), 10)
		for _, s := range texts {
			b = strconv.AppendInt(append(b, ' '), int64(len(s)), 10)
			b = append(append(b, ' '), s...)
		}
	}
	add(p.model, p.system)
	for _, t := range p.turns {
		add(t.side, t.result)
		add(t.texts...)
		add(t.images...)
		for _, c := range t.calls {
			add(c.id, c.name, c.args)
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

func (p *prompt) request(path string) Request {
	text, _, step := p.last()
	r := Request{
		API: path, Model: p.model, Prompt: text, Step: step, System: p.system,
		Tools: append([]string{}, p.tools...), Messages: len(p.turns), Effort: p.effort,
	}
	for _, t := range p.turns {
		r.Images += len(t.images)
	}
	return r
}

// PictureHead is the start of a PNG of one pixel. The model checks the start of images only.
const PictureHead = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55"

// show adds a base64 image, named by its type, size and hash.
func (t *turn) show(mediaType, data string) error {
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return fmt.Errorf("decode image: %w", err)
	}
	t.images = append(t.images, fmt.Sprintf("%s %d %x", mediaType, len(b), sha256.Sum256(b)))
	return nil
}

// showURL adds an image in a data URL.
func (t *turn) showURL(v any) error {
	url, ok := v.(string)
	if !ok {
		return errors.New("decode content: image_url is not a text")
	}
	mediaType, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if !ok || t.show(mediaType, data) != nil {
		return errors.New("image_url is not a base64 data URL")
	}
	return nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
