// Package openaicompletions speaks the chat-completions wire format, the api
// slug "openai-completions". Many vendors and local servers offer it, so the
// package is named after the format and knows few vendors by name.
//
// cmd registers New under API. The package calls providers, providers/sse and
// net/http, and no vendor's SDK.
//
// Requests go to {base URL}/chat/completions with a bearer token, if there is a
// key. What is sent beyond the common core is decided in one place:
//
//   - The output limit is max_completion_tokens for hosts under openai.com and
//     openai.azure.com, whose newer models refuse the other name, and
//     max_tokens for all others, which all know it. Options.MaxTokensField
//     overrides.
//   - prompt_cache_key goes to those same hosts only.
//   - reasoning_effort goes to models that reason, with the three values every
//     vendor knows: minimal and low are "low", medium is "medium", high, xhigh
//     and max are "high".
//   - Reasoning goes back under the field name it came in, which is its
//     signature, and only to the model it came from.
//
// Guarantees of decoding, beyond those of providers:
//
//  1. The terminal marker is a finish_reason, followed by [DONE] or by a clean
//     end of the stream; usage may come between. [DONE] alone, a clean end
//     alone, and a connection that breaks after finish_reason but before [DONE]
//     are truncations or network errors.
//  2. "error": null is ignored; an error object ends the stream with its kind.
//  3. Calls are told apart by index and by id, since some vendors number all
//     calls 0 and others leave the index out.
//  4. An unknown finish_reason ends the response as a stop, and is an oddity.
//  5. A message in place of the deltas is read if the deltas held no answer.
//
// Everything is safe for concurrent use. Nothing survives a call.
package openaicompletions
