package work

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

type taskInput struct {
	Agent  string `json:"agent"`
	Prompt string `json:"prompt"`
}

func taskTool(setup *agent.Setup) providers.Tool {
	var names []string
	about := textTaskTool
	for _, s := range setup.Subagents {
		names = append(names, s.Name)
		about += fmt.Sprintf("\n- %s: %s", s.Name, s.Description)
	}
	schema := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"agent", "prompt"},
		"properties": map[string]any{
			"agent":  map[string]any{"type": "string", "enum": names, "description": textTaskAgent},
			"prompt": map[string]any{"type": "string", "description": textTaskPrompt},
		},
	}
	raw, _ := json.Marshal(schema) // cannot fail
	return providers.Tool{Name: conversation.TaskTool, Description: about, InputSchema: raw}
}

// readTask decodes a call of the task tool. problem is an error text for the model.
func readTask(setup *agent.Setup, e machine.RunTool) (task machine.TaskCalled, problem string) {
	var in taskInput
	if err := json.Unmarshal(e.Input, &in); err != nil || strings.TrimSpace(in.Prompt) == "" {
		return task, textTaskInput
	}
	if _, ok := setup.Subagent(in.Agent); !ok {
		var names []string
		for _, s := range setup.Subagents {
			names = append(names, s.Name)
		}
		return task, fmt.Sprintf(textTaskUnknown, in.Agent, strings.Join(names, ", "))
	}
	return machine.TaskCalled{Gen: e.Gen, Call: e.Call, Agent: in.Agent, Prompt: in.Prompt}, ""
}
