// Package commerce takes webhooks of a commerce platform.
//
//	shop, err := commerce.New(&commerce.Options{
//		ClientSecret: secret,
//		Webhook: func(ctx context.Context, in commerce.Incoming) (any, error) { … },
//	})
//
// Deliveries are JSON over HTTP, of every topic: also those about customers' data that every
// app has to take, and topics that came after this package. Beside the guarantees of package
// channels: the form of a signature is checked before the body is read; numbers are parsed
// without losing a digit; an error of the callback goes to the mount's error handler.
//
// The platform may deliver twice and in another order, and waits 5 seconds for an answer: take
// in a delivery durably under its WebhookID, and work afterwards. Nothing signed has a time, so
// that an old delivery can be sent again by whoever has seen it.
package commerce
