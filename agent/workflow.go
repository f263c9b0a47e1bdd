package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// Workflow is a durable function: each run of it is admitted once, is worked on by the node that owns its id, goes on
// after crashes and deploys where its steps end, and ends with a result, an error or an abort. Make one with
// [NewWorkflow]. It is immutable and safe for concurrent use, if its function is.
type Workflow[In, Out any] struct {
	name string
	def  *Agent
	opts WorkflowOptions
}

// AnyWorkflow is a [Workflow] of whatever types.
type AnyWorkflow interface {
	// Name is the name in its address, "/workflows/<name>".
	Name() string
	// Definition is what runtimes register, beside agents.
	Definition() *Agent
}

// WorkflowOptions are the optional facts of a workflow.
type WorkflowOptions struct {
	// InputSchema is in place of that of the input's Go type, and Open lets members of the input through that are no
	// field, as in [ToolOptions].
	InputSchema json.RawMessage
	Open        bool

	// Durability bounds the work on one run. Timeout is the time worked, without sleeps and waits.
	Durability Durability

	// Limits bound what a run brings forth: OutputBytes the results of its steps, Dispatches the messages that it sends and
	// the runs that it starts.
	Limits Limits

	// Notify are the targets that are told of the end of each run, as [Agent.Notify].
	Notify []string

	// Notifiable are the targets that a caller may name for the end of its run, as [Agent.Notifiable].
	Notifiable []string

	// Events says what observability events show of runs.
	Events Events
}

// NewWorkflow makes a workflow of a function, which is to a run what the function of a durable tool is to a call: it runs
// again from its start after a crash and after each long wait, and what must not happen twice stands in a [Step]. It may
// [Sleep], [Wait] for signals, [Ask] agents, [Post], [Dispatch], and start runs, by [Workflow.Start]. [CallFrom] has the
// id of the run, in Address. What it returns is the result of the run, an error its failure, whose text callers see.
//
// In and Out are whatever survives JSON; the schema of In is derived as that of a tool's input, which an input has to
// fit before there is a run. A result has up to [conversation.MaxPayloadBytes].
//
// The name is like that of an agent, but for the two being apart: a workflow and an agent may have one name. NewWorkflow
// panics for a name that cannot be, a nil function, and an input type or schema that is none, as [NewTool] does.
func NewWorkflow[In, Out any](name string, fn func(ctx context.Context, in In) (Out, error), opts *WorkflowOptions) *Workflow[In, Out] {
	if opts == nil {
		opts = &WorkflowOptions{}
	}
	def, err := newWorkflow(name, reflect.TypeFor[In](), opts)
	if err == nil && fn == nil {
		err = errors.New("function is nil")
	}
	if err != nil {
		panic(fmt.Errorf("agent: workflow %q: %w", name, err))
	}
	def.Tools[0].call = calling(name, def.Tools[0].input, fn)
	return &Workflow[In, Out]{name: name, def: def, opts: *opts}
}

// newWorkflow is the part of NewWorkflow that does not depend on types.
func newWorkflow(name string, in reflect.Type, opts *WorkflowOptions) (*Agent, error) {
	if !regexp.MustCompile(namePattern).MatchString(name) {
		return nil, fmt.Errorf("name does not match %s; choose one such as \"nightly-report\"", namePattern)
	}
	schema, err := schemaBy(in, opts.InputSchema, reads|writes, opts.Open)
	if err != nil {
		return nil, fmt.Errorf("input %v: %w", in, err)
	}
	call := Tool{name: name, description: "workflow", input: schema, durable: true, timeout: cmp.Or(opts.Durability.Timeout, DefaultTimeout)}
	return &Agent{
		Name: conversation.WorkflowAgent(name), Tools: []Tool{call}, Durability: opts.Durability, Limits: opts.Limits,
		Notify: opts.Notify, Notifiable: opts.Notifiable, Events: opts.Events, function: true,
	}, nil
}

// Name implements [AnyWorkflow].
func (w *Workflow[In, Out]) Name() string { return w.name }

// Definition implements [AnyWorkflow].
func (w *Workflow[In, Out]) Definition() *Agent { return w.def }

// Admission is what a runtime is asked for to begin a run. A key makes that safe to repeat: the same key means the same
// run, whose id this returns, for as long as its log is there. Runtimes and servers call it; see [Workflow.Begin].
func (w *Workflow[In, Out]) Admission(key string, in In) (conversation.Admission, error) {
	raw, err := contain.Encode("input of workflow "+w.name, in)
	if err != nil {
		return conversation.Admission{}, conversation.Errorf(conversation.CodeInvalidRequest, "The input of workflow %s has no JSON form: %v.", w.name, err)
	}
	return conversation.RunOf(w.name, conversation.RunFor(w.name, key), raw), nil
}

// Begin begins a run from outside of tools and workflows, by the runtime. It returns when the run is durable. Repeating it
// with the same key and input is safe, and with another input a [*conversation.Error] with code submission_conflict.
func (w *Workflow[In, Out]) Begin(ctx context.Context, d conversation.Dispatcher, key string, in In) (conversation.RunID, error) {
	a, err := w.Admission(key, in)
	if err == nil {
		_, err = d.Admit(ctx, a)
	}
	if err != nil {
		return "", fmt.Errorf("begin workflow %s: %w", w.name, err)
	}
	return conversation.RunID(a.Address.ID), nil
}

// StartOptions are the optional facts of a run that a run or a tool starts.
type StartOptions struct {
	// Timeout is how long [Started.Wait] waits, counted from the start: up to 30 days, and 0 for as long.
	Timeout time.Duration
}

