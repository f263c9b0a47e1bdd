package machine

import "github.com/parleyrun/parley/conversation"

// Texts of the runtime for models and, in settlements and diagnostics, for people.
const (
	noteContinue = "Your reply was interrupted. What you had written is kept above; continue exactly where it stops, without repeating it."

	noteCalls = "Your reply had more than %d tool calls, so it was cut off and none of them ran. Use at most %d in one reply, and go on with the rest when you have their results."

	noteEmpty = "Your reply was empty: it had neither text nor a tool call. Reply now, or call a tool."

	toolNotStarted = "This call did not run: the response was interrupted before it started. Call the tool again if it is still needed."
	toolUnknown    = "The outcome of this call is unknown: the process ended while it ran. It may or may not have taken effect; check before repeating it."
	toolTimeUp     = "This call was stopped: the time for the whole submission is used up."

	toolCutOff     = "This call did not run: the reply reached the model's length limit. Call again, with less in one reply."
	toolTooMany    = "This call did not run: the reply had more tool calls than it may."
	toolTooLong    = "This call did not run: the model said more than a response may have."
	toolTooLarge   = "The tool ran, but its outcome is left out: with what it wrote it has about %d bytes, and at most %d are recorded."
	toolNoRoom     = "The tool ran, but its output of %d bytes is left out: the tool calls of this response have brought %d bytes, and may bring %d. Ask for less, or answer with what you have."
	toolTooDeep    = "This task was not handed on: subagents may stand at most %d deep. Do it without another subagent."
	toolTaskFailed = "The subagent could not complete the task."
	toolAborted    = "This call was stopped: the conversation was aborted. It may or may not have taken effect."

	sayCrowded      = "As many requests as this conversation takes wait for an answer. Retry after the time given."
	sayMessagesWait = "%d messages wait in this conversation, which is as many as it takes. Retry when some of them are answered."
	sayBytesWait    = "Messages of %d bytes wait in this conversation, which takes %d. Retry when some of them are answered."

	textRepliesPending  = "This conversation owes %d replies to others, which is as many as it may. Retry when some of them are told."
	sayPostsWait        = "%d posts of this conversation are not delivered, which is as many as it takes, or their bodies are. Retry when some of them are."
	sayPostsFull        = "the outbox of the conversation is full"
	sayNoChannel        = "The notice cannot go to a target that replies for a channel: no delivery of that channel is in this conversation. Dispatch to a conversation that the channel has delivered to, or name another target."
	saySeveralAddresses = "The notice cannot go to a target that replies for a channel: the deliveries of that channel to this conversation have several reply addresses. Dispatch while the agent works on a delivery, or name another target."
	sayNoLetter         = "A signal of type %q names a dead letter of this conversation in the attributes \"post\" and \"batch\"; there is none such."
	sayRunOver          = "The run has ended, and nothing waits for %q any more."
	saySignalLate       = "The wait %q is decided, or will be by the signal that is kept for it."
	saySignalsFull      = "%d signals are kept that nobody has waited for, which is as many as a conversation takes."

	sayAborted        = "The submission was aborted."
	sayRunNoRoom      = "The result of the run is left out: it has %d bytes, the steps have brought %d, and all may bring %d."
	sayRetryExhausted = "Every attempt was lost, %d of %d: the process crashed, or lost the conversation, before the submission ended."
	sayLostInTools    = " Attempts lost while a tool ran: %s."
	textCorrupt       = "The conversation's record cannot be read."
	sayTooMuch        = "The model said more than a response may have."
	sayBroughtMuch    = "The tool calls of the response brought more than they may."
	sayTooManyCalls   = "The model asked for more tool calls in one reply than it may, again and again."
	sayAskedLater     = "The model %s cannot answer now and asks to wait. It is asked again at %v."
	sayAskedAgain     = "%s It is asked again in %v, try %s."
	sayInPlace        = "%s answers in place of %s. %s"
	sayPassedOver     = "%s answers in place of %s, which failed a while ago. %s"
	sayEmpty          = "%s ended its reply without an answer."
	sayEmptyCutOff    = "%s reached its length limit before its answer began."
	sayEmptyWithheld  = "The answer of %s was withheld by its vendor."
	sayCutOff         = "The model reached its length limit again and again."
	sayContinued      = "The reply was continued as often as allowed and never came to an end."
	sayLimitReached   = "The submission took as much as it may."
	sayTimeout        = "The submission used up its total time."
)

func failure(code conversation.Code, message string, meta map[string]any) *conversation.SettlementError {
	return &conversation.SettlementError{Type: code, Message: message, Meta: meta}
}
