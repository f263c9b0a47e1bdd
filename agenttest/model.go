package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

// Answer is a model's response to one call. The zero Answer is an empty reply, after which the runtime
// calls the model once more.
type Answer struct {
	// Delay is the time before the first output.
	Delay time.Duration
	// Reasoning, Text and Calls are the output, in this order.
	Reasoning, Text string
	// Pace is the time per word of Text. If zero, the text is one piece.
	Pace time.Duration
	// Calls are the tool calls.
	Calls []ToolCall
	// Err ends the answer after the output. The kind of a [*providers.Error] decides whether the
	// runtime retries; any other error is permanent.
	Err error
	// Stalls keeps the stream open after the output.
	Stalls bool
	// StopReason defaults to [providers.StopStop], or StopToolUse with Calls.
	StopReason providers.StopReason
	// Usage is the usage of the call. Zero is one token per word.
	Usage providers.Usage
	// Then, if set, computes the answer from the request. Other fields are ignored.
	Then func(Request) Answer
}

// ToolCall is a tool call of a model.
type ToolCall struct {
	Name string
	// Arguments are encoded as JSON. Nil is {}.
	Arguments any
}

// Say returns an answer with a text.
func Say(text string) Answer { return Answer{Text: text} }

// Call returns an answer with one tool call. The arguments are encoded as JSON; nil is {}.
func Call(tool string, arguments any) Answer {
	return Answer{Calls: []ToolCall{{tool, arguments}}}
}

// Fail returns an answer that fails. The runtime retries a [*providers.Error] of a kind such as
// [providers.KindOverloaded].
func Fail(err error) Answer { return Answer{Err: err} }

// Stall returns an answer that never ends.
func Stall() Answer { return Answer{Stalls: true} }

// Request is a call of a model.
type Request struct {
	// Model is the name that the agent uses, such as "openai/gpt-5".
	Model string
	// System, Messages and Tools are the input, as in [providers.Request].
	System   string
	Messages []providers.Message
	Tools    []providers.Tool
	// ThinkingLevel, Generation and MaxOutputTokens are the settings of the call. MaxOutputTokens is
	// the model's own maximum unless the agent sets one.
	ThinkingLevel providers.ThinkingLevel
	Generation    agent.Generation
}

// Last returns the text of the last message, or of the last tool results.
func (r Request) Last() string {
	if len(r.Messages) == 0 {
		return ""
	}
	var out []string
	for _, part := range r.Messages[len(r.Messages)-1].Parts {
		switch p := part.(type) {
		case providers.Text:
			out = append(out, p.Text)
		case providers.ToolResult:
			for _, c := range p.Content {
				if text, ok := c.(providers.Text); ok {
					out = append(out, text.Text)
				}
			}
		}
	}
	return strings.Join(out, "\n")
}

// Model answers calls with a list of answers, in order. A call that is repeated because of a crash
// gets the same answer again, from the point of the interruption. A test need not know which parts
// were recorded. A call without an answer fails the test. Methods are safe for concurrent use.
type Model struct {
	mu      sync.Mutex
	answers []Answer
	given   int
	asked   []Request
	before  map[string]givenTo // by question
	always  func(Request) Answer
}

// givenTo is an answer to a question and the process that asked it.
type givenTo struct {
	answer int
	asker  *process
}

// NewModel returns a model with a list of answers.
func NewModel(answers ...Answer) *Model {
	return &Model{answers: answers, before: map[string]givenTo{}}
}

// ModelFunc returns a model that calls answer for each request, possibly concurrently.
func ModelFunc(answer func(Request) Answer) *Model { return &Model{always: answer} }

// Add appends answers.
func (m *Model) Add(answers ...Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = append(m.answers, answers...)
}

// Requests returns the calls so far, including retries and interrupted ones.
func (m *Model) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// Left returns the number of unused answers.
func (m *Model) Left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.answers) - m.given
}

// next returns the answer to a request of a process, in one of its conversations.
func (m *Model) next(p *process, session string, r Request) Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, r)
	if m.always != nil {
		return m.always(r)
	}
	question, text := question(r.Messages)
	question = session + question
	g, again := m.before[question]
	switch {
	case again && g.asker != p: // the question was asked before a crash
	case m.given < len(m.answers):
		g.answer = m.given
		m.given++
	default:
		err := fmt.Errorf("model %s has no answer after %d: got request %.200q", r.Model, len(m.answers), r.Last())
		p.host.t.Error(err)
		return Fail(err)
	}
	g.asker = p
	m.before[question] = g
	a := m.answers[g.answer]
	if rest, ok := strings.CutPrefix(a.Text, text); ok && text != "" {
		a.Text, a.Reasoning = rest, ""
	}
	return a
}

