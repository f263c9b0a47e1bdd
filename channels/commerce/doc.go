// Package commerce receives webhooks of a commerce platform.
//
//	shop, err := commerce.New(&commerce.Options{
//		ClientSecret: secret,
//		Webhook: func(ctx context.Context, in commerce.Incoming) (any, error) { … },
//	})
//
// Deliveries are JSON over HTTP, of every topic: also the mandatory ones about customer data, and
// topics that are newer than this package. In addition to the guarantees of package channels, the form
// of a signature is checked before the body is read. Numbers are parsed without losing digits. An
// error of the callback goes to the mount's error handler.
//
// The platform may deliver twice and out of order, and waits 5 seconds for a response: store a
// delivery durably under its WebhookID, and work afterwards. Deliveries have no signed timestamp, so
// an attacker can replay a recorded one.
package commerce
