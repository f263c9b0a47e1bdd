// Package openairesponses implements the responses wire format, api slugs "openai-responses",
// "azure-openai-responses" and "openai-codex-responses". They share one core and differ in address,
// key and a few members of the body. Several vendors and gateways offer the format.
//
// Commands register New under API, NewAzure under APIAzure, NewCodex under APICodex. The package uses
// providers, providers/sse and net/http, and no vendor's SDK.
//
// Encoding rules:
//
//   - store is false unless the registration sets it. Reasoning is returned encrypted, so include
//     requests encrypted reasoning for every reasoning model.
//   - reasoning.effort is the value of the model's thinking map, or the level's name. Without thinking
//     it is "none", unless the map declares that the model always thinks. Temperature is omitted for
//     reasoning models, which reject it.
//   - Items are sent back in their order and without ids. The vendor does not store them, and rejects
//     an item with an id without its neighbours. Reasoning without a following item is omitted.
//   - prompt_cache_key is Options.SessionID, truncated to 64 bytes.
//
// The codex variant needs a token that the application supplies, with the account id in its claims. It
// identifies itself by the name of this project.
//
// Decoding guarantees, in addition to those of providers:
//
//  1. The terminal marker is exactly one of response.completed, response.incomplete, response.failed
//     and error, or response.done instead of the first. Any other end is a truncation or a network
//     error. Later events are not read.
//  2. Events are identified by the type in their data, and items by id, index, and type. Ids may
//     change between events, and two items may share an index. A delta without a start begins an
//     item.
//  3. The final state of an item completes its deltas, and so does the output of the last event. A
//     call that does not complete is an error. Unknown events and items are skipped.
//  4. ReasoningEnd.Signature is JSON: the item without its text, and the lengths to cut the text from
//     the reasoning. TextEnd.Signature is JSON with the message's phase.
//
// All functions and types are safe for concurrent use. Calls share no state.
package openairesponses
