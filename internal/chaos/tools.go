package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
)

const (
	agentName = "worker"
	dataName  = "progress"
	// toolTimeout bounds the tool that has a bound, and errWork is what a failed one says.
	toolTimeout = time.Second
	errWork     = "the work went wrong"
	// outputBytes is what the calls of a response may bring: less than a long output has, so
	// that all of it is stored and a part recorded.
	outputBytes = 1 << 20
)

// progress is the data that tools and hooks write: the N-th of its source.
type progress struct {
	From string `json:"from"`
	N    int    `json:"n"`
}

type workInput struct {
	Millis int `json:"millis"`
	Writes int `json:"writes"`
}

// author is the agent of every conversation, its tools and hooks.
type author struct {
	world *world
	data  *agent.DataWriter[progress]
}

// newAgent makes the agent. Its instructions tell the model which attempt calls it.
func newAgent(w *world) *agent.Agent {
	a := &author{w, agent.NewDataWriter[progress](dataName, nil)}
	return &agent.Agent{
		Name:  agentName,
		Model: modelSpec,
		InstructionsFunc: func(_ context.Context, t *agent.Turn) (string, error) {
			return fmt.Sprintf("%s %d %d %s", t.Submission, t.Attempt, t.Number, t.Delivery.Body), nil
		},
		Tools: []agent.Tool{
			agent.NewTool("work", "Work for a while.", a.work, nil),
			agent.NewTool("hurry", "Work for a while, but not for long.", a.work, &agent.ToolOptions{Timeout: toolTimeout}),
			agent.NewTool(waitTool, "Wait for a signal.", a.await, &agent.ToolOptions{Durable: true}),
		},
		ToolConcurrency: 2,
		Notify:          w.profile.notified(),
		Durability:      agent.Durability{MaxAttempts: maxAttempts},
		Limits:          agent.Limits{OutputBytes: outputBytes},
		Data:            []agent.Data{a.data},
		Hooks:           agent.Hooks{ResponseStarted: a.started, ResponseFinished: a.finished},
	}
}

// work is the function of both tools.
func (a *author) work(ctx context.Context, in workInput) (string, error) {
	w := a.world
	call, ok := agent.CallFrom(ctx)
	if !ok {
		w.trace.Violate("tool", "a tool runs without its call")
	}
	if err := begin(ctx); err != nil {
		return "", err
	}
	if err := w.ledger.tool(call.ID); err != nil {
		w.trace.Violate("tool", "%v", err)
	}
	for n := range in.Writes + 1 {
		length := time.Duration(in.Millis) * time.Millisecond / time.Duration(in.Writes+1)
		if err := schedule.Sleep(ctx, length+schedule.Between(schedule.Draw(w.seed, "tool", call.ID, n), 0, tremble)); err != nil {
			return "", err
		}
		if n == in.Writes {
			break
		}
		if err := a.data.Write(ctx, progress{string(call.ID), n}); err != nil {
			if ctx.Err() == nil {
				w.trace.Violate("tool", "%s cannot write data: %v", call.ID, err)
			}
			return "", err
		}
		w.ledger.wrote(string(call.ID))
	}
	switch {
	case in.Millis%11 == 0:
		panic("the work went very wrong")
	case in.Millis%7 == 0:
		return "", errors.New(errWork)
	}
	return worked(in), nil
}

func worked(in workInput) string {
	report := fmt.Sprintf("worked %d ms", in.Millis)
	if in.Millis%13 == 0 {
		report += strings.Repeat(".", outputBytes) + report
	}
	return report
}

// hookMode is what a hook does for a response.
type hookMode int

const (
	decorates hookMode = iota
	says               // nothing
	fails
	panics
	dawdles // for longer than it may
	hookModes
)

func (h hookMode) String() string {
	return [hookModes]string{"decorates", "says nothing", "fails", "panics", "dawdles"}[h]
}

// mode is what a hook does for the submission with a body.
func (w *world) mode(hook, body string) hookMode {
	if isBrief(body) || waits(body) {
		return says
	}
	if d := schedule.Draw(w.seed, "hook", hook, body); d%2 == 0 {
		return hookMode((d >> 8) % uint64(hookModes))
	}
	return decorates
}

func (a *author) started(ctx context.Context, t *agent.Turn) (map[string]any, error) {
	return a.decorate(ctx, "started", t.Delivery.Body)
}

func (a *author) finished(ctx context.Context, r *agent.Response) (map[string]any, error) {
	w, body := a.world, r.Delivery.Body
	if w.mode("finished", body) == decorates {
		from := hookSource(r.Submission)
		if err := a.data.Write(ctx, progress{from, w.ledger.source(from)}); err != nil {
			if ctx.Err() == nil {
				w.trace.Violate("hook", "%s cannot write data: %v", r.Submission, err)
			}
			return nil, err
		}
	}
	if !strings.HasSuffix(r.Text, said(w.seed, body, lastStep(w.seed, body))) && r.Number > 0 {
		w.trace.Violate("hook", "the response to %s is shown as %q", body, r.Text)
	}
	return a.decorate(ctx, "finished", body)
}

func hookSource(id conversation.SubmissionID) string { return "hook-" + string(id) }

func (a *author) decorate(ctx context.Context, hook, body string) (map[string]any, error) {
	mode := a.world.mode(hook, body)
	a.world.shown.Add(didHook + schedule.Deed(mode.String()))
	if err := schedule.Sleep(ctx, schedule.Between(schedule.Draw(a.world.seed, "hook time", hook, body), 0, 100*time.Millisecond)); err != nil {
		return nil, err
	}
	switch mode {
	case says:
		return nil, nil
	case fails:
		return nil, errors.New("the hook went wrong")
	case panics:
		panic("the hook went very wrong")
	case dawdles:
		if err := schedule.Sleep(ctx, time.Minute); err != nil {
			schedule.Sleep(context.WithoutCancel(ctx), tremble) // Who waits has left by then.
			return nil, err
		}
	}
	return map[string]any{"by": map[string]any{hook: body}}, nil
}
