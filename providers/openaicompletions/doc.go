// Package openaicompletions implements the chat-completions wire format, api slug
// "openai-completions". Many vendors and local servers offer it.
//
// Commands register New under API. The package uses providers, providers/sse and net/http, and no
// vendor's SDK.
//
// Requests are sent to {base URL}/chat/completions with a bearer token if there is a key. A dialect
// decides about everything beyond the common core:
//
//   - The output limit is max_completion_tokens for hosts under openai.com and openai.azure.com, whose
//     newer models reject the other name, and max_tokens for all others. Options.MaxTokensField
//     overrides it.
//   - prompt_cache_key is sent to the same hosts only.
//   - reasoning_effort is sent to reasoning models, with the three values that every vendor supports:
//     minimal and low are "low", medium is "medium", high, xhigh and max are "high".
//   - Reasoning is replayed under the field name in which it arrived, which is its signature, and only
//     to the model that wrote it.
//
// Decoding guarantees, in addition to those of providers:
//
//  1. The terminal marker is a finish_reason, followed by [DONE] or by a clean end of the stream;
//     usage may come between. [DONE] alone, a clean end alone, and a connection that breaks after
//     finish_reason but before [DONE] are truncations or network errors.
//  2. "error": null is ignored; an error object ends the stream with its kind.
//  3. Calls are identified by index and id, since some vendors number all calls 0 and others omit the
//     index.
//  4. An unknown finish_reason ends the response as a stop, and is an oddity.
//  5. A message instead of deltas is read if the deltas contained no answer.
//
// All functions and types are safe for concurrent use. Calls share no state.
package openaicompletions
