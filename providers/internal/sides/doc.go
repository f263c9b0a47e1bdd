// Package sides encodes conversations for formats with alternating messages of two sides. The user's
// side includes tool results. A message is a list of blocks; adjacent messages of one side are merged.
//
// Packages anthropicmessages and bedrockconverse use it. The encoding of a history block is cached in
// the block, see providers.EncodeBlock. It is stored without the opening of its first message and the
// closing of its last, so that adjacent messages can be merged.
//
// Guarantees:
//
//  1. The messages are the same as if all of them had been encoded together.
//  2. Call ids differ over the whole request, as vendors require; Transform ensures it only within one
//     message. A result has the id of its call.
//
// A Format has no state and is safe for concurrent use.
package sides
