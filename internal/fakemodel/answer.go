package fakemodel

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kinds of blocks.
const (
	blockText     = "text"
	blockThinking = "thinking"
	blockCall     = "call"
)

// block is a part of an answer: a text, reasoning, or a call.
type block struct {
	kind string
	// index is the position among all blocks, number the position among calls.
	index, number int
	// content is the content so far, which are the arguments for a call; piece is its last increment.
	content []byte
	piece   string
	// id and name identify a call.
	id, name string
}

// usage counts tokens; output includes reasoning.
type usage struct{ input, output, reasoning int }

// answer encodes one response, streamed or whole. It fills in the forms of its vendor's file, which
// contain $names: other forms, or the names that fill implements.
//
//	begin          at the start of a stream
//	<kind> open    before a block; more: after a piece of it; shut: after the block
//	<why> end      at the end of a stream; fail: at a failed stream, instead of failure
//	<kind> part    a block, for $part and $parts
//	whole          a response that is not streamed
//	finish <why>   for $stop
//	failure        the body of an error
//	error <status> for $error, or a prefix of the status
//
// A form without a kind, a reason or a status applies to all. Forms of a stream have one event per
// line, preceded by its name if it has one.
type answer struct {
	of     *vendor
	p      *prompt
	id     string
	out    *sender
	blocks []*block
	calls  int
	// open reports whether the last block may grow.
	open bool
	// finish is empty until the answer is complete.
	finish string
	usage  usage
	// status and message are set for errors.
	status  int
	message string
	// event and data are the current event; events counts the previous ones.
	event  string
	data   []byte
	events int
}

func (a *answer) addText(kind, piece string) {
	if !a.open || a.last().kind != kind {
		a.add(&block{kind: kind})
	}
	a.more(piece)
}

func (a *answer) call(id, name, arguments string) {
	a.add(&block{kind: blockCall, id: id, name: name, number: a.calls})
	a.calls++
	for _, piece := range halves(arguments) {
		a.more(piece)
	}
	a.shut()
}

func (a *answer) last() *block {
	if len(a.blocks) == 0 {
		return nil
	}
	return a.blocks[len(a.blocks)-1]
}

func (a *answer) begin() {
	if a.events == 0 {
		a.write("begin", nil)
	}
}

func (a *answer) add(b *block) {
	a.begin()
	a.shut()
	b.index = len(a.blocks)
	a.blocks, a.open = append(a.blocks, b), true
	a.write(b.kind+" open", b)
}

func (a *answer) more(piece string) {
	b := a.last()
	b.content, b.piece = append(b.content, piece...), piece
	a.write(b.kind+" more", b)
}

func (a *answer) shut() {
	if b := a.last(); a.open {
		a.open = false
		a.write(b.kind+" shut", b)
	}
}

func (a *answer) end(finish string, u usage) {
	a.begin()
	a.finish, a.usage = finish, u
	a.shut()
	a.write(finish+" end", nil)
}

// fail ends a stream with an error.
func (a *answer) fail(message string) {
	a.begin()
	a.status, a.message = 500, message
	if a.of.forms["fail"] == "" {
		a.write("failure 5", nil)
	}
	a.write("fail", nil)
}

// write sends the events of a form if the answer is a stream.
func (a *answer) write(form string, b *block) {
	if !a.p.stream {
		return
	}
	for line := range strings.SplitSeq(a.lookUp(form), "\n") {
		a.event = ""
		if line == "" {
			return
		} else if line[0] != '{' && line[0] != '[' {
			a.event, line, _ = strings.Cut(line, " ")
		}
		a.data = a.appendForm(a.data[:0], line, b)
		if a.events++; a.of.forms["framed"] != "" {
			a.out.frame(a.event, a.data)
		} else {
			a.out.event(a.event, a.data)
		}
	}
}

func (a *answer) lookUp(form string) string {
	kind, rest, _ := strings.Cut(form, " ")
	return cmp.Or(a.of.forms[form], a.of.forms[rest], a.of.forms[kind])
}

