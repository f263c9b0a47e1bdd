// Package providers defines the interface between the agent loop and model vendors.
//
// The agent loop calls a Registry with a model specifier ("openai/gpt-5") and a Request and ranges
// over Events. The Registry calls one Protocol per wire format ("api slug"). Commands register the
// protocols; this package contains no code for a single vendor.
//
// Every stream keeps these guarantees, whatever the Protocol. Package providertest checks them.
//
//  1. A stream ends with exactly one Done or exactly one error. Every error is an *Error. A vendor
//     stream that ends without its terminal marker is an error of KindTruncated, never a Done.
//  2. The events of a tool call are one ToolCallStart, any number of ToolCallDeltas and one
//     ToolCallEnd with the same Index. A ReasoningEnd closes the ReasoningDeltas before it. All parts
//     are closed before Done. They end in the order in which the vendor expects them back, each with
//     its signature.
//  3. ToolCallEnd.Arguments is always valid JSON. Numbers keep every digit that the model wrote.
//     Text that is not JSON arrives as a JSON string with Malformed set.
//  4. Done.StopReason is StopToolUse only if the response contains a call, and never StopStop if it
//     does.
//  5. Ending ctx ends the stream promptly with KindAborted. Breaking out of the range loop releases
//     the connection and all goroutines.
//  6. This package does not retry. The caller retries, guided by Error.Retryable and
//     Error.RetryAfter. The one exception: if a vendor rejects replayed reasoning, the call is
//     repeated without it. A vendor does so after a change of keys.
//  7. Images are opened while the request is sent and closed when the stream has ended. No call holds
//     an image in memory. An image that cannot be read, or has changed, fails the call with
//     KindImageUnavailable or KindImageUnreadable before the vendor has the whole request.
//  8. The model receives the same bytes whether messages are in Request.History or in
//     Request.Messages. A Block holds at most one encoding, that of the latest call, until
//     Block.Evict.
//  9. Deviations from a format do not fail a reply if no guarantee depends on them. Usage numbers and
//     members of unexpected types are skipped; unknown stop reasons are mapped. Options.Odd receives
//     each kind once. Text is valid UTF-8. The decorated name of a tool becomes the name of the tool.
//  10. Options.Limits bound a reply while it is read, so memory is bounded even for an endless reply.
//     A reply over the limit ends with KindTooLong.
//
// A Registry is safe for concurrent use and is never written to disk. It resolves provider, protocol
// and key on every model call. Requests are not changed and, except for the encodings of Blocks, not
// retained: a Protocol copies the parts that it needs. Errors contain no keys.
//
// To add a vendor, implement Codec and wrap it in NewHTTP, or implement Protocol on top of NewStream.
// Call Transform first. Run the suites of providers/providertest. Package sse reads server-sent
// events.
package providers
