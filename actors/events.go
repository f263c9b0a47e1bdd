package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/actors/internal/export"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
)

// progressBytes is how much of the arguments of a call is told of at a time.
const progressBytes = 1 << 10

// events hands what happens on this node to sinks and observers. Nothing of it waits for
// them. It is safe for concurrent use.
type events struct {
	node      string           // in the ids of live events
	spool     *export.Exporter // nil without sinks
	observers []*observability.Buffer
	noLive    bool
	options   func(agent string) observability.ProjectOptions
	next      atomic.Int64
}

// checkSinks validates where events go: logs and metrics tell sinks apart by their names.
func (o *Options) checkSinks() error {
	names := map[string]bool{}
	for i, s := range slices.Concat(o.Sinks, o.Observers) {
		if s == nil {
			return fmt.Errorf("sink or observer %d is nil", i)
		}
		if name := s.Name(); name == "" || names[name] {
			return fmt.Errorf("two sinks or observers are named %q, or one has no name", name)
		}
		names[s.Name()] = true
	}
	return nil
}

// newEvents makes what events pass through, before it is known who this node is.
func newEvents(o *Options, agents map[string]*agent.Agent) *events {
	e := &events{noLive: o.NoLiveEvents}
	e.options = func(name string) observability.ProjectOptions {
		a := agents[name]
		return observability.ProjectOptions{Content: a != nil && a.Events.Content}
	}
	for _, s := range o.Observers {
		e.observers = append(e.observers, observability.NewBuffer(s, &observability.BufferOptions{Logger: o.Logger}))
	}
	return e
}

// export makes the exporter of this node, if there are sinks.
func (r *Runtime) export() error {
	r.events.node = r.host.MemberID()
	if len(r.opts.Sinks) == 0 {
		return nil
	}
	x, err := export.New(r.logs, r.bucket, &export.Options{
		FlushRows: r.opts.EventGroup.Rows, FlushBytes: r.opts.EventGroup.Bytes, FlushEvery: r.opts.EventGroup.Every,
		Memory: r.accounts.events, Logger: r.log, Member: r.host.MemberID(), Sinks: r.opts.Sinks, SweepEvery: r.opts.SweepEvery, Live: r.incarnations,
		Skip: func(key conversation.Key) bool {
			return r.busy.Asides.Refused(key) != nil || r.busy.Asides.Suspects(key)
		},
		Reading: r.busy.Foretell,
		Project: func(src observability.Source, b conversation.Batch) []observability.Event {
			opts := r.events.options(src.Agent)
			return observability.Project(src, b, &opts)
		},
	})
	if err != nil {
		return err
	}
	r.events.spool = x
	r.busy.Journal.HoldUntil(x.MayLeave)
	return nil
}

// incarnations are the members of the view, if one is known.
func (r *Runtime) incarnations() (ids []string, ok bool) {
	if r.exclusive {
		return []string{r.host.MemberID()}, true
	}
	v := r.members.view.Load()
	if v == nil || r.members.passive() { // An old view takes living members for gone.
		return nil, false
	}
	for _, m := range v.Members {
		ids = append(ids, m.ID)
	}
	return ids, true
}

// tell runs what events go through until ctx ends.
func (r *Runtime) tell(ctx context.Context, wg *sync.WaitGroup) {
	for _, o := range r.events.observers {
		wg.Go(func() { _ = o.Run(ctx) }) // It returns nil.
	}
	x := r.events.spool
	if x == nil {
		return
	}
	wg.Go(func() {
		if err := x.Run(ctx); err != nil {
			r.log.Error("exporter ended", "err", err)
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-x.Moved():
				r.busy.Journal.Release()
			case <-ctx.Done():
				return
			}
		}
	})
}

// off reports whether nobody wants to know anything.
func (e *events) off() bool { return e.spool == nil && len(e.observers) == 0 }

// wantsLive reports whether somebody wants live events.
func (e *events) wantsLive() bool { return !e.noLive && !e.off() }

// emit gives live events their identities and hands them over.
func (e *events) emit(key conversation.Key, list ...observability.Event) {
	if !e.wantsLive() || len(list) == 0 {
		return
	}
	last := e.next.Add(int64(len(list)))
	for i := range list {
		n := last - int64(len(list)) + int64(i)
		list[i].Index = n
		list[i].ID = string(key) + "/" + e.node + "/" + strconv.FormatInt(n, 10)
	}
	if e.spool != nil {
		e.spool.Emit(list...)
	}
	e.observe(list)
}

