// Package slack takes what Slack sends to an app: events, interactions and slash commands, at
// POST /events, /interactions and /commands.
//
// Beside the guarantees of package channels: a request is proven by X-Slack-Signature over its
// time and its bytes, and is at most five minutes old; the verification of an events URL is
// answered without a call. An event has an id, which is the same whenever it is sent again, and
// a thread has an [InstanceID].
package slack
