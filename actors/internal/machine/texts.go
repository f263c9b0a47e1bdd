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
	toolTooMany    = "This call did not run: the reply had more tool calls than allowed."
	toolTooLong    = "This call did not run: the response exceeded its length limit."
	toolTooLarge   = "The tool ran, but its outcome was omitted: it has about %d bytes with its state writes, and at most %d are recorded."
	toolNoRoom     = "The tool ran, but its output of %d bytes was omitted: the tool calls of this response have used %d bytes of %d. Ask for less, or answer with what you have."
	toolTooDeep    = "This task was not delegated: subagents may be nested at most %d deep. Do it without another subagent."
	toolTaskFailed = "The subagent could not complete the task."
	toolAborted    = "This call was stopped: the conversation was aborted. It may or may not have taken effect."

	textOverloaded = "The conversation has too many waiting requests. Retry after the time given."
	textQueueFull  = "The conversation has %d queued messages, which is its limit. Retry when some of them are answered."
	textQueueBytes = "The conversation has %d bytes of queued messages; its limit is %d. Retry when some of them are answered."

	textRepliesPending   = "The conversation has %d undelivered replies, which is its limit. Retry when some of them are delivered."
	textPostsWait        = "The outbox of the conversation is full, with %d undelivered posts. Retry when some of them are delivered."
	textPostsFull        = "the outbox of the conversation is full"
	textNoChannel        = "The notice cannot go to a target that replies for a channel: no delivery of that channel is in this conversation. Dispatch to a conversation that the channel has delivered to, or name another target."
	textSeveralAddresses = "The notice cannot go to a target that replies for a channel: the deliveries of that channel to this conversation have several reply addresses. Dispatch while the agent works on a delivery, or name another target."
	textNoDeadLetter     = "A signal of type %q names a dead letter of this conversation in the attributes \"post\" and \"batch\"; there is no such dead letter."
	textRunOver          = "The run has ended, and nothing waits for %q any more."
	textSignalLate       = "The wait %q is already resolved, or will be by the signal that is kept for it."
	textSignalsFull      = "The conversation keeps %d signals that no wait has used, which is its limit."

	textAborted         = "The submission was aborted."
	textRunNoRoom       = "The result of the run was omitted: it has %d bytes, the steps have used %d, and the limit for all is %d."
	textRetryExhausted  = "Every attempt was lost, %d of %d: the process crashed, or lost the conversation, before the submission ended."
	textLostInTools     = " Attempts lost while a tool ran: %s."
	textCorrupt         = "The conversation's record cannot be read."
	textResponseTooLong = "The response exceeded its length limit."
	textOutcomesTooLong = "The tool calls of the response exceeded their size limit."
	textTooManyCalls    = "The model repeatedly requested more tool calls in one reply than allowed."
	textRetryLater      = "The model %s cannot answer now. The call will be retried at %v."
	textRetryIn         = "%s The call will be retried in %v, try %s."
	textFallback        = "%s answers in place of %s. %s"
	textSkipped         = "%s answers in place of %s, which failed recently. %s"
	textEmpty           = "%s ended its reply without an answer."
	textEmptyCutOff     = "%s reached its length limit before its answer began."
	textEmptyWithheld   = "The answer of %s was withheld by its vendor."
	textCutOff          = "The model repeatedly reached its length limit."
	textContinued       = "The reply was continued as often as allowed and did not end."
	textLimitReached    = "The submission reached a limit."
	textTimeout         = "The submission used up its total time."
)

func failure(code conversation.Code, message string, meta map[string]any) *conversation.SettlementError {
	return &conversation.SettlementError{Type: code, Message: message, Meta: meta}
}
