package agent

import (
	"context"
	"encoding/json"

	"github.com/parleyrun/parley/agent/internal/seam"

	"github.com/parleyrun/parley/conversation"
)

// Turn has the facts of a model call for [Agent.InstructionsFunc], [Agent.Prepare] and hooks. It is
// read-only and valid during the call that gets it. Persistent state is read from the context, see
// [State].
type Turn struct {
	// Address is the address of the conversation, UID its current incarnation.
	Address conversation.Address
	UID     conversation.UID
	// Submission is the delivery being worked on.
	Submission conversation.SubmissionID
	// Attempt is the number of the attempt at the submission, from 1.
	Attempt int
	// Number is the number of the model call in this attempt, from 1.
	Number int
	// Delivery is the message of the caller.
	Delivery conversation.Delivery
	// InitialData is the initial data of the conversation; nil if there is none. [InitialData.Get]
	// decodes it into a Go type.
	InitialData json.RawMessage
}

// Call has the facts of one tool call.
type Call struct {
	// Address is the address of the conversation, UID its current incarnation.
	Address conversation.Address
	UID     conversation.UID
	// Submission is the delivery being worked on, Attempt the number of the attempt, from 1.
	Submission conversation.SubmissionID
	Attempt    int
	// Turn is the model call that requested this call.
	Turn conversation.TurnID
	// ID identifies this call within the conversation and stays the same when a durable call runs
	// again. Use it as an idempotency key for effects elsewhere.
	ID conversation.CallID
	// Delivery is the message of the caller, InitialData the initial data of the conversation; nil if
	// there is none.
	Delivery    conversation.Delivery
	InitialData json.RawMessage
}

// CallFrom returns the facts of the call whose function got ctx. It reports false outside a call.
func CallFrom(ctx context.Context) (Call, bool) {
	c, ok := ctx.Value(seam.Call{}).(Call)
	return c, ok
}
