// Package messenger takes webhooks of a messenger's bot platform.
//
//	bot, err := messenger.New(&messenger.Options{
//		SecretToken: token, // as given when the webhook was registered
//		Webhook: func(ctx context.Context, in messenger.Incoming) (any, error) { … },
//	})
//
// Of an update only the envelope is looked at: a JSON object with an update_id that is no
// negative number. An update has at most one member beside it that says what has happened, and
// is handed on whatever that is. A result of the callback becomes the answer, which may be the
// platform's form of a method call.
//
// Beside the guarantees of package channels: the secret is checked before the size of the body;
// an error of the callback goes to the mount's error handler.
//
// A chat is named by [InstanceID], made of what [Message.Ref] finds in a message. Queries of
// guests, and callbacks without a message, name no chat that lasts: nothing is derived from
// them, and what they carry is a capability, which does not belong into what a model reads, a
// log, or anything that is kept.
package messenger
