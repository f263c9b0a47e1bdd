package fakemodel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxWords bounds what one action says.
const maxWords = 1_000_000

// Verbs of actions.
const (
	verbTokens    = "tokens"
	verbSay       = "say"
	verbReasoning = "reasoning"
	verbTool      = "tool"
	verbHold      = "hold"
	verbTruncate  = "truncate"
	verbFail      = "fail"
	verbHang      = "hang"
)

// Finish reasons.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishTool   = "tool"
	finishFilter = "filter"
)

// step is what one response does.
type step struct {
	actions []action
	// status is 0 for none, retryAfter in seconds and negative for none.
	status, retryAfter int
	message            string
	// times is 0 for always.
	times int
	// only is empty for every model.
	only string
	// pace is negative for the model's own.
	pace time.Duration
	// finish is empty where what is said decides.
	finish string
}

type action struct {
	verb string
	// n counts words.
	n int
	// text is what to say, the name of a tool, or a gate.
	text string
	args json.RawMessage
}

// fault reports whether times counts for the action.
func (a action) fault() bool {
	return a.verb == verbTruncate || a.verb == verbFail || a.verb == verbHang
}

func newStep(actions ...action) *step {
	return &step{actions: actions, retryAfter: -1, message: ErrorText, pace: -1}
}

// parse returns the steps of a script, nil if the text is not one.
func parse(text string) ([]*step, error) {
	p := parser{rest: strings.TrimSpace(text)}
	if name, _, ok := strings.Cut(p.word(), "="); !ok || commandOf(name) == nil {
		return nil, nil
	}
	p.rest = strings.TrimSpace(text)
	steps := []*step{newStep()}
	for p.rest != "" {
		if word := p.word(); word == "then" {
			steps = append(steps, newStep())
			continue
		} else if err := p.command(steps[len(steps)-1], word); err != nil {
			return nil, fmt.Errorf("script: %w", err)
		}
	}
	return steps, nil
}

// parser holds what is left of a script.
type parser struct{ rest string }

// word takes the next word. The quote of a text begins a word of its own.
func (p *parser) word() string {
	end := strings.IndexFunc(p.rest, unicode.IsSpace)
	if quote := strings.Index(p.rest, `="`); quote >= 0 && (end < 0 || quote < end) {
		end = quote + 1
	}
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = strings.TrimSpace(p.rest[end:])
	return word
}

// value takes a JSON value.
func (p *parser) value(v any) error {
	d := json.NewDecoder(strings.NewReader(p.rest))
	if err := d.Decode(v); err != nil {
		return err
	}
	p.rest = strings.TrimSpace(p.rest[d.InputOffset():])
	return nil
}

// command is how a word changes a step.
type command func(p *parser, s *step, value string) error

func (p *parser) command(s *step, word string) error {
	name, value, ok := strings.Cut(word, "=")
	c := commandOf(name)
	if !ok || c == nil {
		return fmt.Errorf("%q is no command", word)
	}
	if err := c(p, s, value); err != nil {
		return fmt.Errorf("%s=%s: %w", name, value, err)
	}
	return nil
}

// commandOf returns nil for a name that is none.
func commandOf(name string) command {
	switch name {
	case verbTokens, verbReasoning, verbTruncate, verbFail, verbHang:
		return number(0, maxWords, func(s *step, n int) { s.do(action{verb: name, n: n}) })
	case verbSay:
		return texted(func(s *step, text string) { s.do(action{verb: verbSay, text: text}) })
	case verbTool:
		return tool
	case verbHold:
		return hold
	case "message":
		return texted(func(s *step, text string) { s.message = text })
	case "status":
		return number(400, 599, func(s *step, n int) { s.status = n })
	case "retry-after":
		return number(0, 3600, func(s *step, n int) { s.retryAfter = n })
	case "times":
		return number(1, maxWords, func(s *step, n int) { s.times = n })
	case "only":
		return only
	case "note":
		return func(*parser, *step, string) error { return nil }
	case "pace":
		return pace
	case "finish":
		return finish
	}
	return nil
}

func hold(_ *parser, s *step, gate string) error {
	if gate == "" {
		return fmt.Errorf("want the name of a gate")
	}
	s.do(action{verb: verbHold, text: gate})
	return nil
}

func only(_ *parser, s *step, model string) error {
	if model == "" {
		return fmt.Errorf("want the name of a model")
	}
	s.only = model
	return nil
}

func pace(_ *parser, s *step, v string) (err error) {
	if s.pace, err = time.ParseDuration(v); err == nil && s.pace < 0 {
		err = fmt.Errorf("want a wait of 0 or more")
	}
	return err
}

func finish(_ *parser, s *step, v string) error {
	if !slices.Contains([]string{finishStop, finishLength, finishTool, finishFilter}, v) {
		return fmt.Errorf("want stop, length, tool or filter")
	}
	s.finish = v
	return nil
}

func (s *step) do(a action) { s.actions = append(s.actions, a) }

func number(low, high int, set func(*step, int)) command {
	return func(_ *parser, s *step, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return fmt.Errorf("want a number from %d to %d", low, high)
		}
		set(s, n)
		return nil
	}
}

func texted(set func(*step, string)) command {
	return func(p *parser, s *step, v string) error {
		var text string
		if v != "" || p.value(&text) != nil {
			return fmt.Errorf("want a JSON string")
		}
		set(s, text)
		return nil
	}
}

func tool(p *parser, s *step, name string) error {
	if name == "" {
		return fmt.Errorf("want the name of a tool")
	}
	a := action{verb: verbTool, text: name, args: json.RawMessage("{}")}
	if strings.HasPrefix(p.rest, "{") {
		if err := p.value(&a.args); err != nil {
			return fmt.Errorf("read arguments: %w", err)
		}
	}
	s.do(a)
	return nil
}
