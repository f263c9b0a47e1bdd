// Package messenger receives webhooks of a messenger's bot platform.
//
//	bot, err := messenger.New(&messenger.Options{
//		SecretToken: token, // as given when the webhook was registered
//		Webhook: func(ctx context.Context, in messenger.Incoming) (any, error) { … },
//	})
//
// The channel checks the envelope of an update only: a JSON object with a non-negative update_id. An
// update has at most one other member, which describes the event; the channel delivers all of them. A
// result of the callback is the response, which may be a method call of the platform.
//
// In addition to the guarantees of package channels, the secret is checked before the size of the
// body. An error of the callback goes to the mount's error handler.
//
// [InstanceID] names the conversation of a chat, which [Message.Ref] finds in a message. Guest
// queries, and callbacks without a message, belong to no lasting chat, so no id is derived from them.
// Their ids are capabilities: keep them out of model input, logs and storage.
package messenger
