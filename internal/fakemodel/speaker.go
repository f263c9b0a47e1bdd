package fakemodel

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

var (
	errBreak = errors.New("the script breaks the connection")
	errFail  = errors.New("the script fails")
	// errLimit ends a response early, but well.
	errLimit = errors.New("the limit of output tokens is reached")
)

// voice is one response in one format.
type voice interface {
	text(s string)
	reasoning(s string)
	call(id, name, arguments string)
	// fail ends the response with an error event.
	fail(message string)
	// end ends the response well.
	end(finish string, u usage)
}

// usage counts tokens; output includes reasoning.
type usage struct{ input, output, reasoning int }

// speaker carries out one step.
type speaker struct {
	voice  voice
	callID func(n int) string
	// pace is the wait before each word.
	pace time.Duration
	pass func(ctx context.Context, gate string) error
	// deliver sends what was said so far. It is called before every wait, and before
	// the connection breaks.
	deliver func()
	// limit is 0 for none.
	limit int

	said, thought, called, numbered int
	limited                         bool
}

// perform returns errBreak, errFail, the error of ctx, or nil at a good end.
func (s *speaker) perform(ctx context.Context, st *step, faulty bool) error {
	for _, a := range st.actions {
		if a.fault() && !faulty {
			continue
		}
		if err := s.act(ctx, a); errors.Is(err, errLimit) {
			s.limited = true
			return nil
		} else if err != nil {
			return err
		}
	}
	if s.said+s.called == 0 {
		return s.say(ctx, "Done.")
	}
	return nil
}

func (s *speaker) act(ctx context.Context, a action) error {
	switch a.verb {
	case verbTokens:
		return s.count(ctx, a.n)
	case verbSay:
		return s.say(ctx, a.text)
	case verbReasoning:
		return s.think(ctx, a.n)
	case verbTool:
		if err := s.token(ctx); err != nil {
			return err
		}
		s.called++
		s.voice.call(s.callID(s.called-1), a.text, string(a.args))
		return nil
	case verbHold:
		s.deliver()
		return s.pass(ctx, a.text)
	}
	if err := s.count(ctx, a.n); err != nil {
		return err
	}
	s.deliver()
	switch a.verb {
	case verbTruncate:
		return errBreak
	case verbFail:
		return errFail
	case verbHang:
		<-ctx.Done()
		return ctx.Err()
	}
	panic("fakemodel: unknown verb " + a.verb)
}

func (s *speaker) count(ctx context.Context, n int) error {
	for range n {
		if err := s.word(ctx, "w"+strconv.Itoa(s.numbered+1)); err != nil {
			return err
		}
		s.numbered++
	}
	return nil
}

// say keeps the white space of text.
func (s *speaker) say(ctx context.Context, text string) error {
	for word := range strings.SplitSeq(text, " ") {
		if err := s.word(ctx, word); err != nil {
			return err
		}
	}
	return nil
}

// word says one word, with a space between it and what was said before.
func (s *speaker) word(ctx context.Context, word string) error {
	if err := s.token(ctx); err != nil {
		return err
	}
	if s.said > 0 {
		word = " " + word
	}
	s.said++
	s.voice.text(word)
	return nil
}

func (s *speaker) think(ctx context.Context, n int) error {
	for range n {
		if err := s.token(ctx); err != nil {
			return err
		}
		s.thought++
		word := "t" + strconv.Itoa(s.thought)
		if s.thought > 1 {
			word = " " + word
		}
		s.voice.reasoning(word)
	}
	return nil
}

// token waits for the pace and watches the limit.
func (s *speaker) token(ctx context.Context) error {
	if s.limit > 0 && s.said+s.thought+s.called >= s.limit {
		return errLimit
	}
	if s.pace <= 0 {
		return ctx.Err()
	}
	s.deliver()
	return wait(ctx, s.pace)
}

func (s *speaker) reason(st *step) string {
	switch {
	case st.finish != "":
		return st.finish
	case s.limited:
		return finishLength
	case s.called > 0:
		return finishTool
	}
	return finishStop
}

// answer is the voice of a response that is not streamed: it collects.
type answer struct {
	content, thoughts string
	calls             []call
	finish            string
	usage             usage
}

func (a *answer) text(s string)      { a.content += s }
func (a *answer) reasoning(s string) { a.thoughts += s }
func (a *answer) call(id, name, arguments string) {
	a.calls = append(a.calls, call{id, name, arguments})
}
func (a *answer) fail(string)                {}
func (a *answer) end(finish string, u usage) { a.finish, a.usage = finish, u }