func (e *events) observe(list []observability.Event) {
	for _, o := range e.observers {
		o.Put(list...)
	}
}

// witness tells of one conversation's batches. It belongs to the activation.
type witness struct {
	events *events
	key    conversation.Key
	stream observability.Stream
	// carried is the cursor of the checkpoint, for those that follow: a node without sinks
	// does not know what others have shipped.
	carried *int64
}

// opened begins to tell of a conversation whose log is read. exported is the last batch
// whose events are shipped for sure, if somebody knows, and tail the last durable one.
func (w *witness) opened(created *conversation.ConversationCreated, exported, tail int64) {
	if created != nil {
		w.know(observability.SourceOf(created))
	}
	if w.events.spool != nil {
		w.events.spool.Open(w.key, w.stream.Source, exported, tail)
	}
}

func (w *witness) know(src observability.Source) {
	w.stream.Source, w.stream.Options = src, w.events.options(src.Agent)
}

// landed tells of a batch that is durable.
func (w *witness) landed(b conversation.Batch) {
	if w.events.off() {
		return
	}
	src := w.stream.Source
	if src.Agent == "" {
		w.know(src.After(b))
	}
	if w.events.spool != nil {
		w.events.spool.Offer(w.key, src, b)
	}
	// What was said comes ahead of the end of its turn: an observer may write between the two,
	// and OpenTelemetry makes a span of the end.
	if w.events.wantsLive() {
		w.events.emit(w.key, w.stream.Batch(b, conversation.TimeOf(time.Now()))...)
	}
	if len(w.events.observers) > 0 {
		w.events.observe(observability.Project(src, b, &w.stream.Options))
	}
}

// shipped is the last batch whose events are shipped, -1 if nobody knows of any.
func (w *witness) shipped() int64 {
	if w.events.spool == nil {
		return -1
	}
	seq, ok := w.events.spool.Cursor(w.key)
	if !ok {
		return -1
	}
	return seq
}

// mayForget reports whether the events of the conversation are stored, or will be found,
// without a busy journal that lists it.
func (w *witness) mayForget() bool {
	return w.events.spool == nil || w.events.spool.MayLeave(w.key)
}

// exported is shipped, for a checkpoint: nil if nobody has wanted events.
func (w *witness) exported() *int64 {
	if w.events.spool == nil {
		return w.carried
	}
	return new(w.shipped())
}

// closed ends what it tells.
func (w *witness) closed() {
	if w.events.spool != nil {
		w.events.spool.Closed(w.key)
	}
}

// recovery tells that work cannot go on here.
func (w *witness) recovery(id conversation.SubmissionID, r *observability.SubmissionRecovery) {
	at := conversation.TimeOf(time.Now())
	w.events.emit(w.key, w.stream.Source.Live(at, observability.Place{Submission: id, Whole: true}, r))
}

// teller tells of work outside the actor: a model call, a tool. It is safe for concurrent
// use.
type teller struct {
	events  *events
	key     conversation.Key
	src     observability.Source
	place   observability.Place
	content observability.ProjectOptions
}

// tellerOf returns the teller of work on a submission, which may be a subagent's.
func (a *activation) tellerOf(id conversation.SubmissionID, turn conversation.TurnID) *teller {
	t := &teller{events: a.rt.events, key: a.key}
	if !t.events.wantsLive() {
		return t
	}
	state := a.machine.State()
	origin := state.Origin(id) // Of nothing, if nobody works.
	t.src, t.content = a.witness.stream.Source, a.witness.stream.Options
	t.place = observability.Place{Submission: origin.Root, Parent: origin.Parent, Turn: turn}
	if sub := state.Submission(id); sub != nil {
		t.place.Child = sub.Child
	}
	return t
}

func (t *teller) tell(p observability.Payload) {
	if !t.events.wantsLive() {
		return
	}
	t.events.emit(t.key, t.src.Live(conversation.TimeOf(time.Now()), t.place, p))
}

// log tells people something.
func (t *teller) log(level slog.Level, message string, attributes map[string]any) {
	t.tell(&observability.Log{Level: levelName(level), Message: message, Attributes: attributes})
}

// author returns a context in which what an author logs is told, with what it is about.
func (t *teller) author(ctx context.Context, about map[string]any) context.Context {
	return agent.WithLog(ctx, func(level slog.Level, message string, attributes map[string]any) {
		maps.Copy(attributes, about)
		t.log(level, message, attributes)
	})
}

