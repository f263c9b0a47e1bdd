package observability

// Parts of Size: the structs of an event, and one value of a map or list.
const (
	sizeEvent   = 512
	sizeValue   = 64
	sizeMessage = 160
)

// Size estimates the memory of an event in bytes: a constant for the structs plus the lengths of its
// strings, including shared ones. It is cheap, and rather too large than too small.
func Size(e Event) int {
	env := &e.Envelope
	n := sizeEvent + len(env.ID) + len(env.Agent) + len(env.Instance) + len(env.Submission) + len(env.Conversation) +
		len(env.Session) + len(env.ParentSession) + len(env.Task) + len(env.Operation) + len(env.Turn)
	switch p := e.Payload.(type) {
	case *SubmissionQueued:
		n += len(p.Kind) + len(p.MessageKind) + len(p.Traceparent) + len(p.Tracestate) + sizeContent(p.Body)
	case *SubmissionRunning:
		n += len(p.Kind) + len(p.Traceparent) + len(p.Tracestate)
	case *SubmissionRecovery:
		n += len(p.Operation) + len(p.Outcome) + sizeError(p.Error)
	case *SubmissionSettled:
		n += len(p.Kind) + len(p.Outcome) + sizeError(p.Error)
	case *Operation:
		n += len(p.Kind) + sizeError(p.Error)
	case *TurnStart:
		n += len(p.Purpose) + len(p.Model)
	case *TurnRequest:
		n += len(p.Purpose) + sizeRequest(&p.Request)
	case *Turn:
		n += len(p.Purpose) + sizeRequest(&p.Request) + len(p.Response.ID) + len(p.Response.Model) + sizeError(p.Response.Error)
	case *TurnMessages:
		n += len(p.Purpose) + sizeOf(&p.Message)
		for i := range p.ToolResults {
			n += sizeOf(&p.ToolResults[i])
		}
	case *MessageStart:
		n += sizeOf(&p.Message)
	case *MessageEnd:
		n += sizeOf(&p.Message)
	case *TextDelta:
		n += len(p.Text)
	case *ThinkingDelta:
		n += len(p.Delta)
	case *ThinkingEnd:
		n += len(p.Content)
	case *ToolcallDelta:
		n += len(p.ToolCallID) + len(p.ToolName) + len(p.Delta)
	case *ToolStart:
		n += len(p.ToolName) + len(p.ToolCallID) + sizeContent(p.Args)
	case *Tool:
		n += len(p.ToolName) + len(p.ToolCallID) + sizeContent(p.Result)
	case *WaitStart:
		n += len(p.Name) + len(p.ToolName) + len(p.ToolCallID)
	case *Wait:
		n += len(p.Name) + len(p.ToolName) + len(p.ToolCallID) + len(p.Reason) + len(p.Signal)
	case *Post:
		n += len(p.PostID) + len(p.Target) + len(p.Outcome)
	case *TaskStart:
		n += len(p.Agent) + len(p.ToolCallID) + sizeContent(p.Prompt)
	case *Task:
		n += len(p.Agent) + len(p.ToolCallID) + len(p.Outcome)
	case *Compaction:
		n += sizeError(p.Error)
	case *Log:
		n += len(p.Level) + len(p.Message) + sizeMap(p.Attributes)
	}
	return n
}

func sizeContent(c *Content) int {
	if c == nil {
		return 0
	}
	return sizeValue + len(c.Text)
}

func sizeError(e *Error) int {
	if e == nil {
		return 0
	}
	return sizeValue + len(e.Type) + len(e.Message) + sizeMap(e.Meta)
}

func sizeRequest(r *ModelRequest) int {
	return len(r.Provider) + len(r.ProviderName) + len(r.Model) + len(r.API) + len(r.Server) + len(r.Reasoning) + len(r.Input)
}

func sizeOf(m *Message) int {
	return sizeMessage + len(m.ID) + len(m.Role) + len(m.ToolCallID) + len(m.ToolName) + len(m.Text)
}

func sizeMap(m map[string]any) (n int) {
	for k, v := range m {
		n += sizeValue + len(k) + sizeAny(v)
	}
	return n
}

// sizeAny covers values of JSON; any other value counts once.
func sizeAny(v any) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	case map[string]any:
		return sizeMap(v)
	case []any:
		for _, e := range v {
			n += sizeValue + sizeAny(e)
		}
	}
	return n
}
