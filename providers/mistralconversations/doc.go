// Package mistralconversations implements the wire format of Mistral's chat endpoint, api slug
// "mistral-conversations".
//
// Commands register New under API. The package uses providers, providers/sse and net/http, and no
// vendor's SDK.
//
// Requests are sent to {base URL}/v1/chat/completions with a bearer token if there is a key. The
// format is similar to chat completions, but the vendor rejects unknown members with status 422.
// Encoding rules:
//
//   - A model with a map of thinking levels gets reasoning_effort with the map's value. Without thinking
//     it is "none", unless the map declares that the model always thinks. A reasoning model without a map
//     gets prompt_mode "reasoning" if thinking is requested.
//   - prompt_cache_key and the header X-Affinity contain the session.
//   - Call ids have nine letters and digits. Other ids are replaced by nine characters of their hash, the
//     same in call and result.
//   - A fixed assistant message is inserted between tool results and a user message, because the vendor
//     requires an answer to results.
//   - Thinking is replayed to its model in its position between texts. It has no signature.
//   - Images are in user messages and in tool results.
//
// Decoding guarantees, in addition to those of providers:
//
//  1. The terminal marker is a finish_reason, followed by [DONE] or by a clean end of the stream. Either
//     alone, and a connection that breaks in between, are truncations or network errors.
//  2. Content is a text, or a list of thinking and texts; other elements of a list are skipped.
//  3. Calls are identified by index and id. The id "null" counts as none.
//  4. The finish_reason "error" is a temporary vendor error. An unknown one ends the response as a stop,
//     and is an oddity.
//
// All functions and types are safe for concurrent use. Calls share no state.
package mistralconversations
