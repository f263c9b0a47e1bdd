// Package sides encodes conversations for formats whose messages alternate between two
// sides: the user, with results of tools among what they say, and the assistant. A message
// is a list of blocks, and whatever follows of one side joins its message.
//
// anthropicmessages and bedrockconverse call it; it calls providers. What becomes of a block
// of history stays there for the next request, see providers.EncodeBlock: it is kept without
// what opens its first message and closes its last, so that neighbours can become one.
//
// Guarantees:
//
//  1. The messages are the same as if all of them had been encoded together.
//  2. Ids of calls differ over the whole request, which vendors ask for; Transform sees to
//     that within one message only. A result has the id of its call.
//
// A Format has no state and is safe for concurrent use.
package sides
