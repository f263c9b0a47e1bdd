package observability

// payloads returns one payload of every type.
func payloads() map[Type]Payload {
	return map[Type]Payload{
		TypeSubmissionQueued:   (*SubmissionQueued)(nil),
		TypeSubmissionRunning:  (*SubmissionRunning)(nil),
		TypeSubmissionRecovery: (*SubmissionRecovery)(nil),
		TypeSubmissionSettled:  (*SubmissionSettled)(nil),
		TypeOperationStart:     (*OperationStart)(nil),
		TypeOperation:          (*Operation)(nil),
		TypeAgentStart:         (*AgentStart)(nil),
		TypeAgentEnd:           (*AgentEnd)(nil),
		TypeIdle:               (*Idle)(nil),
		TypeTurnStart:          (*TurnStart)(nil),
		TypeTurnRequest:        (*TurnRequest)(nil),
		TypeTurn:               (*Turn)(nil),
		TypeTurnMessages:       (*TurnMessages)(nil),
		TypeMessageStart:       (*MessageStart)(nil),
		TypeMessageEnd:         (*MessageEnd)(nil),
		TypeTextDelta:          (*TextDelta)(nil),
		TypeThinkingStart:      (*ThinkingStart)(nil),
		TypeThinkingDelta:      (*ThinkingDelta)(nil),
		TypeThinkingEnd:        (*ThinkingEnd)(nil),
		TypeToolcallDelta:      (*ToolcallDelta)(nil),
		TypeToolStart:          (*ToolStart)(nil),
		TypeTool:               (*Tool)(nil),
		TypeWaitStart:          (*WaitStart)(nil),
		TypeWait:               (*Wait)(nil),
		TypePost:               (*Post)(nil),
		TypeTaskStart:          (*TaskStart)(nil),
		TypeTask:               (*Task)(nil),
		TypeCompactionStart:    (*CompactionStart)(nil),
		TypeCompaction:         (*Compaction)(nil),
		TypeLog:                (*Log)(nil),
	}
}

// EventType implements [Payload].
func (*SubmissionQueued) EventType() Type { return TypeSubmissionQueued }

// EventType implements [Payload].
func (*SubmissionRunning) EventType() Type { return TypeSubmissionRunning }

// EventType implements [Payload].
func (*SubmissionRecovery) EventType() Type { return TypeSubmissionRecovery }

// EventType implements [Payload].
func (*SubmissionSettled) EventType() Type { return TypeSubmissionSettled }

// EventType implements [Payload].
func (*OperationStart) EventType() Type { return TypeOperationStart }

// EventType implements [Payload].
func (*Operation) EventType() Type { return TypeOperation }

// EventType implements [Payload].
func (*AgentStart) EventType() Type { return TypeAgentStart }

// EventType implements [Payload].
func (*AgentEnd) EventType() Type { return TypeAgentEnd }

// EventType implements [Payload].
func (*Idle) EventType() Type { return TypeIdle }

// EventType implements [Payload].
func (*TurnStart) EventType() Type { return TypeTurnStart }

// EventType implements [Payload].
func (*TurnRequest) EventType() Type { return TypeTurnRequest }

// EventType implements [Payload].
func (*Turn) EventType() Type { return TypeTurn }

// EventType implements [Payload].
func (*TurnMessages) EventType() Type { return TypeTurnMessages }

// EventType implements [Payload].
func (*MessageStart) EventType() Type { return TypeMessageStart }

// EventType implements [Payload].
func (*MessageEnd) EventType() Type { return TypeMessageEnd }

// EventType implements [Payload].
func (*TextDelta) EventType() Type { return TypeTextDelta }

// EventType implements [Payload].
func (*ThinkingStart) EventType() Type { return TypeThinkingStart }

// EventType implements [Payload].
func (*ThinkingDelta) EventType() Type { return TypeThinkingDelta }

// EventType implements [Payload].
func (*ThinkingEnd) EventType() Type { return TypeThinkingEnd }

// EventType implements [Payload].
func (*ToolcallDelta) EventType() Type { return TypeToolcallDelta }

// EventType implements [Payload].
func (*ToolStart) EventType() Type { return TypeToolStart }

// EventType implements [Payload].
func (*Tool) EventType() Type { return TypeTool }

// EventType implements [Payload].
func (*WaitStart) EventType() Type { return TypeWaitStart }

// EventType implements [Payload].
func (*Wait) EventType() Type { return TypeWait }

// EventType implements [Payload].
func (*Post) EventType() Type { return TypePost }

// EventType implements [Payload].
func (*TaskStart) EventType() Type { return TypeTaskStart }

// EventType implements [Payload].
func (*Task) EventType() Type { return TypeTask }

// EventType implements [Payload].
func (*CompactionStart) EventType() Type { return TypeCompactionStart }

// EventType implements [Payload].
func (*Compaction) EventType() Type { return TypeCompaction }

// EventType implements [Payload].
func (*Log) EventType() Type { return TypeLog }
