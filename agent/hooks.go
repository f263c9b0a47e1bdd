package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/conversation"
)

// Hooks are an author's functions at moments of a response. Each may be nil.
//
// A hook decorates a response and cannot fail it: an error, a panic or a hook that
// takes longer than 10 seconds, or what the program set, is logged, and the response goes on without its
// metadata. After a crash a hook whose metadata was not recorded is called again.
type Hooks struct {
	// ResponseStarted is called before the first model call of a response. What it
	// returns is the metadata the response starts with; nil is none.
	ResponseStarted func(ctx context.Context, t *Turn) (metadata map[string]any, err error)

	// ResponseFinished is called once the model has ended a response and its last
	// step is durable, before the submission settles as completed. What it returns
	// is merged deeply onto the metadata; nil leaves it as it is. It may write data
	// (see [DataWriter]). It is not called for a response that fails or is aborted.
	ResponseFinished func(ctx context.Context, r *Response) (metadata map[string]any, err error)
}

// Response is the facts of a response that has ended. It is read-only and valid
// during the call it is handed to.
type Response struct {
	// Turn is that of the attempt that ends the response. Step is 0 if an earlier
	// attempt made the last model call.
	Turn
	// Message is the response in the transcript.
	Message conversation.MessageID
	// Text is what the response says, its text parts joined by blank lines.
	Text string
	// StopReason is the model's reason to end, such as "stop" or "length".
	StopReason string
	// Usage is the sum over the steps of the response, in tokens.
	Usage conversation.Usage
}

// StartResponse calls the hook ResponseStarted and returns its metadata as a JSON
// object, nil if there is none. The error is the author's, a [*PanicError], or
// says that the metadata has no JSON form.
func (a *Agent) StartResponse(ctx context.Context, t *Turn) (json.RawMessage, error) {
	return a.metadata("ResponseStarted", a.Hooks.ResponseStarted != nil, func() (map[string]any, error) {
		return a.Hooks.ResponseStarted(ctx, t)
	})
}

// FinishResponse calls the hook ResponseFinished, as [Agent.StartResponse] does
// the other.
func (a *Agent) FinishResponse(ctx context.Context, r *Response) (json.RawMessage, error) {
	return a.metadata("ResponseFinished", a.Hooks.ResponseFinished != nil, func() (map[string]any, error) {
		return a.Hooks.ResponseFinished(ctx, r)
	})
}

func (a *Agent) metadata(hook string, set bool, call func() (map[string]any, error)) (raw json.RawMessage, err error) {
	if !set {
		return nil, nil
	}
	defer contain("hook "+hook+" of agent "+a.Name, &err)
	m, err := call()
	if err != nil || len(m) == 0 {
		return nil, err
	}
	if raw, err = encode(m); err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return raw, nil
}