// levelName is one of the three levels that events have.
func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	}
	return "info"
}

// progress shows how the arguments of calls grow.
func (t *teller) progress() *progress { return &progress{t: t} }

type progress struct {
	t     *teller
	calls map[int]*observability.ToolcallDelta
}

func (p *progress) show(e providers.Event) {
	switch e := e.(type) {
	case providers.ToolCallStart:
		if p.calls == nil {
			p.calls = map[int]*observability.ToolcallDelta{}
		}
		p.calls[e.Index] = &observability.ToolcallDelta{ToolCallID: e.ID, ToolName: e.Name}
	case providers.ToolCallDelta:
		if c := p.calls[e.Index]; c != nil {
			c.Bytes += len(e.Arguments)
			if p.t.content.Content {
				c.Delta += e.Arguments
			}
			p.flush(e.Index, progressBytes)
		}
	case providers.ToolCallEnd:
		p.flush(e.Index, 1)
	}
}

// flush tells of a call that has grown by so many bytes.
func (p *progress) flush(index, least int) {
	c := p.calls[index]
	if c == nil || c.Bytes < least {
		return
	}
	p.calls[index] = &observability.ToolcallDelta{ToolCallID: c.ToolCallID, ToolName: c.ToolName}
	c.Delta = p.t.content.Cut(c.Delta) // Some providers give arguments in one piece.
	p.t.tell(c)
}

// request tells that the model is about to be called.
func (c *modelCall) request(req providers.Request) {
	if !c.told.events.wantsLive() {
		return
	}
	model, err := c.rt.opts.Providers.Resolve(c.model)
	if err != nil {
		return // The call itself says so.
	}
	facts := factsOf(model, c.thinking, providers.Done{})
	out := observability.RequestOf(c.model, facts)
	out.Compacted, out.Tools = c.compacted != nil, len(req.Tools)
	out.Messages = len(c.exchanges)
	out.InputBytes, out.Input, out.InputTruncated = inputOf(req, c.told.content)
	c.told.tell(&observability.TurnRequest{Purpose: observability.PurposeAgent, Request: out})
}

// shownInput is what turn_request shows of the newest messages, without pictures.
type shownInput struct {
	System   string         `json:"systemPrompt,omitempty"`
	Messages []shownMessage `json:"messages"`
}

type shownMessage struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// inputOf counts the bytes of the messages of a request that are not in closed history,
// and shows them if content is switched on: the instructions and the newest message up to
// the bound, and of those before it what fits beside the newest. Cut says that it is not
// all.
func inputOf(req providers.Request, o observability.ProjectOptions) (total int, shown json.RawMessage, cut bool) {
	total = len(req.System)
	list := []shownMessage{}
	for _, m := range req.Messages {
		text := textOfParts(m.Parts)
		total += len(text)
		list = append(list, shownMessage{string(m.Role), text})
	}
	if !o.Content {
		return total, nil, false
	}
	in := shownInput{System: o.Cut(req.System)}
	const around = len(`{"role":"assistant","text":""},`)
	first, left, kept := len(list), o.Limit(), len(in.System)
	if first > 0 {
		list[first-1].Text = o.Cut(list[first-1].Text)
	}
	for first > 0 && (first == len(list) || len(list[first-1].Text)+around <= left) {
		first--
		kept += len(list[first].Text)
		left -= len(list[first].Text) + around
	}
	in.Messages = list[first:]
	raw, err := conversation.EncodeJSON(in)
	if err != nil {
		return total, nil, false
	}
	return total, raw, kept < total
}

func textOfParts(parts []providers.Part) string {
	var out []string
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, p.Text)
		case providers.ToolCall:
			out = append(out, p.Name+" "+string(p.Arguments))
		}
	}
	return strings.Join(out, "\n")
}

// factsOf are what is known of a model call beyond its outcome.
func factsOf(m providers.Model, thinking providers.ThinkingLevel, d providers.Done) conversation.CallFacts {
	f := conversation.CallFacts{
		API: m.API, Server: m.Telemetry.ServerAddress, Port: m.Telemetry.ServerPort, ResponseID: d.ResponseID, ResponseModel: d.ResponseModel,
	}
	if m.Telemetry.ProviderName != m.Provider {
		f.Provider = m.Telemetry.ProviderName
	}
	if m.Reasoning {
		f.Thinking = string(thinking)
	}
	if price := m.Cost.Price(d.Usage); price.Total > 0 {
		f.Price = new(conversation.Price(price))
	}
	return f
}
