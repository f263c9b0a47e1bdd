// Package notes takes webhooks of a workspace-notes platform.
//
// An endpoint there is set up in two steps. The platform first sends its verification token,
// unsigned: the channel hands it to [Options.Verification], and the application stores it. With
// the token as [Options.VerificationToken] the channel then takes events, each signed with it;
// the platform's setup request is still answered, by whether its token is the same.
//
//	notes, err := notes.New(&notes.Options{
//		VerificationToken: channels.NewSecret(token),
//		Webhook: func(ctx context.Context, in notes.Incoming) (any, error) { … },
//	})
//
// Beside the guarantees of package channels: an event is any signed JSON object with a type,
// also one that is not among [Known]; an error of a callback, a panic, and a result that has no
// JSON are an empty 500, so that the platform learns nothing of them and sends again.
//
// Ids of resources and deliveries are identifiers and authorize nothing. The platform may send
// an event again, with another attempt_number.
package notes