// api is the slug of the protocol of all models.
const api = "agenttest"

// newRegistry returns the providers of the models that the agents and the options name.
func (p *process) newRegistry() (*providers.Registry, error) {
	h := p.host
	r := providers.NewRegistry(nil)
	r.RegisterProtocol(api, protocol{p})
	specs := map[string]bool{}
	for _, a := range h.agents {
		name(a, specs)
	}
	for spec := range h.opts.Models {
		specs[spec] = true
	}
	for spec := range specs {
		provider, _, _ := strings.Cut(spec, "/")
		err := r.RegisterProvider(provider, providers.Registration{
			API: api, BaseURL: "agenttest:", ContextWindow: new(1_000_000), MaxTokens: new(100_000), Reasoning: new(true),
			Input: []string{providers.InputText, providers.InputImage},
		})
		if err != nil {
			return nil, fmt.Errorf("model %q: %w", spec, err)
		}
	}
	return r, nil
}

// name collects the model names of an agent and its subagents.
func name(a *agent.Agent, specs map[string]bool) {
	for _, spec := range append([]string{a.Model, a.Compaction.Model}, a.Fallbacks...) {
		if spec != "" {
			specs[spec] = true
		}
	}
	for _, sub := range a.Subagents {
		name(sub, specs)
	}
}

// protocol implements [providers.Protocol] over the scripted models.
type protocol struct{ *process }

func (p protocol) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, m, func(out *providers.Assembler) error {
		spec := m.Provider + "/" + m.ID
		model := p.host.opts.Models[spec]
		if model == nil {
			model = p.host.opts.Model
		}
		r := Request{Model: spec, System: req.System, Messages: req.Messages, Tools: req.Tools, ThinkingLevel: o.ThinkingLevel}
		r.Generation = agent.Generation{
			Temperature: o.Temperature, MaxOutputTokens: o.MaxTokens, StopSequences: o.Stop, ToolChoice: agent.ToolChoice(o.ToolChoice),
		}
		if p.crashed.Load() {
			return context.Canceled
		}
		a := model.next(p.process, o.SessionID, r)
		if a.Then != nil {
			a = a.Then(r)
		}
		return a.emit(ctx, out)
	})
}

// emit streams the answer.
func (a Answer) emit(ctx context.Context, out *providers.Assembler) error {
	if err := pass(ctx, a.Delay); err != nil {
		return err
	}
	if a.Reasoning != "" {
		out.Reasoning(a.Reasoning, "")
		out.EndReasoning("")
	}
	words := []string{a.Text}
	if a.Pace > 0 {
		words = strings.SplitAfter(a.Text, " ")
	}
	for _, word := range words {
		if err := pass(ctx, a.Pace); err != nil {
			return err
		}
		if word != "" {
			out.Text(word)
		}
	}
	for i, c := range a.Calls {
		arguments, err := json.Marshal(c.Arguments)
		if err != nil {
			return fmt.Errorf("encode arguments of call %s: %w", c.Name, err)
		}
		if c.Arguments == nil {
			arguments = []byte("{}")
		}
		index := out.StartCall(fmt.Sprintf("call-%d", i+1), c.Name)
		out.CallArguments(index, string(arguments))
		out.EndCall(index, "")
	}
	if a.Stalls {
		<-ctx.Done()
		return ctx.Err()
	}
	if a.Err != nil {
		if e, ok := errors.AsType[*providers.Error](a.Err); ok {
			return e
		}
		return &providers.Error{Kind: providers.KindInvalidRequest, Err: a.Err}
	}
	out.Finish(a.done())
	return nil
}

// pass sleeps, unless ctx ends first.
func pass(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a Answer) done() providers.Done {
	d := providers.Done{StopReason: a.StopReason, Usage: a.Usage}
	if d.StopReason == "" {
		d.StopReason = providers.StopStop
		if len(a.Calls) > 0 {
			d.StopReason = providers.StopToolUse
		}
	}
	if d.Usage == (providers.Usage{}) {
		thought := int64(len(strings.Fields(a.Reasoning)))
		d.Usage = providers.Usage{Reasoning: thought, Output: thought + int64(len(strings.Fields(a.Text))+len(a.Calls))}
	}
	return d
}
