package simtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

const (
	agentName = "worker"
	modelAPI  = "scripted"
	modelSpec = "scripted/model"
)

// newAgent is the agent of every conversation. Its instructions tell the model
// which attempt calls it.
func newAgent(w *world) *agent.Agent {
	return &agent.Agent{
		Name:  agentName,
		Model: modelSpec,
		InstructionsFunc: func(_ context.Context, t *agent.Turn) (string, error) {
			return fmt.Sprintf("%s %d %d %s", t.Submission, t.Attempt, t.Step, t.Delivery.Body), nil
		},
		Tools: []agent.Tool{agent.NewTool("work", "Work for a while.", w.work, nil)},
	}
}

type workInput struct {
	Millis int `json:"millis"`
}

// work is the tool.
func (w *world) work(ctx context.Context, in workInput) (string, error) {
	call, ok := agent.CallFrom(ctx)
	if !ok {
		w.trace.violate("tool", "a tool runs without its call")
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err := w.ledger.tool(call.ID); err != nil {
		w.trace.violate("tool", "%v", err)
	}
	if err := sleep(ctx, time.Duration(in.Millis)*time.Millisecond); err != nil {
		return "", err
	}
	if in.Millis%7 == 0 {
		return "", errors.New("the work went wrong")
	}
	return fmt.Sprintf("worked %d ms", in.Millis), nil
}

// model is the provider as one node reaches it. What it says depends on the seed,
// the delivery and the step only.
type model struct {
	world *world
	link  *link
}

// newProviders returns the registry of one node.
func newProviders(w *world, l *link) (*providers.Registry, error) {
	reg := providers.NewRegistry(nil)
	reg.RegisterProtocol(modelAPI, &model{w, l})
	if err := reg.RegisterProvider("scripted", providers.Registration{API: modelAPI, BaseURL: "scripted:"}); err != nil {
		return nil, err
	}
	return reg, nil
}

// Stream implements providers.Protocol.
func (m *model) Stream(ctx context.Context, spec providers.Model, req providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, spec, func(out *providers.Assembler) error {
		var sub, body string
		var attempt, step int
		if _, err := fmt.Sscan(req.System, &sub, &attempt, &step, &body); err != nil {
			return fmt.Errorf("read instructions: %w", err)
		}
		if m.link.isDead() {
			return errDead
		}
		m.world.trace.add(m.link.member, "model call for %s (%s), attempt %d, step %d", body, sub, attempt, step)
		if err := m.world.ledger.model(attemptID{m.link.member, conversation.SubmissionID(sub), attempt}); err != nil && ctx.Err() == nil {
			m.world.trace.violate(m.link.member, "%v", err)
		}
		return m.answer(ctx, out, body, step)
	})
}

// answer streams reasoning, text and calls, with pauses.
func (m *model) answer(ctx context.Context, out *providers.Assembler, body string, step int) error {
	d := func(what string) uint64 { return draw(m.world.seed, "model", what, body, step) }
	steps := []int{1, 1, 1, 2, 2, 3}[draw(m.world.seed, "steps", body)%6]
	pause := func(what string) error { return sleep(ctx, between(d(what), 5*time.Millisecond, 150*time.Millisecond)) }
	if err := pause("first"); err != nil {
		return err
	}
	if d("fails")%20 == 0 {
		return &providers.Error{Kind: providers.KindOverloaded, Provider: "scripted", Status: 529}
	}
	if d("thinks")%3 == 0 {
		out.Reasoning("thinking about "+body, "")
		if err := pause("thought"); err != nil {
			return err
		}
		out.Reasoning("", "signed")
	}
	for i := range 1 + d("words")%3 {
		out.Text(fmt.Sprintf("%s says %d.%d. ", body, step, i))
		if err := pause(fmt.Sprint("word", i)); err != nil {
			return err
		}
	}
	done := providers.Done{StopReason: providers.StopStop, Usage: providers.Usage{Input: 1, Output: 1}}
	if step < steps {
		done.StopReason = providers.StopToolUse
		for i := range 1 + d("calls")%2 {
			call := out.StartCall(fmt.Sprintf("%s-%d-%d", body, step, i), "work")
			out.CallArguments(call, fmt.Sprintf(`{"millis":%d}`, d(fmt.Sprint("work", i))%500))
		}
	}
	out.Finish(done)
	return nil
}

// sleep lets virtual time pass.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
