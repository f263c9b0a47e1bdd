// Package client is a client of one conversation of a Parley server: it sends messages, waits for
// replies and follows the updates. It retries over unreliable connections. It also begins, follows and
// aborts runs of workflows: see [Runs].
//
// The package uses only the server's HTTP protocol (docs/protocol.md). It imports only package
// conversation and the standard library.
//
//	c, err := client.New("http://127.0.0.1:5173/agents/assistant/hello", nil)
//	receipt, err := c.Send(ctx, client.Message{Body: "Where is my order?"})
//	reply, err := c.Wait(ctx, receipt)
//
// Guarantees:
//
//  1. A message is admitted at most once. [Conversation.Send] posts it under an idempotency key, a
//     new one if the message has none. It retries under the same key while the outcome is unknown.
//     If it stays unknown, the error is an [*UncertainError] with that key.
//  2. [Conversation.Observe] yields every chunk recorded after an offset once and in order, in
//     whole reads, over any number of connections. The Next of an [Update] is an offset to resume
//     from, also in another process.
//  3. [Conversation.Wait] returns once the submission is settled. The error of a failed or aborted
//     one is a [*SettledError]. It survives restarts of the server.
//  4. A connection without any data, including heartbeats, is closed after Options.Quiet. If a
//     proxy breaks or buffers event streams, long-polls replace them, and streams are tried again
//     later.
//  5. A permanent failure ends the call with an [*Error] or its cause. Other failures are retried:
//     reads and messages Options.Tries times, live reads until their context ends.
//     [Conversation.Abort] is never retried.
//  6. A [Transcript] of a snapshot, with the updates after it applied, equals the later snapshot.
//     Tested over random histories.
//
// A [Conversation] is safe for concurrent use and holds no connection of its own. No call leaves a
// goroutine behind: the end of a range over Observe, or of a context, closes its connection. A
// [Transcript] is not safe for concurrent use.
//
// The package stores nothing durably. A caller that must survive a restart stores the message's key
// before it is sent, then the receipt, and the offset of its last read.
package client
