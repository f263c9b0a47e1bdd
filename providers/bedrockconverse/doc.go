// Package bedrockconverse implements the streaming Converse API of Amazon Bedrock, api slug
// "bedrock-converse-stream".
//
// Commands register New under API. The package uses providers, providers/eventstream, net/http and,
// for credentials and signatures, its own awsauth; no vendor's SDK.
//
// Requests are sent to {base URL}/model/{id}/converse-stream. If the base URL is the vendor's own, its
// region is replaced by that of an ARN in the model id, of AWS_REGION or of AWS_DEFAULT_REGION. Other
// base URLs are unchanged. A key, or AWS_BEARER_TOKEN_BEDROCK, is sent as a bearer token. Otherwise
// each request is signed with the credentials that awsauth finds. AWS_BEDROCK_SKIP_AUTH=1 disables
// both. Encoding rules:
//
//   - Adjacent messages of one side are merged, with tool results before other user content. Blank
//     texts are omitted, and an empty result gets a placeholder text.
//   - Images of an error result follow the results, because the vendor rejects them inside.
//   - Invalid call ids are hashed, and repeated ones are changed, the same in call and result.
//   - If no tools are offered, the tools of calls in the history are offered, since the vendor rejects
//     such calls otherwise.
//   - Cache markers follow the system prompt and the last message of the user's side, for Claude models
//     that support them, and for an hour with LongCacheRetention. AWS_BEDROCK_FORCE_CACHE=1 sets
//     them for every model.
//   - Signed reasoning is replayed to Claude only; other models reject it.
//   - Claude gets an effort or a token budget for thinking as in its own format, gpt-oss and gpt get an
//     effort; other models get no option.
//   - The output limit is sent if the caller sets it, or if the model is Claude, whose default is low.
//
// Decoding guarantees, in addition to those of providers:
//
//  1. The terminal marker is messageStop. The usage follows it. A clean end between them is accepted
//     with unknown usage. Any other end is a truncation or a network error, and a wrong checksum is a
//     protocol error.
//  2. Unknown events, blocks and members are skipped.
//  3. An exception ends the stream with the kind of its status. If the model failed, its own status is
//     used.
//  4. An unknown stopReason ends the response as a stop, and is an oddity. A JSON body is read as the
//     response of the non-streaming API.
//  5. Each reasoning block is separate reasoning with its signature. The signature of a redacted block
//     is a JSON object.
//
// All functions and types are safe for concurrent use. Temporary credentials are cached in memory and
// never stored.
package bedrockconverse
