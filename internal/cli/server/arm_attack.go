//go:build attack

package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/agent"
)

// armedAgent is the name of the agent that gets the tools.
const armedAgent = "armed"

type utterance struct {
	Bytes int  `json:"bytes"`
	Wrong bool `json:"wrong,omitempty"`
}

type spreading struct {
	Messages int `json:"messages"`
}

// arm adds two tools to the agent named armed. One returns, or fails with, a text of a requested size.
// The other sends messages to its own conversation, with which a scripted model calls it again.
func arm(a *agent.Agent) {
	if a.Name != armedAgent {
		return
	}
	utter := func(_ context.Context, in utterance) (string, error) {
		if in.Wrong {
			return "", errors.New(strings.Repeat("wrong ", in.Bytes/6))
		}
		return strings.Repeat("right ", in.Bytes/6), nil
	}
	spread := func(ctx context.Context, in spreading) (int, error) {
		call, _ := agent.CallFrom(ctx)
		for n := range in.Messages {
			if _, err := agent.Dispatch(ctx, call.Address, agent.Text(fmt.Sprintf(`tool=spread {"messages":%d}`, in.Messages))); err != nil {
				return n, err
			}
		}
		return in.Messages, nil
	}
	a.Tools = append(a.Tools, agent.NewTool("utter", "Says much.", utter, nil), agent.NewTool("spread", "Sends messages.", spread, nil))
}
