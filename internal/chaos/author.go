package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
)

const (
	agentName = "worker"
	dataName  = "progress"
	// toolTimeout bounds the tool that has a timeout. errWork is the error of a failed tool.
	toolTimeout = time.Second
	errWork     = "the work went wrong"
	// outputBytes limits the output of the calls of one response. It is below the size of a long
	// output, so that such an output is stored whole and recorded in part.
	outputBytes = 1 << 20
	waitTool    = "await"
	// shortWait is the timeout of some waits; the others outlast any schedule.
	shortWait = time.Minute
	// timedOut is the result of a wait that timed out.
	timedOut = "timeout"
	// jobName is the one workflow. Its runs take jobSteps steps; jobFails is the error of those that
	// fail.
	jobName  = "job"
	jobSteps = 3
	jobFails = "the job went wrong"
	// replyName and runName prefix the names of waits for replies and for runs.
	replyName = "reply of "
	runName   = "run "
)

// progress is the data that tools and hooks write: the N-th piece of its source.
type progress struct {
	From string `json:"from"`
	N    int    `json:"n"`
}

type workInput struct {
	Millis int `json:"millis"`
	Writes int `json:"writes"`
}

type waitInput struct {
	Name string `json:"name"`
}

// job is the input of a run: its purpose, and how many child runs it starts.
type job struct {
	For   string `json:"for"`
	Below int    `json:"below"`
}

// author holds the agents, tools and hooks of every conversation, and the workflow.
type author struct {
	*world
	agents []*agent.Agent // the agent, and the agent of the workflow
	data   *agent.DataWriter[progress]
	flow   *agent.Workflow[job, string]
	worked atomic.Int64 // steps of runs
}

// newAuthor makes the agent. Its instructions name the attempt that calls the model.
func newAuthor(w *world) *author {
	a := &author{world: w, data: agent.NewDataWriter[progress](dataName, nil)}
	a.flow = agent.NewWorkflow(jobName, a.do, &agent.WorkflowOptions{Durability: agent.Durability{MaxAttempts: maxAttempts}})
	worker := &agent.Agent{
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
		Durability:      agent.Durability{MaxAttempts: maxAttempts},
		Limits:          agent.Limits{OutputBytes: outputBytes},
		Data:            []agent.Data{a.data},
		Hooks:           agent.Hooks{ResponseStarted: a.started, ResponseFinished: a.finished},
	}
	switch w.Profile {
	case Posts:
		worker.Notify = []string{officeName}
	case Trees:
		worker.Tools = append(worker.Tools, agent.NewTool(sendTool, "Dispatch.", a.send, &agent.ToolOptions{Durable: true}))
		worker.Limits.TreeSubmissions, worker.Limits.TreeDollars = treeSubmissions, treeDollars
	}
	a.agents = []*agent.Agent{worker, a.flow.Definition()}
	return a
}

// work implements both tools that work.
func (a *author) work(ctx context.Context, in workInput) (string, error) {
	call, ok := agent.CallFrom(ctx)
	a.trace.ViolateIf(!ok, "tool", "tool runs without a call")
	if err := begin(ctx); err != nil {
		return "", err
	}
	if err := a.ledger.tool(call.ID); err != nil {
		a.trace.Violate("tool", "%v", err)
	}
	for n := range in.Writes + 1 {
		length := time.Duration(in.Millis) * time.Millisecond / time.Duration(in.Writes+1)
		if err := schedule.Sleep(ctx, length+schedule.Between(schedule.Draw(a.Seed, "tool", call.ID, n), 0, tremble)); err != nil {
			return "", err
		}
		if n == in.Writes {
			break
		}
		if err := a.write(ctx, "tool", progress{string(call.ID), n}); err != nil {
			return "", err
		}
		a.ledger.writes.Next(string(call.ID))
	}
	switch {
	case in.Millis%11 == 0:
		panic("the work went very wrong")
	case in.Millis%7 == 0:
		return "", errors.New(errWork)
	}
	return worked(in), nil
}

func (a *author) write(ctx context.Context, source string, p progress) error {
	err := a.data.Write(ctx, p)
	a.trace.ViolateIf(err != nil && ctx.Err() == nil, source, "%s cannot write data: %v", p.From, err)
	return err
}

func worked(in workInput) string {
	report := fmt.Sprintf("worked %d ms", in.Millis)
	if in.Millis%13 == 0 {
		report += strings.Repeat(".", outputBytes) + report
	}
	return report
}

// Behaviors of a hook.
const (
	decorates = "decorates"
	silent    = "says nothing"
	fails     = "fails"
	panics    = "panics"
	dawdles   = "dawdles" // longer than its timeout
)

func hookModes() []string { return []string{decorates, silent, fails, panics, dawdles} }

// mode returns the behavior of a hook for the submission with a body.
func (w *world) mode(hook, body string) string {
	if isBrief(body) || waits(body) || spreads(body) {
		return silent
	}
	if d := schedule.Draw(w.Seed, "hook", hook, body); d%2 == 0 {
		return hookModes()[(d>>8)%uint64(len(hookModes()))]
	}
	return decorates
}

func (a *author) started(ctx context.Context, t *agent.Turn) (map[string]any, error) {
	return a.decorate(ctx, "started", t.Delivery.Body)
}

