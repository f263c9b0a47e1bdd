package otel

// Names of spans, attributes and metrics. Those of gen_ai are the semantic conventions
// for generative AI; they stand here because the conventions still move and a change of
// them must not come with an update of a dependency.
const (
	scopeName = "github.com/parleyrun/parley/observability/otel"

	spanAgent      = "invoke_agent"
	spanChat       = "chat"
	spanTool       = "execute_tool"
	spanOperation  = "parley.operation"
	spanCompaction = "parley.compaction"

	keyServiceName     = "service.name"
	keyServiceVersion  = "service.version"
	keyServiceInstance = "service.instance.id"

	keyOperation      = "gen_ai.operation.name"
	keyProvider       = "gen_ai.provider.name"
	keyRequestModel   = "gen_ai.request.model"
	keyReasoningLevel = "gen_ai.request.reasoning.level"
	keyResponseModel  = "gen_ai.response.model"
	keyResponseID     = "gen_ai.response.id"
	keyFinishReasons  = "gen_ai.response.finish_reasons"
	keyFirstToken     = "gen_ai.response.time_to_first_chunk" // seconds
	keyConversation   = "gen_ai.conversation.id"
	keyCompacted      = "gen_ai.conversation.compacted"
	keyAgent          = "gen_ai.agent.name"
	keyInputTokens    = "gen_ai.usage.input_tokens"
	keyOutputTokens   = "gen_ai.usage.output_tokens"
	keyCacheRead      = "gen_ai.usage.cache_read.input_tokens"
	keyCacheCreation  = "gen_ai.usage.cache_creation.input_tokens"
	keyReasoning      = "gen_ai.usage.reasoning.output_tokens"
	keyTokenType      = "gen_ai.token.type"
	keyToolName       = "gen_ai.tool.name"
	keyToolType       = "gen_ai.tool.type"
	keyToolCall       = "gen_ai.tool.call.id"
	keyToolArguments  = "gen_ai.tool.call.arguments"
	keyToolResult     = "gen_ai.tool.call.result"
	keyInput          = "gen_ai.input.messages"
	keyOutput         = "gen_ai.output.messages"
	keyError          = "error.type"
	keyServer         = "server.address"
	keyPort           = "server.port"

	keySubmission     = "parley.submission.id"
	keyAttempt        = "parley.submission.attempt"
	keyOutcome        = "parley.submission.outcome"
	keyInstance       = "parley.instance.id"
	keySession        = "parley.session.name"
	keyOperationID    = "parley.operation.id"
	keyOperationKind  = "parley.operation.kind"
	keyTurn           = "parley.turn.id"
	keyPurpose        = "parley.turn.purpose"
	keyRetries        = "parley.turn.retries"
	keyDropped        = "parley.turn.dropped"
	keyTask           = "parley.task.id"
	keyTaskOutcome    = "parley.task.outcome"
	keyMessagesBefore = "parley.compaction.messages_before"
	keyMessagesAfter  = "parley.compaction.messages_after"
	keyTotalTokens    = "parley.usage.total_tokens"
	keyCost           = "parley.usage.cost" // US dollars
	keyEvent          = "parley.event.id"
	keyPlainArguments = "parley.tool.call.arguments" // what is not a JSON object
	keyPlainResult    = "parley.tool.call.result"
	keyRequestInput   = "parley.request.input"
	keyTruncated      = "parley.content.truncated"

	metricChat      = "gen_ai.client.operation.duration"
	metricTokens    = "gen_ai.client.token.usage"
	metricAgent     = "gen_ai.invoke_agent.duration"
	metricTool      = "gen_ai.execute_tool.duration"
	metricSettled   = "parley.submission.settled"
	metricAdmission = "parley.submission.admission.duration"
	metricQueue     = "parley.submission.queue.duration"

	tokenInput   = "input"
	tokenOutput  = "output"
	toolFunction = "function"
	otherError   = "_OTHER"
	toolError    = "tool_error"
)
