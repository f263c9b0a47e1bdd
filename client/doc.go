// Package client talks to one conversation of a Parley server: it sends
// messages, waits for replies and follows what happens, over whatever lies
// between. It also begins runs of workflows, follows and ends them: see [Runs].
//
// Programs in Go call it; it calls the server's HTTP protocol (docs/protocol.md)
// and knows nothing of the server but that. It imports only package conversation
// and the standard library.
//
//	c, err := client.New("http://127.0.0.1:5173/agents/assistant/hello", nil)
//	receipt, err := c.Send(ctx, client.Message{Body: "Where is my order?"})
//	reply, err := c.Wait(ctx, receipt)
//
// Guarantees:
//
//  1. A message is admitted at most once. [Conversation.Send] posts it under an
//     idempotency key, its own if the message has none, and again under the same
//     key while the outcome is in doubt. A message it cannot settle the fate of is
//     an [*UncertainError] with that key, never a plain failure.
//  2. [Conversation.Observe] gives every chunk recorded after an offset once and in
//     order, in whole reads, whatever breaks in between. The Next of an [Update]
//     is a place to go on from, also in another process.
//  3. [Conversation.Wait] returns once the submission is settled, and a failed or
//     aborted one is a [*SettledError]. It outlives restarts of the server.
//  4. A connection that says nothing, not even a heartbeat, is given up after
//     Options.Quiet. Event streams that something on the way breaks or holds back
//     are replaced by long-polls, and tried again later.
//  5. What cannot succeed by being repeated ends the call with an [*Error] or what
//     else it was. What can is repeated: reads and messages Options.Tries times,
//     live reads for as long as their context lives. [Conversation.Abort] is never
//     repeated.
//  6. A [Transcript] of a snapshot, with the updates after it applied, is the later
//     snapshot. Tested over random histories.
//
// A [Conversation] is safe for concurrent use and holds no connection of its own.
// No call leaves a goroutine behind: to stop ranging over Observe, or to end a
// context, closes its connection. A [Transcript] belongs to one goroutine.
//
// The package keeps nothing that has to outlive a process. What does is the
// caller's to store: a message's key before it is sent, the receipt after that,
// and the offset a reader got to.
package client
