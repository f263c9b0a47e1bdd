// Package edge calls the models of an edge platform through the platform's binding, the
// api slug "edge-ai-binding".
//
// A program that runs on such a platform calls Install, as the platform's own entry would,
// after it has registered what it brings itself. Programs elsewhere accept a registration
// of this shape, and its calls fail for want of a protocol; one that reaches the platform
// in its own way implements providers.EdgeBinding and calls Install, too. The package
// calls providers and two of its wire formats.
//
// What a call hands to the binding:
//
//   - the model's id as it is in the specifier, behind the first slash;
//   - for ids that begin with "anthropic/" a request in the messages format, with the
//     system prompt as one text and without marks of a prompt cache, whose max_tokens is
//     8,192 where neither the caller nor the catalog has a limit; for all others one in
//     the format of chat-completions, with max_completion_tokens, and reasoning_effort
//     low, medium or high for a model that reasons. Neither names the model;
//   - ReturnRawResponse, the gateway of the registration, and the session's name in the
//     header X-Session-Affinity.
//
// A response is read as those formats are, so it ends as they do: a stream without its
// terminal marker, or without a body, is an error. One that is no success ends the call
// with an *providers.EdgeError; of status 413 it has the kind of a context overflow, which
// compaction helps. Images are read while the binding reads the request.
//
// Everything is safe for concurrent use. Nothing survives a call.
package edge