func (a *author) finished(ctx context.Context, r *agent.Response) (map[string]any, error) {
	body := r.Delivery.Body
	if a.mode("finished", body) == decorates {
		from := "hook-" + string(r.Submission)
		if err := a.write(ctx, "hook", progress{from, a.ledger.sources.Next(from)}); err != nil {
			return nil, err
		}
	}
	a.trace.ViolateIf(!strings.HasSuffix(r.Text, stepText(a.Seed, body, lastStep(a.Seed, body))) && r.Number > 0,
		"hook", "the response to %s is shown as %q", body, r.Text)
	return a.decorate(ctx, "finished", body)
}

func (a *author) decorate(ctx context.Context, hook, body string) (map[string]any, error) {
	mode := a.mode(hook, body)
	a.trace.Did("hook " + mode)
	if err := schedule.Sleep(ctx, schedule.Between(schedule.Draw(a.Seed, "hook time", hook, body), 0, 100*time.Millisecond)); err != nil {
		return nil, err
	}
	switch mode {
	case silent:
		return nil, nil
	case fails:
		return nil, errors.New("the hook went wrong")
	case panics:
		panic("the hook went very wrong")
	case dawdles:
		if err := schedule.Sleep(ctx, time.Minute); err != nil {
			schedule.Sleep(context.WithoutCancel(ctx), tremble) // The waiting caller has returned by then.
			return nil, err
		}
	}
	return map[string]any{"by": map[string]any{hook: body}}, nil
}

func (a *author) await(ctx context.Context, in waitInput) (string, error) {
	if err := begin(ctx); err != nil {
		return "", err
	}
	result, err := a.perform(ctx, in.Name)
	if a.Profile == Posts && err == nil {
		for n := range 2 {
			if _, err := agent.Post(ctx, agent.Outgoing{Target: officeName, Body: fmt.Sprint(result, " ", n)}); err != nil {
				return "", err
			}
		}
	}
	return result, err
}

// perform runs the workflow, asks a conversation for a brief answer, or waits for a signal.
func (a *author) perform(ctx context.Context, body string) (result string, err error) {
	asks := schedule.Draw(a.Seed, "asks", body)
	switch {
	case a.Profile == Runs && schedule.Draw(a.Seed, "runs", body)%4 != 0:
		below := schedule.Draw(a.Seed, "below", body) % 3
		result, err = a.flow.Run(ctx, runName+body, job{body, int(below)}, nil)
	case asks%3 == 0:
		m := agent.Text(brief + body)
		m.Key = "asked"
		var reply *conversation.Reply
		if reply, err = agent.Ask(ctx, a.addresses[(asks>>8)%uint64(len(a.addresses))], m, nil); err == nil {
			result = reply.Text
		}
	default:
		o := &agent.WaitOptions{}
		if schedule.Draw(a.Seed, "waits shortly", body)%3 == 0 {
			o.Timeout = shortWait
		}
		if result, err = agent.Wait[string](ctx, body, o); errors.Is(err, agent.ErrWaitTimeout) {
			return timedOut, nil
		}
	}
	return outcomeOf(result, err)
}

func outcomeOf(result string, err error) (string, error) {
	if settled := (*conversation.SettledError)(nil); errors.As(err, &settled) {
		return string(settled.Outcome), nil
	}
	return result, err
}

// replyOf returns the reply or run result that a record delivers to a call. For a signal ok is false.
func replyOf(r *conversation.WaitEnded) (text string, reply conversation.SentReply, ok bool) {
	isReply, isRun := strings.HasPrefix(r.Name, replyName), strings.HasPrefix(r.Name, runName)
	if !isReply && !isRun || r.Reason != conversation.EndedBySignal || json.Unmarshal(r.Value, &reply) != nil {
		return "", reply, false
	}
	if text = reply.Text; reply.Outcome != conversation.OutcomeCompleted || isRun && json.Unmarshal(reply.Output, &text) != nil {
		text = string(reply.Outcome)
	}
	return text, reply, true
}

// do implements the workflow. Each execution of a step returns a new number, so a result identifies
// the executions it used.
func (a *author) do(ctx context.Context, in job) (string, error) {
	if err := begin(ctx); err != nil {
		return "", err
	}
	var started []*agent.Started[string]
	for n := range in.Below {
		s, err := a.flow.Start(ctx, fmt.Sprint(runName, n), job{fmt.Sprint(in.For, "/", n), 0}, nil)
		if err != nil {
			return "", err
		}
		started = append(started, s)
	}
	out := in.For
	for n := range jobSteps {
		took, err := agent.Step(ctx, fmt.Sprint("step ", n), func(ctx context.Context) (int64, error) {
			err := schedule.Sleep(ctx, schedule.Between(schedule.Draw(a.Seed, "step", in.For, n), time.Millisecond, time.Second))
			if err != nil {
				return 0, err
			}
			return a.worked.Add(1), nil
		})
		if err != nil {
			return "", err
		}
		out += fmt.Sprint(" ", took)
	}
	if schedule.Draw(a.Seed, "sleeps", in.For)%3 == 0 {
		if err := agent.Sleep(ctx, "sleep", shortWait); err != nil {
			return "", err
		}
	}
	for _, s := range started {
		below, err := outcomeOf(s.Wait(ctx))
		if err != nil {
			return "", err
		}
		out += " (" + below + ")"
	}
	if a.jobFails(in.For) {
		return "", errors.New(jobFails)
	}
	return out, nil
}

func (w *world) jobFails(desc string) bool { return schedule.Draw(w.Seed, "job fails", desc)%5 == 0 }
