package work

// Texts for models and, in settlements, for people.
const (
	sayModelFailed    = "The model could not complete the reply."
	sayNoInstructions = "The agent could not prepare the reply."
	sayNoOutput       = "The model did not give its answer in the form that was asked for."
	sayNotStarted     = "The agent could not start on the message."
	sayNoTools        = "This call did not run: the agent could not prepare its tools. It may help to call again."
	sayOutputRefused  = "The tool ran, but its output is left out: it %v."
	sayResultRefused  = "The result of the run is left out: it %v."
	sayOutputLost     = "The tool ran, but its output could not be stored. Call it again if it is still needed."
	sayImageLost      = "The tool ran, but its images could not be stored. Call it again if they are still needed."
	sayUnknownTool    = "There is no tool named %q. Use one of the tools you were given."
	sayNotResumed     = "The outcome of this call is unknown: it was interrupted and could not go on. It may have taken effect; check before repeating it."
	sayLostSignals    = " It had received the signals %q, which were not acted on."
	sayOutputTooLong  = "The model's reply was cut off: it has more %s than the %d that it may have."
	sayTooLong        = "The conversation is too long for the model, and could not be shortened."
	sayMessageTooLong = "The message alone is too long for the model; send a shorter one."

	sayTaskTool = "Hand a task to another agent, which works on it alone and answers with its result. " +
		"It knows nothing of this conversation but your prompt. Several tasks of one reply run side by side. The agents:"
	sayTaskAgent   = "Who shall do it."
	sayTaskPrompt  = "The whole task, with all that is needed to do it."
	sayTaskInput   = "The input needs an agent and a prompt, both strings. Correct the input and call the tool again."
	sayTaskUnknown = "There is no agent named %q. The agents are: %s."

	sayReadTool = "Reads on in the output of an earlier call, of which you were shown the beginning and the end. " +
		"It returns as much as you are shown of an output at once, and says where to read on."
	sayReadCall    = "The id of the call, as it stands where its output was left out."
	sayReadFrom    = "The byte to read from, 0 if it is missing."
	sayReadFind    = "Read from a little before the first place that has exactly this text, at or after that byte."
	sayReadInput   = "The input needs a call, a string; from is a number of at least 0, and find a string. Correct the input and call the tool again."
	sayReadUnknown = "You are shown no output of a call %q. Use an id that stands where an output was left out."
	sayReadBeyond  = "The output has %d bytes, and nothing after them."
	sayReadNowhere = "The output does not have this text at or after byte %d."
	sayReadLost    = "The output is not stored any more as it was. Call the tool again if it is still needed."
	sayReadLater   = "The output cannot be read now. Call again later if it is still needed."

	// Instructions of a summarizer.
	saySummarize = "You shorten a conversation between a user and an assistant that goes on after you. Write a summary that lets the assistant " +
		"continue without what is left out: the user's goals and wishes, decisions and why, facts, names, numbers, identifiers and file paths " +
		"word for word, what was done with which result, what failed, and what is still open. Do not answer the conversation. " +
		"Write plain text, at most %d words."
	saySummaryBefore = "What came even before, as it was summarized last time. Keep what still matters of it:"
	saySummaryThen   = "What follows it:"
)
