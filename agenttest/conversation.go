package agenttest

import (
	"fmt"
	"strings"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

// Conversation is a conversation of a [Host]. Its own methods fail the test on errors. Send, Wait and
// the others are those of [client.Conversation].
type Conversation struct {
	*client.Conversation
	host *Host
	at   conversation.Address
}

// Ask sends a text and returns the reply. A failed or aborted submission fails the test.
func (c *Conversation) Ask(body string) *client.Reply {
	c.host.t.Helper()
	return c.Deliver(client.Message{Body: body})
}

// Deliver sends any message like [Conversation.Ask].
func (c *Conversation) Deliver(m client.Message) *client.Reply {
	c.host.t.Helper()
	reply, err := c.Settle(m)
	if err != nil {
		c.host.t.Fatalf("%s/%s: %v", c.at.Agent, c.at.ID, err)
	}
	return reply
}

// Settle sends a message and waits for its settlement. The error is that of [client.Conversation.Send]
// or [client.Conversation.Wait]: a [*client.SettledError] if the submission failed or was aborted.
func (c *Conversation) Settle(m client.Message) (*client.Reply, error) {
	ctx, done := c.host.waitContext()
	defer done()
	receipt, err := c.Send(ctx, m)
	if err != nil {
		return nil, err
	}
	return c.Wait(ctx, receipt)
}

// Transcript returns the conversation as lines of text, for comparison:
//
//	user: Shall we walk?
//	assistant: Take an umbrella.
//	  weather({"city":"Kiel"}) = "rain"
//
// A failed tool call ends with "! error" instead of the output. Data are "data-name: …" and files
// "file: …" below their message. A line "failed: …" or "aborted" follows a submission that did not
// complete.
func (c *Conversation) Transcript() string {
	c.host.t.Helper()
	ctx, done := c.host.waitContext()
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
