// Package googlegenerativeai implements the generateContent wire format, api slugs
// "google-generative-ai" and "google-vertex". They share one core and differ in address and
// credentials. Gateways offer the first as well.
//
// Commands register New under API and NewVertex under APIVertex. The package uses providers,
// providers/sse and net/http, and no vendor's SDK.
//
// Encoding rules:
//
//   - Each part of a reply is sent back separately with its signature, even an empty text. Models from
//     generation 3 on verify the first call of each step. A call of another model has no signature and
//     gets the vendor's documented placeholder. Earlier turns contain it too, which keeps the beginning
//     of a prompt stable.
//   - The results of a step are one content, since the vendor counts them there. Models from generation
//     3 on accept images in results; for others the images are a separate content. Calls have ids for
//     the same models, and for those of other makers.
//   - A thinking level is sent as a level to models from generation 3 on and those whose map has values,
//     else as a token budget in the range of the model. The budget is added to the output limit, which
//     includes it. Without thinking the budget is 0, or the minimum of the model.
//   - Tools have JSON schemas, with an enum instead of const. Models of other makers get OpenAPI
//     schemas.
//
// google-vertex is called with an API key, without project and location. Otherwise it uses
// GOOGLE_CLOUD_PROJECT (or GCLOUD_PROJECT) and GOOGLE_CLOUD_LOCATION with an access token of the
// application default credentials: the file named by GOOGLE_APPLICATION_CREDENTIALS, that of the
// gcloud tool, or the metadata server. Files of service accounts and of users are supported; others
// are an ErrCredentialType. A token is refreshed by one request at a time, five minutes before it
// expires. Calls do not wait for the refresh while the old token is valid.
//
// Decoding guarantees, in addition to those of providers:
//
//  1. A response is complete when its stream ends after a finishReason or a blockReason, with any
//     counts in between. Any other end is a truncation or a network error.
//  2. Calls are complete. A call without an id, or with a repeated one, gets a new id.
//  3. A finishReason for a malformed call is a retryable error. An unknown one ends the response as a
//     stop, and is an oddity. Unknown parts are skipped.
//  4. TextEnd.Signature and ReasoningEnd.Signature are the length of the signed part in bytes, a colon,
//     and the vendor's signature. ToolCallEnd.Signature is the vendor's signature.
//
// All functions and types are safe for concurrent use. Calls share only the access token.
package googlegenerativeai
