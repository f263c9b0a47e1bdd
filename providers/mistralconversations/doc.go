// Package mistralconversations speaks the wire format of Mistral's chat endpoint, the api
// slug "mistral-conversations".
//
// cmd registers New under API. The package calls providers, providers/sse and
// net/http, and no vendor's SDK.
//
// Requests go to {base URL}/v1/chat/completions with a bearer token, if there is a
// key. The format is near to chat-completions, but refuses what it does not know, with
// status 422. What is sent is decided in one place:
//
//   - A model with a map of thinking levels is told reasoning_effort by the map's word. One
//     that is not to think is told "none", unless the map says that it always does. A
//     reasoning model without a map is told prompt_mode "reasoning" if it is to think, and
//     nothing otherwise.
//   - prompt_cache_key and the header X-Affinity name the session.
//   - Ids of calls are nine letters and digits. One that is not becomes nine of its hash,
//     alike in call and result.
//   - After results of tools the model has to speak: where a user's message follows them,
//     a fixed sentence of the model stands between.
//   - Thinking goes back to its model in its place between texts. It has no signature.
//   - Images stand in messages of users and in results of tools.
//
// Guarantees of decoding, beyond those of providers:
//
//  1. The terminal marker is a finish_reason, followed by [DONE] or by a clean
//     end of the stream. Either alone, and a connection that breaks in between,
//     are truncations or network errors.
//  2. Content is a text, or a list of thinking and texts; what else stands in a list is
//     skipped.
//  3. Calls are told apart by index and by id. An id "null" is none.
//  4. The finish_reason "error" is an error of the vendor's that may pass. An unknown one
//     ends the response as a stop, and is an oddity.
//
// Everything is safe for concurrent use. Nothing survives a call.
package mistralconversations
