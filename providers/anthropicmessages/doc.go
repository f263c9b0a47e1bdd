// Package anthropicmessages speaks the messages wire format, the api slug
// "anthropic-messages". Several vendors and gateways offer it, so the package
// is named after the format.
//
// cmd registers New under API. The package calls providers, providers/sse and
// net/http, and no vendor's SDK.
//
// Requests go to {base URL}/v1/messages, so the base URL ends before the
// version, with the key in x-api-key, or as a bearer token, if there is one. Beta
// features are left to the headers of the model, but for the one that tokens of
// subscriptions need. What is sent is decided in one place:
//
//   - max_tokens is required by the format: the caller's limit, else the
//     model's, else DefaultMaxTokens.
//   - Models that decide by themselves how much to think are told an effort. A model that
//     is not to think is told so, unless its map says that it always does.
//   - Another ThinkingLevel becomes a token budget: minimal 1024, low 2048, medium
//     8192, high and above 16384. The budget counts towards max_tokens, which is
//     raised by it, so that a limit is the answer's. Where the model's own limit leaves
//     less than 1024 for the answer, the budget shrinks, and below 1024 there is none. Temperature is
//     left out beside a budget, since the vendor refuses the pair.
//   - Results of calls that were made without thinking, by another model for one, are
//     answered without a budget, too: the vendor refuses the pair.
//   - The prompt cache is marked on the system prompt, the last tool, and the
//     last block of the last user message, for an hour where the model says so.
//   - Tools ask for eager streaming of their input at the vendor itself, and where compat
//     says that a server knows it.
//   - Neighbouring messages of one side become one, as the format wants the
//     sides to alternate; results of tools belong to the user's side. Blank texts
//     are left out, since the vendor refuses them.
//   - Ids of calls other vendors made are changed where the format does not
//     take them or where they repeat, alike in call and result.
//
// Guarantees of decoding, beyond those of providers:
//
//  1. The terminal marker is message_stop after a stop_reason; a clean end or [DONE] after a
//     stop_reason is one, too. Any other end is a truncation or a network error.
//  2. Events are known by the type in their data, so their SSE names may be
//     missing. Unknown events and blocks are skipped, as the format asks for.
//  3. An error event ends the stream with the kind its type has as a status.
//  4. An unknown stop_reason ends the response as a stop, and is an oddity. A pause_turn
//     counts as a stop. A delta without a start of its block begins one.
//  5. Each block of thinking is reasoning of its own, in its place between texts and
//     calls. ReasoningEnd.Signature is the vendor's own; for a redacted block, and in
//     what earlier versions stored, it is a JSON array of blocks. Either way they go
//     back exactly as they came; thinking that was never signed is not sent back,
//     since the vendor would refuse it, except to servers that sign nothing.
//
// Everything is safe for concurrent use. Nothing survives a call.
package anthropicmessages
