package work

// Texts for models and, in settlements, for people.
const (
	textModelFailed    = "The model could not complete the reply."
	textNoInstructions = "The agent could not prepare the reply."
	textNoOutput       = "The model's answer does not have the requested form."
	textNotStarted     = "The agent could not start on the message."
	textNoTools        = "This call did not run: the agent could not prepare its tools. It may help to call again."
	textOutputRefused  = "The tool ran, but its output was omitted: it %v."
	textResultRefused  = "The result of the run was omitted: it %v."
	textOutputLost     = "The tool ran, but its output could not be stored. Call it again if it is still needed."
	textImageLost      = "The tool ran, but its images could not be stored. Call it again if they are still needed."
	textUnknownTool    = "There is no tool named %q. Use one of the tools you were given."
	textNotResumed     = "The outcome of this call is unknown: it was interrupted and could not be resumed. It may have taken effect; check before repeating it."
	textLostSignals    = " It had received the signals %q, which were not acted on."
	textOutputTooLong  = "The model's reply was cut off: it has more %s than the limit of %d."
	textTooLong        = "The conversation is too long for the model, and could not be shortened."
	textMessageTooLong = "The message alone is too long for the model; send a shorter one."

	textTaskTool = "Delegate a task to another agent, which works on it alone and returns its result. " +
		"It sees only your prompt, not this conversation. Several tasks of one reply run concurrently. The agents:"
	textTaskAgent   = "The agent that does the task."
	textTaskPrompt  = "The whole task, with all that is needed to do it."
	textTaskInput   = "The input needs an agent and a prompt, both strings. Correct the input and call the tool again."
	textTaskUnknown = "There is no agent named %q. The agents are: %s."

	textReadTool = "Reads more of the output of an earlier call of which you were shown only the beginning and the end. " +
		"It returns as much as you are shown of an output at once, and the position to read on from."
	textReadCall    = "The id of the call, as given where its output was omitted."
	textReadFrom    = "The byte to read from, 0 if it is missing."
	textReadFind    = "Read from a little before the first place that has exactly this text, at or after that byte."
	textReadInput   = "The input needs a call, a string; from is a number of at least 0, and find a string. Correct the input and call the tool again."
	textReadUnknown = "There is no output of a call %q. Use an id given where an output was omitted."
	textReadBeyond  = "The output has %d bytes, and nothing after them."
	textReadNowhere = "The output does not have this text at or after byte %d."
	textReadLost    = "The output is no longer stored as it was. Call the tool again if it is still needed."
	textReadLater   = "The output cannot be read now. Call again later if it is still needed."

	// Instructions of a summarizer.
	textSummarize = "You summarize a conversation between a user and an assistant that will continue. Write a summary that lets the assistant " +
		"continue without the omitted part: the user's goals and wishes, decisions and reasons, facts, names, numbers, identifiers and file paths " +
		"verbatim, actions and their results, failures, and open questions. Do not answer the conversation. " +
		"Write plain text, at most %d words."
	textSummaryBefore = "The previous summary, of everything before. Keep the parts that still matter:"
	textSummaryThen   = "The conversation after it:"
)
