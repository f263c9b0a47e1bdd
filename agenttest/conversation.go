package agenttest

import (
	"fmt"
	"strings"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

// Conversation is a conversation of a [Host]. What it has of its own fails the test; Send, Wait and
// the rest are those of any client.
type Conversation struct {
	*client.Conversation
	host *Host
	at   conversation.Address
}

// Ask sends a text and returns the reply. One that failed or was aborted fails the test.
func (c *Conversation) Ask(body string) *client.Reply {
	c.host.t.Helper()
	return c.Deliver(client.Message{Body: body})
}

// Deliver is [Conversation.Ask] for any message.
func (c *Conversation) Deliver(m client.Message) *client.Reply {
	c.host.t.Helper()
	reply, err := c.Settle(m)
	if err != nil {
		c.host.t.Fatalf("%s/%s: %v", c.at.Agent, c.at.ID, err)
	}
	return reply
}

// Settle sends a message and waits until it is settled. The error is that of [client.Conversation.Send],
// or of [client.Conversation.Wait]: a [*client.SettledError] if it failed or was aborted.
func (c *Conversation) Settle(m client.Message) (*client.Reply, error) {
	ctx, done := c.host.patient()
	defer done()
	receipt, err := c.Send(ctx, m)
	if err != nil {
		return nil, err
	}
	return c.Wait(ctx, receipt)
}

// Transcript is the conversation as lines of text, for comparison:
//
//	user: Shall we walk?
//	assistant: Take an umbrella.
//	  weather({"city":"Kiel"}) = "rain"
//
// A tool that failed ends with "! error" in place of the output; data are "data-name: …" and files
// "file: …" below their message; and at last "failed: …" or "aborted" is what was not completed.
func (c *Conversation) Transcript() string {
	c.host.t.Helper()
	ctx, done := c.host.patient()
	defer done()
	s, err := c.History(ctx)
	if err != nil {
		c.host.t.Fatalf("%s/%s: %v", c.at.Agent, c.at.ID, err)
	}
	var out strings.Builder
	for _, m := range s.Messages {
		write(&out, &m)
	}
	for _, end := range s.Settlements {
		switch {
		case end.Outcome == conversation.OutcomeCompleted:
		case end.Error == nil:
			fmt.Fprintf(&out, "%s\n", end.Outcome)
		default:
			fmt.Fprintf(&out, "%s: %s\n", end.Outcome, end.Error.Message)
		}
	}
	return out.String()
}

func write(out *strings.Builder, m *conversation.Message) {
	if m.Signal != nil {
		fmt.Fprintf(out, "signal %s:", m.Signal.TagName)
	} else {
		fmt.Fprintf(out, "%s:", m.Role)
	}
	if text := m.Text(); text != "" {
		fmt.Fprintf(out, " %s", text)
	}
	out.WriteByte('\n')
	for _, p := range m.Parts {
		switch {
		case p.Type == "dynamic-tool" && p.ErrorText != nil:
			fmt.Fprintf(out, "  %s(%s) ! %s\n", p.ToolName, p.Input, *p.ErrorText)
		case p.Type == "dynamic-tool":
			fmt.Fprintf(out, "  %s(%s) = %s\n", p.ToolName, p.Input, p.Output)
		case strings.HasPrefix(p.Type, "data-"):
			fmt.Fprintf(out, "  %s: %s\n", p.Type, p.Data)
		case p.Type == "file":
			fmt.Fprintf(out, "  file: %s %s\n", p.MediaType, p.Filename)
		}
	}
}