func (a *answer) form(form string, b *block) string {
	return string(a.appendForm(nil, a.lookUp(form), b))
}

func (a *answer) appendForm(to []byte, form string, b *block) []byte {
	for {
		text, rest, more := strings.Cut(form, "${")
		to = append(to, text...)
		if !more {
			return to
		}
		var name string
		name, form, _ = strings.Cut(rest, "}")
		to = append(to, a.fill(name, b)...)
	}
}

// fill returns the JSON for a name in a form, for a block if there is one. Ids and error names have no
// quotes.
func (a *answer) fill(name string, b *block) string {
	switch value := names[name]; {
	case value != nil:
		return value(a, b)
	case name == "part":
		return a.form(b.kind+" part", b)
	case name == "parts":
		return a.parts("")
	case name == "calls":
		return a.parts(blockCall)
	case name == "stop":
		return cmp.Or(a.form("finish "+a.finish, nil), "null")
	}
	return a.of.fill(a, b, name)
}

var names = map[string]func(a *answer, b *block) string{
	"id":    func(a *answer, _ *block) string { return a.id },
	"model": func(a *answer, _ *block) string { return quote(a.p.model) },

	"type":     func(a *answer, _ *block) string { return `"type":` + quote(a.event) },
	"sequence": func(a *answer, _ *block) string { return strconv.Itoa(a.events) },
	"role": func(a *answer, _ *block) string {
		if a.events > 0 {
			return ""
		}
		return `"role":"assistant",`
	},

	"index":  func(_ *answer, b *block) string { return strconv.Itoa(b.index) },
	"number": func(_ *answer, b *block) string { return strconv.Itoa(b.number) },
	"piece":  func(_ *answer, b *block) string { return quote(b.piece) },
	"said":   func(_ *answer, b *block) string { return quote(string(b.content)) },
	"call":   func(_ *answer, b *block) string { return b.id },
	"name":   func(_ *answer, b *block) string { return quote(b.name) },
	"input":  func(_ *answer, b *block) string { return cmp.Or(string(b.content), "{}") }, // an empty object until the first piece
	"signature": func(_ *answer, b *block) string {
		if len(b.content) == 0 {
			return `""`
		}
		return quote(sign(string(b.content)))
	},

	"texts":    func(a *answer, _ *block) string { return quote(a.content(blockText)) },
	"thoughts": func(a *answer, _ *block) string { return quote(a.content(blockThinking)) },
	"in":       func(a *answer, _ *block) string { return strconv.Itoa(a.usage.input) },
	"out":      func(a *answer, _ *block) string { return strconv.Itoa(a.usage.output) },
	"thought":  func(a *answer, _ *block) string { return strconv.Itoa(a.usage.reasoning) },
	"answered": func(a *answer, _ *block) string { return strconv.Itoa(a.usage.output - a.usage.reasoning) },
	"total":    func(a *answer, _ *block) string { return strconv.Itoa(a.usage.input + a.usage.output) },

	"status":  func(a *answer, _ *block) string { return strconv.Itoa(a.status) },
	"error":   func(a *answer, _ *block) string { return a.of.errorName(a.status) },
	"message": func(a *answer, _ *block) string { return quote(a.message) },
}

// quote encodes a text as JSON, with a fast path for texts without escapes.
func quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }) {
		return string(encode(s))
	}
	return `"` + s + `"`
}

// content joins the blocks of a kind.
func (a *answer) content(kind string) string {
	var all []byte
	for _, b := range a.blocks {
		if b.kind == kind {
			all = append(all, b.content...)
		}
	}
	return string(all)
}

// parts encodes the blocks of a kind, or all.
func (a *answer) parts(kind string) string {
	var parts []string
	for _, b := range a.blocks {
		if kind == "" || b.kind == kind {
			parts = append(parts, a.form(b.kind+" part", b))
		}
	}
	return strings.Join(parts, ",")
}

// halves splits a text between runes, since vendors send arguments in pieces.
func halves(s string) [2]string {
	at := len(s) / 2
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return [2]string{s[:at], s[at:]}
}
