package fakemodel

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

var (
	errBreak = errors.New("connection closed by the script")
	errFail  = errors.New("failed by the script")
	// errLimit completes a response early, without an error.
	errLimit = errors.New("output token limit reached")
)

// emitter executes one step. It flushes the output before each wait, and before it closes the
// connection.
type emitter struct {
	answer *answer
	// pace is the wait before each word.
	pace time.Duration
	pass func(ctx context.Context, gate string) error

	emitted, thought, called, numbered int
	limited                            bool
}

func (s *emitter) spent() int { return s.emitted + s.thought + s.called }

// perform executes a step. It returns errBreak, errFail, the error of ctx, or nil.
func (s *emitter) perform(ctx context.Context, st *step, faulty bool) error {
	for _, a := range st.actions {
		if a.fault && !faulty {
			continue
		}
		if err := a.do(s, ctx); errors.Is(err, errLimit) {
			s.limited = true
			return nil
		} else if err != nil {
			return err
		}
	}
	if s.emitted+s.called == 0 {
		return s.addText(ctx, "Done.")
	}
	return nil
}

func (s *emitter) hold(ctx context.Context, gate string) error {
	s.answer.out.deliver()
	return s.pass(ctx, gate)
}

func (s *emitter) call(ctx context.Context, name, args string) error {
	if err := s.token(ctx); err != nil {
		return err
	}
	s.answer.call(s.answer.p.callID(s.called), name, args)
	s.called++
	return nil
}

func (s *emitter) count(ctx context.Context, n int) error {
	for range n {
		if err := s.word(ctx, blockText, "w"+strconv.Itoa(s.numbered+1), &s.emitted); err != nil {
			return err
		}
		s.numbered++
	}
	return nil
}

// addText outputs a text, with its white space.
func (s *emitter) addText(ctx context.Context, text string) error {
	for word := range strings.SplitSeq(text, " ") {
		if err := s.word(ctx, blockText, word, &s.emitted); err != nil {
			return err
		}
	}
	return nil
}

// word outputs one word of a kind, after a space unless it is the first.
func (s *emitter) word(ctx context.Context, kind, word string, before *int) error {
	if err := s.token(ctx); err != nil {
		return err
	}
	if *before > 0 {
		word = " " + word
	}
	*before++
	s.answer.addText(kind, word)
	return nil
}

func (s *emitter) think(ctx context.Context, n int) error {
	for range n {
		if err := s.word(ctx, blockThinking, "t"+strconv.Itoa(s.thought+1), &s.thought); err != nil {
			return err
		}
	}
	return nil
}

// token waits for the pace and checks the limit.
func (s *emitter) token(ctx context.Context) error {
	if limit := s.answer.p.maxTokens; limit > 0 && s.spent() >= limit {
		return errLimit
	}
	if s.pace <= 0 {
		return ctx.Err()
	}
	s.answer.out.deliver()
	select {
	case <-time.After(s.pace):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *emitter) reason(st *step) string {
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
