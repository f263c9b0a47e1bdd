// Package slack receives events, interactions and slash commands of Slack, at POST /events,
// /interactions and /commands.
//
// In addition to the guarantees of package channels, a request carries X-Slack-Signature over its
// timestamp and its bytes, and is at most five minutes old. The channel responds to the verification
// of an events URL itself. An event keeps its id when the platform sends again, and a thread has an
// [InstanceID].
package slack
