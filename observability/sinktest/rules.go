package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

func checkName(_ context.Context, s *store) error {
	if name := s.sink.Name(); !regexp.MustCompile(`^[a-z]+$`).MatchString(name) {
		return fmt.Errorf("name is %q, want only lower-case letters", name)
	}
	return nil
}

func checkNothing(ctx context.Context, s *store) error {
	for _, none := range [][]observability.Event{nil, {}} {
		if err := s.sink.Write(ctx, none); err != nil {
			return fmt.Errorf("empty Write: %w", err)
		}
	}
	return s.holds(nil)
}

func checkEveryType(ctx context.Context, s *store) error {
	bare, err := minimal()
	if err != nil {
		return err
	}
	events := append(Sample(), bare...)
	if err := s.sink.Write(ctx, events); err != nil {
		return err
	}
	return s.holds(events)
}

func checkOrder(ctx context.Context, s *store) error {
	events := generate(600)
	for part := range slices.Chunk(events, 70) {
		if err := s.sink.Write(ctx, part); err != nil {
			return err
		}
	}
	last := map[string]*observability.Event{}
	for _, e := range s.read() {
		key, _, _ := strings.Cut(e.ID, "/")
		if l := last[key]; l != nil && (e.Seq < l.Seq || e.Seq == l.Seq && e.Index <= l.Index) {
			return fmt.Errorf("got event %s after %s", e.ID, l.ID)
		}
		last[key] = &e
	}
	return s.holds(events)
}

func checkAgain(ctx context.Context, s *store) error {
	events := append(Sample(), generate(200)...)
	for _, size := range []int{50, 7, len(events)} {
		for part := range slices.Chunk(events, size) {
			if err := s.sink.Write(ctx, part); err != nil {
				return fmt.Errorf("events in groups of %d: %w", size, err)
			}
		}
	}
	// Within one Write too, as after a partial failure.
	if err := s.sink.Write(ctx, append(slices.Clone(events[:20]), events[:20]...)); err != nil {
		return fmt.Errorf("events twice in one Write: %w", err)
	}
	return s.holds(events)
}

func checkCancelled(ctx context.Context, s *store) error {
	events := generate(100)
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.sink.Write(over, events[:50]); err == nil {
		return errors.New("a Write whose context has ended returned nil")
	}
	if err := s.sink.Write(ctx, events[50:]); err != nil {
		return fmt.Errorf("write after a canceled one: %w", err)
	}
	if err := s.sink.Write(ctx, events[:50]); err != nil {
		return fmt.Errorf("same events with a valid context: %w", err)
	}
	return s.holds(events)
}

func checkCallersSlice(ctx context.Context, s *store) error {
	events := generate(30)
	before, err := encode(events)
	if err != nil {
		return err
	}
	given := slices.Clone(events)
	if err := s.sink.Write(ctx, given); err != nil {
		return err
	}
	if after, err := encode(given); err != nil || !bytes.Equal(before, after) {
		return fmt.Errorf("events modified by Write (%v)", err)
	}
	clear(given)
	return s.holds(events)
}

func checkLarge(ctx context.Context, s *store) error {
	events := generate(3)
	for i, unit := range []string{"a", "ж😀", "\"\\\n"} {
		text := strings.Repeat(unit, (1<<20)/len(unit))
		setPayload(&events[i], &observability.MessageEnd{Message: observability.Message{Role: "assistant", Bytes: len(text), Text: text}})
	}
	if err := s.sink.Write(ctx, events); err != nil {
		return err
	}
	return s.holds(events)
}

func checkText(ctx context.Context, s *store) error {
	texts := []string{
		"Grüße, Жизнь, 日本語, العربية, e\u0301, 👩‍👩‍👧", "tab\t quote\" back\\ apostrophe' line\r\n", "\u2028\u2029\ufeff\u200b\u007f",
		"nul \x00 and \x1b bell \a", "<script>&amp;</script> $1 ? {x:String} -- ; DROP", `{"v":3}`, "\\N", "",
		"cut \xff, \xc3, \xed\xa0\x80 and \xf0\x9f\x98",
	}
	events := generate(len(texts))
	for i, text := range texts {
		events[i].Agent, events[i].Instance = "agent "+text, text
		setPayload(&events[i], &observability.Log{
			Level: "info", Message: text, Attributes: map[string]any{"value": text, "list": []any{text}, "key" + text: "v"},
		})
	}
	if err := s.sink.Write(ctx, events); err != nil {
		return err
	}
	more := generate(len(texts) + 10)[len(texts):]
	if err := s.sink.Write(ctx, more); err != nil {
		return fmt.Errorf("a Write after one with unusual text: %w", err)
	}
	return s.holds(append(events, more...))
}

func checkMany(ctx context.Context, s *store) error {
	events := generate(s.many)
	if err := s.sink.Write(ctx, events); err != nil {
		return err
	}
	return s.holds(events)
}

// checkConcurrent writes distinct and common events through each sink.
func checkConcurrent(ctx context.Context, s *store) error {
	events := generate(900)
	sinks := []observability.Sink{s.sink, s.second()}
	errs := make([]error, len(sinks))
	var wg sync.WaitGroup
	for i, sink := range sinks {
		wg.Go(func() {
			for part := range slices.Chunk(events[i*300:i*300+600], 20) {
				errs[i] = errors.Join(errs[i], sink.Write(ctx, part))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.holds(events)
}

func setPayload(e *observability.Event, p observability.Payload) {
	e.Payload, e.Type = p, p.EventType()
}

// minimal returns an event of every type without optional fields.
func minimal() ([]observability.Event, error) {
	var events []observability.Event
	for i, t := range observability.Types() {
		p, err := observability.DecodePayload(t, []byte("{}"))
		if err != nil {
			return nil, err
		}
		events = append(events, observability.Event{
			Envelope: observability.Envelope{
				Version: observability.Version, ID: fmt.Sprintf("%s/8/%d", sampleKey, i), Seq: 8, Index: int64(i), At: sampleAt, Type: t,
			},
			Payload: p,
		})
	}
	return events, nil
}

// generate returns n durable events of several conversations, always the same. No id is one of
// Sample's.
func generate(n int) []observability.Event {
	const conversations, perBatch = 8, 5
	var durable []observability.Event
	for _, e := range Sample() {
		if !e.Live() {
			durable = append(durable, e)
		}
	}
	events := make([]observability.Event, n)
	for i := range events {
		c, of := i%conversations, int64(i/conversations)
		e := durable[i%len(durable)]
		e.Seq, e.Index, e.At = of/perBatch, of%perBatch, sampleAt+conversation.Time(i)
		e.Conversation = conversation.ConversationID(fmt.Sprintf("conv_%d", c))
		e.Instance = fmt.Sprintf("issue %d", c)
		e.ID = fmt.Sprintf("%032x/%d/%d", c+1, e.Seq, e.Index)
		events[i] = e
	}
	return events
}
