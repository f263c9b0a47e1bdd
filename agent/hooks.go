package agent

import (
	"context"
	"encoding/json"

	"github.com/parleyrun/parley/conversation"
)

// Hooks are an author's functions at defined moments of a submission. Each may be nil.
//
// A hook has 10 seconds, or the limit that the program set. A hook that fails, by an error, a panic or
// its limit, is logged and its result ignored; only a failed [Hooks.DeliveryStarted] fails the
// submission. Unless its doc states otherwise, a hook is called again after a crash if its end was not
// recorded. It may write state (see [State]) and send messages (see [Dispatch]).
type Hooks struct {
	// DeliveryStarted is called once per delivery, before its first model call, for example to load
	// data into state. It runs again only if the process crashed before its end was recorded. If it
	// fails, the submission fails at once, because the model would lack its data; callers see that the
	// agent could not start, without the error.
	DeliveryStarted func(ctx context.Context, t *Turn) error

	// ResponseStarted is called before the first model call of a response. It returns the initial
	// metadata of the response; nil is none.
	ResponseStarted func(ctx context.Context, t *Turn) (metadata map[string]any, err error)

	// WouldStop is called whenever the response would end: the model called no tool, or every tool of
	// the turn requested the end ([Result.Terminate]). A text that is not blank is sent to the model
	// as an advisory, which clients do not see, and the response continues; an empty one lets it end.
	// A submission that continues more than [MaxContinuations] times fails. WouldStop is not called
	// for a response that fails or is aborted.
	WouldStop func(ctx context.Context, r *Response) (again string, err error)

	// ResponseFinished is called after the model and WouldStop have ended a response and its last turn
	// is durable, before the submission settles as completed. Its result is merged deeply into the
	// metadata; nil leaves it unchanged. It may write data (see [DataWriter]). It is not called for a
	// response that fails or is aborted.
	ResponseFinished func(ctx context.Context, r *Response) (metadata map[string]any, err error)

	// Settled is called after the settlement of a submission is durable, whatever the outcome, by the
	// process that recorded it. It is called at most once: if that process crashes first, it is not
	// called. Use [Agent.Notify] for notifications of settlements, and a tool or DeliveryStarted for
	// other effects that must not be lost. It runs in the background, and may read state but not write
	// it.
	Settled func(ctx context.Context, s *Settlement) error
}

// MaxContinuations is the maximum number of times that [Hooks.WouldStop] may continue one submission.
const MaxContinuations = conversation.MaxContinued

func (h *Hooks) any() bool {
	return h.DeliveryStarted != nil || h.ResponseStarted != nil || h.WouldStop != nil || h.ResponseFinished != nil || h.Settled != nil
}

// Response has the facts of a response that has ended or would end. It is read-only and valid during
// the call that gets it.
type Response struct {
	// Turn is that of the attempt that ends the response. Number is 0 if an earlier attempt made the
	// last model call.
	Turn
	// Message is the response in the transcript.
	Message conversation.MessageID
	// Text is the text of the response, its parts joined by blank lines.
	Text string
	// Output is the result that the model submitted with [FinishTool]; nil if there is none.
	Output json.RawMessage
	// StopReason is the model's reason to end, such as "stop" or "length".
	StopReason string
	// Usage is the sum over the turns of the response and of its subagents, in tokens, and Dollars
	// their price. Models without a known price count as 0.
	Usage   conversation.Usage
	Dollars float64
	// Continuations is the number of times that WouldStop has continued this submission, over all
	// attempts.
	Continuations int
}

// Settlement is the outcome of a submission. It is read-only and valid during the call that gets it.
type Settlement struct {
	// Address is the address of the conversation, UID its current incarnation.
	Address conversation.Address
	UID     conversation.UID
	// Submission is the settled delivery, Attempts the number of its attempts; 0 if it was aborted
	// before the first.
	Submission conversation.SubmissionID
	Attempts   int
	// Delivery is the message of the caller.
	Delivery conversation.Delivery
	// Outcome is completed, failed or aborted. Error is the reason unless it is completed.
	Outcome conversation.Outcome
	Error   *conversation.SettlementError
	// Message is the response in the transcript, empty if there is none; Text is its text, its parts
	// joined by blank lines.
	Message conversation.MessageID
	Text    string
	// Usage is the sum over the turns of the response and of its subagents, in tokens, and Dollars
	// their price. Models without a known price count as 0.
	Usage   conversation.Usage
	Dollars float64
	// InitialData is the initial data of the conversation; nil if there is none.
	InitialData json.RawMessage
}
