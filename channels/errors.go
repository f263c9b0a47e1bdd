package channels

import "fmt"

// InputError reports an invalid option of a channel, or an invalid part of an instance id.
type InputError struct {
	Channel string // such as "notes"
	Field   string // as the platform's documentation spells it, such as "verificationToken"
	Problem string // such as "is empty"; contains no secret
}

// Error implements error.
func (e *InputError) Error() string {
	return fmt.Sprintf("%s channel: %s %s", e.Channel, e.Field, e.Problem)
}

// InstanceIDError reports a text that is not an instance id of a channel. It does not contain the
// text.
type InstanceIDError struct {
	Channel string
}

// Error implements error.
func (e *InstanceIDError) Error() string {
	return fmt.Sprintf("%s channel: this is not an instance id that the channel has made", e.Channel)
}

// CheckBodyLimit returns an error if the limit is negative.
func CheckBodyLimit(channel string, limit int64) error {
	if limit < 0 {
		return &InputError{channel, "bodyLimit", "is negative: give the most bytes of a body, or leave it out for 1 MiB"}
	}
	return nil
}
