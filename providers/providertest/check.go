package providertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/parleyrun/parley/providers"
)

// Collect reads a stream to its end. It reports events after an error, and every rule violation that
// Check finds.
func Collect(stream iter.Seq2[providers.Event, error]) ([]providers.Event, *providers.Error, error) {
	var events []providers.Event
	var failure error
	for e, err := range stream {
		if failure != nil {
			return events, nil, fmt.Errorf("event %T, %v after the error %v", e, err, failure)
		}
		if err != nil {
			failure = err
			if e != nil {
				return events, nil, fmt.Errorf("event %T together with the error %v", e, err)
			}
			continue
		}
		events = append(events, e)
	}
	if err := Check(events, failure); err != nil {
		return events, nil, err
	}
	var typed *providers.Error
	errors.As(failure, &typed)
	return events, typed, nil
}

// MessageOf returns the message of a response, as the runtime stores it and sends it back to the model.
func MessageOf(model string, events []providers.Event) providers.Message {
	m := providers.Message{Role: providers.RoleAssistant, Model: model}
	var text *providers.Text
	var thought *providers.Reasoning
	end := func() {
		if text != nil {
			m.Parts = append(m.Parts, *text)
		}
		if thought != nil {
			m.Parts = append(m.Parts, *thought)
		}
		text, thought = nil, nil
	}
	for _, e := range events {
		switch e := e.(type) {
		case providers.TextDelta:
			if text == nil {
				end()
				text = &providers.Text{}
			}
			text.Text += e.Text
		case providers.TextEnd:
			if text == nil {
				end()
				text = &providers.Text{}
			}
			text.Signature = e.Signature
			end()
		case providers.ReasoningDelta:
			if thought == nil {
				end()
				thought = &providers.Reasoning{}
			}
			thought.Text += e.Text
		case providers.ReasoningEnd:
			if thought == nil {
				end()
				thought = &providers.Reasoning{}
			}
			thought.Signature = e.Signature
			end()
		case providers.ToolCallEnd:
			end()
			m.Parts = append(m.Parts, providers.ToolCall{ID: e.ID, Name: e.Name, Arguments: e.Arguments, Signature: e.Signature})
		}
	}
	end()
	return m
}

// Check validates a whole stream: its events in order, and its error, nil if it ended with Done. It
// returns the first violated rule.
func Check(events []providers.Event, failure error) error {
	c := checker{calls: map[int]*callState{}}
	for i, e := range events {
		if err := c.event(e); err != nil {
			return fmt.Errorf("event %d, %T: %w", i, e, err)
		}
	}
	if failure == nil {
		if !c.done {
			return errors.New("stream ended with neither Done nor an error")
		}
		return nil
	}
	var typed *providers.Error
	switch {
	case c.done:
		return fmt.Errorf("error %v after Done", failure)
	case !errors.As(failure, &typed):
		return fmt.Errorf("error %v is a %T, not a *providers.Error", failure, failure)
	case typed.Kind == "":
		return fmt.Errorf("error %v has no kind", failure)
	}
	return nil
}

type checker struct {
	done      bool
	reasoning bool
	calls     map[int]*callState
}

type callState struct {
	id, name string
	ended    bool
	fragment string
}

func (c *checker) event(e providers.Event) error {
	if c.done {
		return errors.New("comes after Done")
	}
	switch e := e.(type) {
	case providers.TextDelta:
		return c.visible(e.Text)
	case providers.TextEnd:
		if e.Signature == "" {
			return errors.New("has no signature")
		}
		return c.visible(e.Signature)
	case providers.ReasoningDelta:
		c.reasoning = true
		return notEmpty(e.Text)
	case providers.ReasoningEnd:
		if !c.reasoning && e.Signature == "" {
			return errors.New("ends no reasoning")
		}
		c.reasoning = false
	case providers.ToolCallStart:
		if e.Index != len(c.calls) {
			return fmt.Errorf("has index %d, want %d", e.Index, len(c.calls))
		}
		c.calls[e.Index] = &callState{id: e.ID, name: e.Name}
		return c.visible("start")
	case providers.ToolCallDelta:
		call := c.calls[e.Index]
		if call == nil || call.ended {
			return fmt.Errorf("call %d is not open", e.Index)
		}
		call.fragment += e.Arguments
		return notEmpty(e.Arguments)
	case providers.ToolCallEnd:
		return c.end(e)
	case providers.Done:
		return c.finish(e)
	default:
		return errors.New("is no known event")
	}
	return nil
}

func (c *checker) visible(text string) error {
	if c.reasoning {
		return errors.New("comes before the ReasoningEnd")
	}
	return notEmpty(text)
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	return nil
}

func (c *checker) end(e providers.ToolCallEnd) error {
	call := c.calls[e.Index]
	switch {
	case call == nil || call.ended:
		return fmt.Errorf("call %d is not open", e.Index)
	case call.id != e.ID || call.name != e.Name:
		return fmt.Errorf("call %d was started as %q %q, and ends as %q %q", e.Index, call.id, call.name, e.ID, e.Name)
	case !json.Valid(e.Arguments):
		return fmt.Errorf("arguments %q are not JSON", e.Arguments)
	}
	call.ended = true
	if e.Malformed {
		var written string
		if err := json.Unmarshal(e.Arguments, &written); err != nil || written != call.fragment {
			return fmt.Errorf("malformed arguments %s do not quote %q", e.Arguments, call.fragment)
		}
		return nil
	}
	if string(e.Arguments) != call.fragment && call.fragment != "" {
		return fmt.Errorf("arguments %s are not the deltas %s", e.Arguments, call.fragment)
	}
	return nil
}

func (c *checker) finish(e providers.Done) error {
	c.done = true
	for i, call := range c.calls {
		if !call.ended {
			return fmt.Errorf("call %d is still open", i)
		}
	}
	u := e.Usage
	switch {
	case c.reasoning:
		return errors.New("reasoning is still open")
	case e.StopReason == providers.StopToolUse && len(c.calls) == 0:
		return errors.New("stops for calls that are not there")
	case e.StopReason == providers.StopStop && len(c.calls) > 0:
		return errors.New("does not stop for its calls")
	case u.Input < 0 || u.Output < 0 || u.CacheRead < 0 || u.CacheWrite < 0 || u.Reasoning < 0:
		return fmt.Errorf("usage %+v is negative", u)
	case u.Total != u.Input+u.Output+u.CacheRead+u.CacheWrite:
		return fmt.Errorf("usage %+v does not add up", u)
	}
	switch e.StopReason {
	case providers.StopStop, providers.StopLength, providers.StopToolUse, providers.StopContentFilter:
		return nil
	}
	return fmt.Errorf("stop reason %q is unknown", e.StopReason)
}
