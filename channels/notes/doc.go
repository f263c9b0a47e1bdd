// Package notes receives webhooks of a workspace-notes platform.
//
// An endpoint is set up in two steps. First the platform sends its verification token, unsigned. The
// channel passes it to [Options.Verification], and the application stores it. With the token as
// [Options.VerificationToken] the channel then accepts events signed with it. Later setup requests
// succeed only if they have the same token.
//
//	notes, err := notes.New(&notes.Options{
//		VerificationToken: channels.NewSecret(token),
//		Webhook: func(ctx context.Context, in notes.Incoming) (any, error) { … },
//	})
//
// In addition to the guarantees of package channels, an event is any signed JSON object with a type,
// also one that is not in [Known]. A callback that fails or panics, or whose result does not encode as
// JSON, causes an empty 500: the platform sees no details and sends again.
//
// Ids of resources and deliveries authorize nothing. The platform may send an event again with another
// attempt_number.
package notes
