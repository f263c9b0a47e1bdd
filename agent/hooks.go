package agent

import (
	"context"
	"encoding/json"

	"github.com/parleyrun/parley/conversation"
)

// Hooks are an author's functions at moments of a submission. Each may be nil.
//
// A hook has 10 seconds, or what the program set. One that fails (by an error, a
// panic, or too long a run) is logged, and work goes on as if it had said nothing;
// only [Hooks.DeliveryStarted] fails the submission. Unless its doc says otherwise,
// a hook is called again after a crash if what it said was not recorded, may write
// state (see [State]) and may send messages (see [Dispatch]).
type Hooks struct {
	// DeliveryStarted is called once per delivery, before its first model call: the
	// place to load what the agent works with into its state. It runs again only if
	// the process died before its end was recorded. If it fails, the submission fails
	// at once, because the model would work without what it needs; callers are told
	// that the agent could not start, and nothing of the error.
	DeliveryStarted func(ctx context.Context, t *Turn) error

	// ResponseStarted is called before the first model call of a response. What it
	// returns is the metadata the response starts with; nil is none.
	ResponseStarted func(ctx context.Context, t *Turn) (metadata map[string]any, err error)

	// WouldStop is called whenever the response would end: the model has called no
	// tool, or every tool of the turn asked for the end ([Result.Terminate]). A
	// text that is not blank goes to the model as an advisory, which clients do not
	// see, and the response goes on; empty lets it end. A submission goes on
	// [MaxContinuations] times; to ask for more fails it. WouldStop is not called for
	// a response that fails or is aborted.
	WouldStop func(ctx context.Context, r *Response) (again string, err error)

	// ResponseFinished is called once the model has ended a response, WouldStop has
	// let it, and its last turn is durable, before the submission settles as
	// completed. What it returns is merged deeply onto the metadata; nil leaves it as
	// it is. It may write data (see [DataWriter]). It is not called for a response
	// that fails or is aborted.
	ResponseFinished func(ctx context.Context, r *Response) (metadata map[string]any, err error)

	// Settled is called after the settlement of a submission is durable, whatever the
	// outcome, by the process that recorded it. It is called at most once: if that
	// process dies in between, nobody calls it. So it is for what may be missed: who has
	// to be told of a settlement belongs into [Agent.Notify], any other effect that must not
	// be lost into a tool or DeliveryStarted. Nothing waits for it, and it may read state
	// but not write it.
	Settled func(ctx context.Context, s *Settlement) error
}

// MaxContinuations is how often [Hooks.WouldStop] may make one submission go on.
const MaxContinuations = conversation.MaxContinued

func (h *Hooks) any() bool {
	return h.DeliveryStarted != nil || h.ResponseStarted != nil || h.WouldStop != nil || h.ResponseFinished != nil || h.Settled != nil
}

// Response is the facts of a response that has ended or would. It is read-only and
// valid during the call it is handed to.
type Response struct {
	// Turn is that of the attempt that ends the response. Number is 0 if an earlier
	// attempt made the last model call.
	Turn
	// Message is the response in the transcript.
	Message conversation.MessageID
	// Text is what the response says, its text parts joined by blank lines.
	Text string
	// Output is what the model gave by [FinishTool]; nil if nothing.
	Output json.RawMessage
	// StopReason is the model's reason to end, such as "stop" or "length".
	StopReason string
	// Usage is the sum over the turns of the response, in tokens.
	Usage conversation.Usage
	// Continuations counts how often WouldStop has made this submission go on, over
	// all attempts.
	Continuations int
}

// Settlement is how a submission ended. It is read-only and valid during the call
// it is handed to.
type Settlement struct {
	// Address is where the conversation is reached, UID its current incarnation.
	Address conversation.Address
	UID     conversation.UID
	// Submission is the delivery that was worked on, Attempts the tries at it; 0 if it
	// was aborted before the first.
	Submission conversation.SubmissionID
	Attempts   int
	// Delivery is what the caller sent.
	Delivery conversation.Delivery
	// Outcome is how it ended. Error says why it did not complete; nil if it did.
	Outcome conversation.Outcome
	Error   *conversation.SettlementError
	// Message is the response in the transcript, empty if there is none; Text is what
	// it says as far as it came, its text parts joined by blank lines.
	Message conversation.MessageID
	Text    string
	// Usage is the sum over the turns of the response, in tokens.
	Usage conversation.Usage
	// InitialData is what the conversation was created with; nil if nothing.
	InitialData json.RawMessage
}
