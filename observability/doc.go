// Package observability is the seam of events: what happens to conversations, in types,
// for analysts and operators. Package actors makes events, sinks take them.
//
// There are two kinds. Durable events are a pure function of one batch of the log, see
// [Project]: made again after a crash they are the same to the byte, id included, so
// that what is shipped twice is stored once. Live events (deltas, requests, messages,
// logs) are best effort: they are dropped, and counted, when nobody takes them in time.
package observability
