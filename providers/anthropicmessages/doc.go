// Package anthropicmessages implements the messages wire format, api slug "anthropic-messages".
// Several vendors and gateways offer it.
//
// Commands register New under API. The package uses providers, providers/sse and net/http, and no
// vendor's SDK.
//
// Requests are sent to {base URL}/v1/messages, so the base URL ends before the version. The key is
// sent in x-api-key or as a bearer token. Beta headers are those of the model, except the one that
// subscription tokens need. Encoding rules:
//
//   - max_tokens is required by the format: the caller's limit, else the model's, else
//     DefaultMaxTokens.
//   - Models with adaptive thinking get an effort. Without thinking it is disabled explicitly, unless
//     the model's map declares that it always thinks.
//   - For other models a ThinkingLevel becomes a token budget: minimal 1024, low 2048, medium 8192,
//     high and above 16384. The budget is added to max_tokens, so that a limit applies to the answer.
//     If the model's own limit leaves less than 1024 for the answer, the budget shrinks; below 1024
//     there is none. Temperature is omitted with a budget, since the vendor rejects both together.
//   - Results of calls that were made without thinking are sent without a budget, since the vendor
//     rejects both together.
//   - Cache markers are set on the system prompt, the last tool, and the last block of the last user
//     message, for an hour with LongCacheRetention.
//   - Tools request eager streaming of their input at the vendor itself, and where Compat says that a
//     server supports it.
//   - Adjacent messages of one side are merged, because the format requires alternating sides. Tool
//     results belong to the user's side. Blank texts are omitted, since the vendor rejects them.
//   - Call ids of other vendors are replaced if they are invalid or repeat, the same in call and
//     result.
//
// Decoding guarantees, in addition to those of providers:
//
//  1. The terminal marker is message_stop after a stop_reason. A clean end or [DONE] after a
//     stop_reason is accepted, too. Any other end is a truncation or a network error.
//  2. Events are identified by the type in their data, so SSE names may be missing. Unknown events
//     and blocks are skipped, as the format requires.
//  3. An error event ends the stream with the kind of its type.
//  4. An unknown stop_reason ends the response as a stop, and is an oddity. pause_turn counts as a
//     stop. A delta without a start of its block begins one.
//  5. Each thinking block is separate reasoning, in its position between texts and calls.
//     ReasoningEnd.Signature is the vendor's own. For a redacted block, and in signatures stored by
//     earlier versions, it is a JSON array of blocks. Both are sent back unchanged. Unsigned thinking
//     is sent only to servers that do not sign.
//
// All functions and types are safe for concurrent use. Calls share no state.
package anthropicmessages
