package events

import (
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// Tap emits the events of one conversation's batches. It belongs to the activation.
type Tap struct {
	fanout *Fanout
	key    conversation.Key
	stream observability.Stream
	// carried is the cursor of the checkpoint. A node without sinks copies it, because it does not
	// know what others shipped.
	carried *int64
}

// Tap returns the tap of a conversation whose log is not read yet.
func (f *Fanout) Tap(key conversation.Key) *Tap { return &Tap{fanout: f, key: key} }

// Opened starts the tap once the log is read; created is nil for a new conversation. exported is the
// last batch whose events are known to be shipped, and tail the last durable one. carried is the
// cursor of the checkpoint, or nil.
func (t *Tap) Opened(created *conversation.ConversationCreated, exported, tail int64, carried *int64) {
	t.carried = carried
	if created != nil {
		t.know(observability.SourceOf(created))
	}
	if t.fanout.spool != nil {
		t.fanout.spool.Open(t.key, t.stream.Source, exported, tail)
	}
}

func (t *Tap) know(src observability.Source) {
	t.stream.Source, t.stream.Options = src, t.fanout.ProjectOptions(src.Agent)
	t.Asked(conversation.Address{Agent: src.Agent, ID: src.ID})
}

// Asked records the address of the conversation from an admission, which may precede the reading of
// the log.
func (t *Tap) Asked(at conversation.Address) {
	t.fanout.o.Addresses.Put(at)
}

// Landed emits the events of a durable batch. They are projected once for all receivers.
func (t *Tap) Landed(b conversation.Batch) {
	f := t.fanout
	if f.off() {
		return
	}
	src := t.stream.Source.After(b)
	if t.stream.Source.Agent == "" {
		t.know(src)
	}
	durable := sync.OnceValue(func() []observability.Event { return observability.Project(src, b, &t.stream.Options) })
	if f.spool != nil {
		f.spool.Offer(t.key, src, b, durable)
	}
	// The text precedes the end of its turn, because an observer may write between the two and
	// OpenTelemetry makes a span of the end.
	if f.wantsLive() {
		f.emit(t.key, t.stream.Batch(b, conversation.TimeOf(time.Now()))...)
	}
	if len(f.observers) > 0 {
		f.observe(durable())
	}
}

// Shipped returns the last batch whose events are shipped, -1 if none is known.
func (t *Tap) Shipped() int64 {
	if t.fanout.spool == nil {
		return -1
	}
	seq, ok := t.fanout.spool.Cursor(t.key)
	if !ok {
		return -1
	}
	return seq
}

// MayEvict reports whether the events of the conversation are stored, or will be found without a
// pending-work journal that lists it.
func (t *Tap) MayEvict() bool {
	return t.fanout.spool == nil || t.fanout.spool.MayLeave(t.key)
}

// Exported returns the cursor for a checkpoint: Shipped or, without sinks, the carried cursor, which
// may be nil.
func (t *Tap) Exported() *int64 {
	if t.fanout.spool == nil {
		return t.carried
	}
	return new(t.Shipped())
}

// Closed ends the tap.
func (t *Tap) Closed() {
	if t.fanout.spool != nil {
		t.fanout.spool.Closed(t.key)
	}
}

// Recovery emits that work cannot continue on this node. Agent and instance come from the log or, if
// it was not read, from an admission or an earlier activation on this node.
func (t *Tap) Recovery(id conversation.SubmissionID, r *observability.SubmissionRecovery) {
	at, src := conversation.TimeOf(time.Now()), t.stream.Source
	if src.Agent == "" {
		known, _ := t.fanout.o.Addresses.Get(t.key)
		src.Agent, src.ID = known.Agent, known.ID
	}
	t.fanout.emit(t.key, src.Live(at, observability.Place{Submission: id, Whole: true}, r))
}

// Live returns the emitter for a model call or a tool.
func (t *Tap) Live(at observability.Place) *Live {
	l := &Live{fanout: t.fanout, key: t.key}
	if t.fanout.wantsLive() {
		l.src, l.Content, l.place = t.stream.Source, t.stream.Options, at
		l.Prompts = l.Content
		l.Prompts.Content = l.Content.Content || t.fanout.o.Prompts
	}
	return l
}
