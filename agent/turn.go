package agent

import (
	"context"
	"encoding/json"

	"github.com/parleyrun/parley/agent/internal/seam"

	"github.com/parleyrun/parley/conversation"
)

// Turn is the facts that [Agent.InstructionsFunc], [Agent.Prepare] and hooks may
// build on. It is read-only and valid during the call it is handed to. Persistent
// state is read through the context, see [State].
type Turn struct {
	// Address is where the conversation is reached, UID its current incarnation.
	Address conversation.Address
	UID     conversation.UID
	// Submission is the delivery being worked on.
	Submission conversation.SubmissionID
	// Attempt counts the tries at the submission, from 1.
	Attempt int
	// Number counts the model calls of this attempt, from 1.
	Number int
	// Delivery is what the caller sent.
	Delivery conversation.Delivery
	// InitialData is what the conversation was created with; nil if nothing. [InitialData]
	// reads it as a Go type.
	InitialData json.RawMessage
}

// Call is the facts of one tool call.
type Call struct {
	// Address is where the conversation is reached, UID its current incarnation.
	Address conversation.Address
	UID     conversation.UID
	// Submission is the delivery being worked on, Attempt the try at it, from 1.
	Submission conversation.SubmissionID
	Attempt    int
	// Turn is the model round trip that asked for the call.
	Turn conversation.TurnID
	// ID names this call, unique in the conversation, and stays when a durable call is
	// run again. It makes a good idempotency key for what the tool does elsewhere.
	ID conversation.CallID
	// Delivery is what the caller of the conversation sent, InitialData what the
	// conversation was created with; nil if nothing.
	Delivery    conversation.Delivery
	InitialData json.RawMessage
}

// CallFrom returns the facts of the call whose tool function was handed ctx. It
// reports false outside a call.
func CallFrom(ctx context.Context) (Call, bool) {
	c, ok := ctx.Value(seam.Call{}).(Call)
	return c, ok
}
