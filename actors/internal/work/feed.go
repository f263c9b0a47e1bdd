package work

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// maxFeedBytes bounds the model output queued for the activation. Each event counts eventBytes in
// addition to its content.
const (
	maxFeedBytes = 1 << 20
	eventBytes   = 512
)

// feed carries the events of a model call to the activation. Queued events are delivered together,
// with adjacent text merged. A full feed holds the stream back.
type feed struct {
	ready func() // makes the actor call take

	mu     sync.Mutex
	model  string // model that the events come from
	passed *machine.Replaced
	facts  conversation.CallFacts
	events []machine.ModelEvent
	text   []byte // appended text of the last event
	bytes  int
	posted bool
	taken  chan struct{} // closed by the next take; nil without a waiter
}

// push adds an event. It blocks while the feed is full and returns ctx.Err() if ctx ends first.
func (f *feed) push(ctx context.Context, e machine.ModelEvent) error {
	_, err := f.add(ctx, e, false)
	return err
}

// deliver pushes an event like push and waits until the activation has taken it.
func (f *feed) deliver(ctx context.Context, e machine.ModelEvent) error {
	taken, err := f.add(ctx, e, true)
	if err != nil {
		return err
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add adds an event. With asked it returns a channel that is closed when the event is taken.
func (f *feed) add(ctx context.Context, e machine.ModelEvent, asked bool) (taken <-chan struct{}, err error) {
	f.mu.Lock()
	for f.bytes >= maxFeedBytes {
		room := f.nextTake()
		f.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		f.mu.Lock()
	}
	f.bytes += len(e.Text) + len(e.Input) + len(e.Signature)
	if n := len(f.events); n > 0 && f.events[n-1].Kind == e.Kind && (e.Kind == machine.ModelText || e.Kind == machine.ModelReasoning) {
		f.text = append(f.text, e.Text...)
	} else {
		f.endText()
		f.events = append(f.events, e)
		f.bytes += eventBytes
	}
	post := !f.posted
	f.posted = true
	if asked {
		taken = f.nextTake()
	}
	f.mu.Unlock()
	if post {
		f.ready()
	}
	return taken, nil
}

// endText moves the appended text into the last event. The caller holds mu.
func (f *feed) endText() {
	if len(f.text) > 0 {
		f.events[len(f.events)-1].Text += string(f.text)
		f.text = f.text[:0]
	}
}

// nextTake returns a channel that the next take closes. The caller holds mu.
func (f *feed) nextTake() <-chan struct{} {
	if f.taken == nil {
		f.taken = make(chan struct{})
	}
	return f.taken
}

// from sets the model of the following events, the model skipped for it, and the facts of its call.
func (f *feed) from(model string, passed *machine.Replaced, facts conversation.CallFacts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.model, f.passed, f.facts = model, passed, facts
}

// take returns and clears the queued events.
func (f *feed) take() machine.Model {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endText()
	out := machine.Model{Name: f.model, Passed: f.passed, Facts: f.facts, Events: f.events}
	f.events, f.bytes, f.posted = nil, 0, false
	if f.taken != nil {
		close(f.taken)
		f.taken = nil
	}
	return out
}

// writer returns the function that receives the data writes of an agent while within lasts. An author
// may keep a context longer; data written later is refused or ignored.
func (f *feed) writer(within context.Context, u *author) func(context.Context, string, json.RawMessage) error {
	return func(ctx context.Context, name string, data json.RawMessage) error {
		if within.Err() != nil {
			return agent.ErrNoResponse
		}
		if !u.writesData(name) {
			return fmt.Errorf("agent %q: %w", u.name, agent.ErrUndeclaredData)
		}
		if err := conversation.CheckPayload(data); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(within, cancel)()
		if err := f.deliver(ctx, machine.ModelEvent{Kind: machine.ModelData, Name: name, Input: data}); err != nil {
			return err
		}
		return within.Err()
	}
}
