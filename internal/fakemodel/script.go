package fakemodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxWords limits the output of one action.
const maxWords = 1_000_000

// Finish reasons.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishTool   = "tool"
	finishFilter = "filter"
)

// step is the script of one response.
type step struct {
	actions []action
	// status is 0 for none. retryAfter is in seconds and negative for none.
	status, retryAfter int
	message            string
	// times is 0 for always.
	times int
	// only is empty for every model.
	only string
	// pace is the wait before each word.
	pace time.Duration
	// finish is empty if it follows from the output.
	finish string
}

// action is one action of a speaker. A fault is skipped in steps that do not fail.
type action struct {
	do    func(s *emitter, ctx context.Context) error
	fault bool
}

func newStep() *step { return &step{retryAfter: -1, message: ErrorText} }

func (s *step) do(do func(*emitter, context.Context) error) *step {
	s.actions = append(s.actions, action{do: do})
	return s
}

func (s *step) addText(text string) *step {
	return s.do(func(sp *emitter, ctx context.Context) error { return sp.addText(ctx, text) })
}

// parse returns the steps of a script, or nil if the text is plain.
func parse(text string) ([]*step, error) {
	p := parser{rest: strings.TrimSpace(text)}
	if name, _, ok := strings.Cut(p.word(), "="); !ok || commands[name] == nil {
		return nil, nil
	}
	p.rest = strings.TrimSpace(text)
	steps := []*step{newStep()}
	for p.rest != "" {
		word := p.word()
		if word == "then" {
			steps = append(steps, newStep())
			continue
		}
		name, value, ok := strings.Cut(word, "=")
		if !ok || commands[name] == nil {
			return nil, fmt.Errorf("script: unknown command %q", word)
		}
		if err := commands[name](&p, steps[len(steps)-1], value); err != nil {
			return nil, fmt.Errorf("script: %s=%s: %w", name, value, err)
		}
	}
	return steps, nil
}

// parser has the unread part of a script.
type parser struct{ rest string }

// word reads the next word. A quoted text is a word of its own.
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

func (p *parser) value(v any) error {
	d := json.NewDecoder(strings.NewReader(p.rest))
	if err := d.Decode(v); err != nil {
		return err
	}
	p.rest = strings.TrimSpace(p.rest[d.InputOffset():])
	return nil
}

// command changes a step. It may read further words.
type command func(p *parser, s *step, value string) error

var commands = map[string]command{
	"tokens":    words((*emitter).count),
	"reasoning": words((*emitter).think),
	"say":       quoted(func(s *step, text string) { s.addText(text) }),
	"tool":      tool,
	"hold": called("a gate", func(s *step, gate string) {
		s.do(func(sp *emitter, ctx context.Context) error { return sp.hold(ctx, gate) })
	}),

	"truncate": fault(func(context.Context) error { return errBreak }),
	"fail":     fault(func(context.Context) error { return errFail }),
	"hang": fault(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}),

	"message":     quoted(func(s *step, text string) { s.message = text }),
	"status":      within(400, 599, func(s *step, n int) { s.status = n }),
	"retry-after": within(0, 3600, func(s *step, n int) { s.retryAfter = n }),
	"times":       within(1, maxWords, func(s *step, n int) { s.times = n }),
	"only":        called("a model", func(s *step, model string) { s.only = model }),
	"note":        func(*parser, *step, string) error { return nil },
	"pace": func(_ *parser, s *step, v string) (err error) {
		if s.pace, err = time.ParseDuration(v); err == nil && s.pace < 0 {
			err = errors.New("want a wait of 0 or more")
		}
		return err
	},
	"finish": func(_ *parser, s *step, v string) error {
		if !slices.Contains([]string{finishStop, finishLength, finishTool, finishFilter}, v) {
			return errors.New("want stop, length, tool or filter")
		}
		s.finish = v
		return nil
	},
}

func within(low, high int, set func(*step, int)) command {
	return func(_ *parser, s *step, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return fmt.Errorf("want a number from %d to %d", low, high)
		}
		set(s, n)
		return nil
	}
}

// words is a command with a number of words.
func words(do func(*emitter, context.Context, int) error) command {
	return within(0, maxWords, func(s *step, n int) {
		s.do(func(sp *emitter, ctx context.Context) error { return do(sp, ctx, n) })
	})
}

// fault is a command that ends the response after some words.
func fault(end func(context.Context) error) command {
	return within(0, maxWords, func(s *step, n int) {
		s.actions = append(s.actions, action{fault: true, do: func(sp *emitter, ctx context.Context) error {
			if err := sp.count(ctx, n); err != nil {
				return err
			}
			sp.answer.out.deliver()
			return end(ctx)
		}})
	})
}

func called(desc string, set func(*step, string)) command {
	return func(_ *parser, s *step, v string) error {
		if v == "" {
			return fmt.Errorf("want the name of %s", desc)
		}
		set(s, v)
		return nil
	}
}

func quoted(set func(*step, string)) command {
	return func(p *parser, s *step, v string) error {
		var text string
		if v != "" || p.value(&text) != nil {
			return errors.New("want a JSON string")
		}
		set(s, text)
		return nil
	}
}

func tool(p *parser, s *step, name string) error {
	if name == "" {
		return errors.New("want the name of a tool")
	}
	args := json.RawMessage("{}")
	if strings.HasPrefix(p.rest, "{") {
		if err := p.value(&args); err != nil {
			return fmt.Errorf("read arguments: %w", err)
		}
	}
	s.do(func(sp *emitter, ctx context.Context) error { return sp.call(ctx, name, string(args)) })
	return nil
}
