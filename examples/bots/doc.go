// Command bots serves one agent on two platforms, that of channels/slack and that of channels/messenger: who writes
// to a bot there is answered there. It shows what a bot needs that answers each message once:
//
//   - a webhook is answered when its message is durable, and not before, under the platform's own id: what the
//     platform sends again is admitted once;
//   - the delivery names the target of its reply, which the outbox brings to the platform, whatever dies, in the
//     order of the conversation;
//   - each reply has an id that stays the same, under which the platform shows it once;
//   - what takes longer is shown while the model still speaks, and edited until it is whole;
//   - a platform that limits is left alone for as long as it says, and a chat that is no more is given up.
//
// main.go has the variables that it needs: secrets, tokens, and where the platforms are. With them set, and the URLs
// of /channels/slack/events and /channels/messenger/webhook registered:
//
//	go run ./examples/bots serve
package main
