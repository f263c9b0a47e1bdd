package machine

import "github.com/parleyrun/parley/conversation"

// What the runtime says to models and, in settlements and advisories, to people.
const (
	noteContinue = "Your reply was interrupted. What you had written is kept above; continue exactly where it stops, without repeating it."

	toolNotStarted = "This call did not run: the response was interrupted before it started. Call the tool again if it is still needed."
	toolUnknown    = "The outcome of this call is unknown: the process ended while it ran. It may or may not have taken effect; check before repeating it."
	toolTimeUp     = "This call was stopped: the time for the whole submission is used up."

	toolAborted = "This call was stopped: the conversation was aborted. It may or may not have taken effect."

	sayAborted        = "The submission was aborted."
	sayRetryExhausted = "The submission was tried as often as allowed and never came to an end."
	sayDamaged        = "The conversation's record cannot be read."
	sayTimeout        = "The submission used up its total time."
)

func failure(code conversation.Code, message string, meta map[string]any) *conversation.SettlementError {
	return &conversation.SettlementError{Type: code, Message: message, Meta: meta}
}
