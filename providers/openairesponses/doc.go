// Package openairesponses speaks the responses wire format, the api slugs
// "openai-responses", "azure-openai-responses" and "openai-codex-responses": one core,
// of which they differ in address, key and a few members of the body. Several vendors
// and gateways offer it, so the package is named after the format.
//
// cmd registers New under API, NewAzure under APIAzure, NewCodex under APICodex. The
// package calls providers, providers/sse and net/http, and no vendor's SDK.
//
// What is sent is decided in one place:
//
//   - store is false unless the registration says otherwise. What the model reasoned
//     comes back to it encrypted, so include asks for that of every model that reasons.
//   - reasoning.effort is the word of the model's thinking map, or the level's name. A
//     model that is not to think is told "none", unless the map says that it always
//     does. Temperature is left out for models that reason, which refuse it.
//   - Items go back in the order in which they came, without ids: the vendor stores
//     none of them, and an item with an id is refused without its neighbours.
//     Reasoning that nothing follows is left out.
//   - prompt_cache_key is Options.SessionID, at most 64 bytes of it.
//
// The codex variant needs a token that the application supplies, with the account's id
// in its claims, and says who asks by this project's name.
//
// Guarantees of decoding, beyond those of providers:
//
//  1. The terminal marker is exactly one of response.completed, response.incomplete,
//     response.failed and error, or response.done in place of the first. Any other end
//     is a truncation or a network error. Nothing behind it is read.
//  2. Events are known by the type in their data, and items by their id, their index, and
//     their type: ids may change from event to event, and two items may have one index. A
//     delta without a start of its item begins one.
//  3. What an item holds when it is done completes what its deltas said, and so does the
//     output of the last event; a call that is never done is an error, not a call. Unknown
//     events and items are skipped.
//  4. ReasoningEnd.Signature is JSON: the item without its text, which the lengths in
//     it cut out of the reasoning. TextEnd.Signature is JSON with the message's phase.
//
// Everything is safe for concurrent use. Nothing survives a call.
package openairesponses
