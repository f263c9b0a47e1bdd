// Package edge calls the models of an edge platform through the platform's binding, api slug
// "edge-ai-binding".
//
// A program on such a platform calls Install after its own registrations, like the platform's own
// entry point. Programs elsewhere accept a registration of this shape, and its calls fail without a
// protocol. A program that reaches the platform in another way implements providers.EdgeBinding and
// calls Install. The package uses providers and two of its wire formats.
//
// A call passes to the binding:
//
//   - the model id of the specifier, after the first slash;
//   - for ids that begin with "anthropic/", a request in the messages format. The system prompt is one text
//     without cache markers, and max_tokens is 8,192 without a limit of caller or catalog;
//   - for all other ids, a chat-completions request with max_completion_tokens, and reasoning_effort low,
//     medium or high for a reasoning model. Neither format contains the model;
//   - ReturnRawResponse, the gateway of the registration, and the session in the header X-Session-Affinity.
//
// Responses are decoded by the same formats, so a stream without its terminal marker, or without a
// body, is an error. An unsuccessful response ends the call with an *providers.EdgeError. Status 413
// has the kind of a context overflow, because compaction helps. Images are read while the binding
// reads the request.
//
// All functions and types are safe for concurrent use. Calls share no state.
package edge
