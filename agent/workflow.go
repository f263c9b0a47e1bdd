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

// Workflow is a durable function. Each run is admitted once and runs on the node that owns its id.
// After a crash or deploy it resumes after its last recorded step. It ends with a result, an error or
// an abort. [NewWorkflow] returns one. It is immutable and safe for concurrent use if its function is.
type Workflow[In, Out any] struct {
	name string
	def  *Agent
	opts WorkflowOptions
}

// AnyWorkflow is a [Workflow] of any types.
type AnyWorkflow interface {
	// Name is the name in its address, "/workflows/<name>".
	Name() string
	// Definition returns the definition that runtimes register next to agents.
	Definition() *Agent
}

// WorkflowOptions are the options of [NewWorkflow].
type WorkflowOptions struct {
	// InputSchema replaces the schema of the input's Go type, and Open accepts members that are not
	// fields, as in [ToolOptions].
	InputSchema json.RawMessage
	Open        bool

	// Durability bounds the work on one run. Timeout is the time worked since the last suspension.
	Durability Durability

	// Limits bound a run: OutputBytes the results of its steps, Dispatches the messages that it sends
	// and the runs that it starts.
	Limits Limits

	// Notify are the targets that receive the end of each run, like [Agent.Notify].
	Notify []string

	// Notifiable are the targets that a caller may name for the end of its run, like
	// [Agent.Notifiable].
	Notifiable []string

	// Events configures the observability events of runs.
	Events Events
}

// NewWorkflow returns a workflow that runs a function, under the rules of a durable tool's function:
// it runs again from its start after a crash and after each long wait, and effects that must not
// happen twice belong into a [Step]. It may [Sleep], [Wait] for signals, [Ask] agents, [Post],
// [Dispatch], and start runs by [Workflow.Start]. [CallFrom] returns the id of the run, in Address.
// The function returns the result of the run, or its failure, whose text callers see.
//
// In and Out must survive JSON; the schema of In is derived like that of a tool's input and validates
// the input before a run is admitted. A result has up to [conversation.MaxPayloadBytes].
//
// The name follows the rule of agents' names; a workflow and an agent may have the same name.
// NewWorkflow panics for an invalid name, a nil function, and an invalid input type or schema, as
// [NewTool] does.
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

// newWorkflow is the part of NewWorkflow that is independent of types.
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

// Admission returns the runtime's request to begin a run. The same key means the same run, whose id
// this returns, for as long as its log exists. Runtimes and servers call it; see [Workflow.Begin].
func (w *Workflow[In, Out]) Admission(key string, in In) (conversation.Admission, error) {
	raw, err := contain.Encode("input of workflow "+w.name, in)
	if err != nil {
		return conversation.Admission{}, conversation.Errorf(conversation.CodeInvalidRequest, "The input of workflow %s has no JSON form: %v.", w.name, err)
	}
	return conversation.RunOf(w.name, conversation.RunFor(w.name, key), raw), nil
}

// Begin begins a run from outside of tools and workflows. It returns when the run is durable. A
// repetition with the same key and input is safe; one with another input is a [*conversation.Error]
// with code submission_conflict.
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

// StartOptions are the options of [Workflow.Start].
type StartOptions struct {
	// Timeout bounds [Started.Wait], counted from the start: up to 30 days; 0 means 30 days.
	Timeout time.Duration
}

// Started is a run that durable code has started and may wait for.
type Started[Out any] struct {
	// ID is the id of the run.
	ID conversation.RunID

	name string // name of the wait
	from *steps
	err  func(err error) error
}

// Start starts a run from a workflow or a durable tool once, also over crashes: later runs of the call
// find it by the name, which is one of the names of the call's steps. It does not wait, so several
// started runs run concurrently. Limits.Dispatches of the caller bounds them.
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

// Wait returns the result of the run and suspends the call like [Ask]. The error is a
// [*conversation.SettledError] if the run failed or was aborted; [ErrWaitTimeout], after which the run
// continues; [ErrSuspended]; or a [*StepError].
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

// beginWait records that a call waits for a reply, without suspending it.
func (s *steps) beginWait(ctx context.Context, name string, timeout time.Duration) error {
	w, err := s.waiter(ctx, timeout)
	if err == nil {
		err = s.begin(name)
	}
	if err != nil {
		return &StepError{Step: name, Err: err}
	}
	_, err = w.Wait(ctx, seam.Waiting{Name: name, Schema: sentReplySchema(), Until: waitEnd(timeout), Begin: true})
	return s.waited(name, err)
}

// result waits for the end of a started run and returns its result.
func (s *steps) result(ctx context.Context, name string, id conversation.RunID) (json.RawMessage, error) {
	w, err := s.waiter(ctx, 0)
	if err != nil {
		return nil, &StepError{Step: name, Err: err}
	}
	raw, err := w.Wait(ctx, seam.Waiting{Name: name, Schema: sentReplySchema(), Until: waitEnd(0)})
	if err != nil {
		return nil, s.waited(name, err)
	}
	var sent conversation.SentReply
	if err := json.Unmarshal(raw, &sent); err != nil {
		return nil, &StepError{Step: name, Err: fmt.Errorf("the reply cannot be read: %w", err)}
	}
	settled := conversation.Settlement{SubmissionID: sent.Submission, Outcome: sent.Outcome, Error: sent.Error}
	if err := settled.AsError(); err != nil || !sent.Truncated {
		return sent.Output, err
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

// RunToolOptions are the options of [Workflow.Tool].
type RunToolOptions struct {
	// Wait makes the tool return the result of the run. Without it the tool returns the run's id,
	// {"runId":"…"}, as soon as the run has begun.
	Wait bool
}

// Tool returns a tool by which a model starts a run per call. It has the workflow's name, and its
// input, which must be an object, is that of the run. It panics as [NewTool] does.
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
