// Package providers is the seam between the agent loop and model vendors.
//
// The agent loop calls a Registry with a model specifier ("openai/gpt-5") and
// a Request and ranges over Events. The Registry calls one Protocol per wire
// format ("api slug"); cmd registers them. Nothing here knows a vendor.
//
// Guarantees of a stream, whatever the Protocol (providertest checks them):
//
//  1. It ends with exactly one Done or exactly one error, and nothing follows.
//     Every error is an *Error. A vendor's stream that ends without its
//     terminal marker is an error of KindTruncated, never a Done.
//  2. The events of a tool call come as one ToolCallStart, any number of
//     ToolCallDeltas, one ToolCallEnd, with the same Index. A ReasoningEnd
//     closes the ReasoningDeltas before it. All are closed before Done. Parts end in
//     the order in which the vendor wants them back, each with its signature.
//  3. ToolCallEnd.Arguments is always valid JSON, digit for digit what the
//     model wrote: numbers never pass through a float. Text that is not JSON
//     does not lose the call: it arrives as a JSON string, with Malformed set.
//  4. Done.StopReason is StopToolUse only if the response holds a call, and
//     never StopStop if it does.
//  5. Ending ctx ends the stream promptly with KindAborted. Breaking out of
//     the range loop releases the connection; nothing runs on afterwards.
//  6. Nothing is retried here. The caller retries, guided by Error.Retryable
//     and Error.RetryAfter. But a vendor that refuses what its model once reasoned,
//     as one does whose key has changed, is asked again without it: else the
//     conversation could never go on.
//  7. Images are opened while the request is sent and closed when the stream has
//     ended; no call holds one in memory. One that cannot be read, or is not what
//     it was, ends the call before the vendor has all of it, and is not taken for
//     an error of the vendor: KindImageUnavailable or KindImageUnreadable.
//  8. A model is shown the same, byte for byte, whether messages come in
//     Request.History or in Request.Messages. A Block keeps at most one encoding,
//     that of the latest call, as long as it lives or until Block.Forget.
//  9. What a format does not have, and what no guarantee here needs, fails no reply: numbers
//     of usage and members of other types are skipped and words for an end are read as they
//     mean. Options.Odd takes each kind once. Text is valid UTF-8, and a name is that of a
//     tool of the request if the model has written one with marks around it.
//  10. A reply is held to Options.Limits while it is read: what is kept of one that
//     never ends is bounded, whatever it says, and it ends with KindTooLong.
//
// A Registry is safe for concurrent use, is never written to disk, and looks
// up provider, protocol and key on every model call. Requests are not changed
// and, but for the encodings of Blocks, not kept: a Protocol copies what it needs.
// Keys appear in no error.
//
// To add a vendor: implement Codec and wrap it in NewHTTP, or implement
// Protocol on top of NewStream; call Transform first; run the suites of
// providers/providertest. Package sse reads the usual framing.
package providers
