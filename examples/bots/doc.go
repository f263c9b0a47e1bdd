// Command bots serves one agent on two platforms, with channels/slack and channels/messenger. It
// answers each message once:
//
//   - A webhook is acknowledged once its message is durable, under the platform's id. If the
//     platform sends it again, it is admitted once.
//   - The delivery names the target of its reply. The outbox sends the replies of a conversation
//     in order, also after a crash.
//   - Each reply keeps its id, so the platform shows it once.
//   - A long reply is posted as a draft while the model generates it, and edited until it is
//     complete.
//   - The outbox waits as long as a rate limit asks, and a reply to a deleted chat becomes a
//     dead letter.
//
// main.go lists the environment variables for secrets, tokens and API URLs. Set them, register the
// URLs of /channels/slack/events and /channels/messenger/webhook with the platforms, and run:
//
//	go run ./examples/bots serve
package main
