// Package bedrockconverse speaks the streamed Converse call of Amazon Bedrock, the api slug
// "bedrock-converse-stream".
//
// cmd registers New under API. The package calls providers, providers/eventstream,
// net/http and, for credentials and signatures, its own awsauth; no vendor's SDK.
//
// Requests go to {base URL}/model/{id}/converse-stream. Where the base URL is the vendor's
// own, its region gives way to that of an ARN in the model's id, of AWS_REGION or of
// AWS_DEFAULT_REGION; a base URL of one's own stays. A key is sent as a bearer token, as is
// AWS_BEARER_TOKEN_BEDROCK; without one each request is signed with the credentials that
// awsauth finds. AWS_BEDROCK_SKIP_AUTH=1 does neither. What is sent is decided in one place:
//
//   - Neighbouring messages of one side become one, results of tools before what else the
//     user's side says. Blank texts are left out, and a result without content says so.
//   - Images of a result that is an error stand behind the results: the vendor refuses them
//     within.
//   - Ids of calls that the vendor does not take are hashed, and those that repeat are
//     changed, alike in call and result.
//   - Tools that only history knows are offered where no others are, since the vendor
//     refuses calls in history otherwise.
//   - The prompt cache is marked behind the system prompt and at the end of the last message
//     of the user's side, for models of Claude that take marks, and for an hour where the model
//     says so; AWS_BEDROCK_FORCE_CACHE=1 marks for every model.
//   - Reasoning goes back to Claude alone, as it was signed; other models refuse it.
//   - Claude is told how much to think as in its own format, by effort or by a budget of
//     tokens, gpt-oss and gpt by a word; other models decide for themselves.
//   - The limit of the output is sent if it is the caller's, or the model is Claude, whose
//     default is low.
//
// Guarantees of decoding, beyond those of providers:
//
//  1. The terminal marker is messageStop. The usage comes behind it; a stream that ends
//     cleanly between them is whole, and its usage unknown. Any other end is a truncation or
//     a network error, and a wrong checksum one of the protocol.
//  2. Unknown events, blocks and members are skipped.
//  3. An exception ends the stream with the kind of its status; where a model has failed,
//     that is the one which the model gave.
//  4. An unknown stopReason ends the response as a stop, and is an oddity. A body that is JSON
//     is the answer of the API without streams.
//  5. Each block of reasoning is reasoning of its own, with its signature. Of a redacted
//     block the signature is a JSON object.
//
// Everything is safe for concurrent use. Credentials that a service has lent are kept in
// memory; nothing survives the process.
package bedrockconverse