// Started is a run that durable code has started, and whose end it may wait for.
type Started[Out any] struct {
	// ID is that of the run.
	ID conversation.RunID

	name string // of the wait
	from *steps
	err  func(err error) error
}

// Start starts a run from a workflow or a durable tool, once, whatever dies: later runs of the call find it started, by
// the name, which is one of the names of the call's steps. It does not wait: start several, and then wait for each, to have
// them run beside each other. Limits.Dispatches of who starts bounds how many.
//
// The error is that of [Ask].
func (w *Workflow[In, Out]) Start(ctx context.Context, name string, in In, o *StartOptions) (*Started[Out], error) {
	if o == nil {
		o = &StartOptions{}
	}
	fail := func(err error) error { return fmt.Errorf("run %s of workflow %s: %w", shorten(name), w.name, err) }
	s := stepsFrom(ctx)
	if s == nil {
		return nil, fail(&StepError{Step: name, Err: ErrNoSteps})
	}
	call, _ := CallFrom(ctx)
	a, err := w.Admission(call.Address.ID+" "+string(call.ID)+" "+name, in)
	if err == nil {
		err = s.beginWait(ctx, name, o.Timeout)
	}
	if err == nil {
		err = s.ask(ctx, name, a)
	}
	if err != nil {
		return nil, fail(err)
	}
	return &Started[Out]{ID: conversation.RunID(a.Address.ID), name: name, from: s, err: fail}, nil
}

// Wait returns the result of the run. Like [Ask] it puts the call away meanwhile. The error is a
// [*conversation.SettledError] if the run failed or was aborted; [ErrWaitTimeout], after which the run goes on;
// [ErrSuspended]; or a [*StepError].
func (r *Started[Out]) Wait(ctx context.Context) (out Out, err error) {
	raw, err := r.from.result(ctx, r.name, r.ID)
	if err == nil {
		if err = contain.Decode("result of run "+shorten(r.name), raw, &out); err != nil {
			err = &StepError{Step: r.name, Err: fmt.Errorf("the result does not fit %T: %w", out, err)}
		}
	}
	if err != nil {
		err = r.err(err)
	}
	return out, err
}

// Run starts a run and waits for its result.
func (w *Workflow[In, Out]) Run(ctx context.Context, name string, in In, o *StartOptions) (Out, error) {
	started, err := w.Start(ctx, name, in, o)
	if err != nil {
		var none Out
		return none, err
	}
	return started.Wait(ctx)
}

// beginWait has a call wait for a reply before there is one, without putting it away.
func (s *steps) beginWait(ctx context.Context, name string, timeout time.Duration) error {
	w, err := s.waiter(ctx, timeout)
	if err == nil {
		err = s.begin(name)
	}
	if err != nil {
		return &StepError{Step: name, Err: err}
	}
	_, err = w.Wait(ctx, seam.Waiting{Name: name, Schema: toldSchema(), Until: waitEnd(timeout), Begin: true})
	return s.waited(name, err)
}

// result waits for the end of a run that the call has started, and returns its result.
func (s *steps) result(ctx context.Context, name string, id conversation.RunID) (json.RawMessage, error) {
	w, err := s.waiter(ctx, 0)
	if err != nil {
		return nil, &StepError{Step: name, Err: err}
	}
	raw, err := w.Wait(ctx, seam.Waiting{Name: name, Schema: toldSchema(), Until: waitEnd(0)})
	if err != nil {
		return nil, s.waited(name, err)
	}
	var told conversation.SentReply
	if err := json.Unmarshal(raw, &told); err != nil {
		return nil, &StepError{Step: name, Err: fmt.Errorf("the reply cannot be read: %w", err)}
	}
	settled := conversation.Settlement{SubmissionID: told.Submission, Outcome: told.Outcome, Error: told.Error}
	if err := settled.AsError(); err != nil || !told.Cut {
		return told.Output, err
	}
	runs, ok := s.recorder.(runReader)
	if !ok {
		return nil, &StepError{Step: name, Err: ErrNoSteps}
	}
	raw, err = runs.RunResult(ctx, id)
	if err != nil {
		return nil, &StepError{Step: name, Err: fmt.Errorf("read the result: %w", err)}
	}
	return raw, nil
}

// runReader is agenthost.RunReader.
type runReader interface {
	RunResult(ctx context.Context, id conversation.RunID) (json.RawMessage, error)
}

// RunToolOptions are the optional facts of a tool that starts runs.
type RunToolOptions struct {
	// Wait has the tool return the result of the run, as long as that takes. Without it the tool returns the run's id, in
	// {"runId":"…"}, as soon as the run has begun.
	Wait bool
}

// Tool returns a tool by which a model starts a run, one for each call. It is called as the workflow is, and its input,
// which has to be an object, is that of the run. It panics as [NewTool] does.
func (w *Workflow[In, Out]) Tool(description string, o *RunToolOptions) Tool {
	if o == nil {
		o = &RunToolOptions{}
	}
	return NewTool(w.name, description, func(ctx context.Context, in In) (any, error) {
		started, err := w.Start(ctx, "run", in, nil)
		if err != nil || !o.Wait {
			return startedRun{started.id()}, err
		}
		return started.Wait(ctx)
	}, &ToolOptions{InputSchema: w.opts.InputSchema, Open: w.opts.Open, Durable: true})
}

type startedRun struct {
	ID conversation.RunID `json:"runId"`
}

func (r *Started[Out]) id() conversation.RunID {
	if r == nil {
		return ""
	}
	return r.ID
}
