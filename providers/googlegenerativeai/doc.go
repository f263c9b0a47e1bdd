// Package googlegenerativeai speaks the generateContent wire format, the api slugs
// "google-generative-ai" and "google-vertex": one core, of which they differ in address and
// credentials. Gateways offer the first as well, so the package is named after it.
//
// cmd registers New under API and NewVertex under APIVertex. The package calls providers,
// providers/sse and net/http, and no vendor's SDK.
//
// What is sent is decided in one place:
//
//   - Each part of a reply goes back by itself and with its signature, if it has one, also a
//     text that is empty. Models from generation 3 on check the first call of each step: one
//     without a signature, which another model has made, has the words that the vendor
//     documents in its place. They stand in earlier turns too, so that the beginning of a
//     prompt stays the same.
//   - The results of a step are one content, since they are counted there. Images are within
//     the results for models from generation 3 on, and in a content of their own for others.
//     Calls have ids for the same models, and for those of other makers.
//   - A level of thinking is sent as one to models from generation 3 on and those whose map
//     has words, else as a budget of tokens within the range of the model. A budget is added
//     to the limit of the output, which counts it. A model that is not to think is sent a
//     budget of none, or the least that it takes.
//   - Tools have JSON schemas, where an enum stands for a const. Models of other makers get
//     the members that OpenAPI has.
//
// google-vertex is called by an API key, without project and location; otherwise in
// GOOGLE_CLOUD_PROJECT (or GCLOUD_PROJECT) and GOOGLE_CLOUD_LOCATION with an access token of
// the application default credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names,
// that of the gcloud tool, or the metadata server. Files of service accounts and of users
// are supported, others are an ErrCredentialType. Tokens are got by requests of its own, one
// at a time, five minutes before the last one ends; no call waits for one while that lasts.
//
// Guarantees of decoding, beyond those of providers:
//
//  1. A response is whole when its stream ends behind a finishReason or a blockReason, with
//     whatever counts came after it. Any other end is a truncation or a network error.
//  2. Calls come whole. One without an id, or with that of another, gets one.
//  3. A finishReason that says that the model wrote no proper call is an error that may be
//     repeated. An unknown one ends the response as a stop, and is an oddity. Unknown parts
//     are skipped.
//  4. TextEnd.Signature and ReasoningEnd.Signature are the length of the part that is signed,
//     in bytes, a colon, and the vendor's own string. ToolCallEnd.Signature is that string.
//
// Everything is safe for concurrent use. Nothing survives a call but the access token.
package googlegenerativeai
