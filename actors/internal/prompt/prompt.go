// Package prompt renders a conversation's exchanges for a model, as messages of package providers.
// Packages history and work of the runtime call it.
//
// It is pure except for attachments. Their types are detected from the first bytes and cached. The
// provider streams them from the bucket, so they are never whole in memory.
package prompt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// Exchanges copies the exchanges of the submission under way, and of earlier ones that the state still
// holds.
func Exchanges(s *conversation.State, id conversation.SubmissionID) []conversation.Exchange {
	var out []conversation.Exchange
	for _, sub := range s.Exchanges(id) {
		out = append(out, conversation.Exchange{Submission: sub.ID, Delivery: sub.Delivery, Left: sub.LeftOf(), Turns: sub.Turns()})
	}
	return out
}

// Since returns the exchanges after a compaction, and whether earlier ones are part of the view.
func Since(exchanges []conversation.Exchange, c *conversation.Compacted) (open []conversation.Exchange, older bool) {
	if c == nil {
		return exchanges, true
	}
	i := slices.IndexFunc(exchanges, func(x conversation.Exchange) bool { return x.Submission == c.FirstKept })
	if i < 0 {
		return exchanges, true
	}
	open = slices.Clone(exchanges[i:])
	open[0].Turns = TurnsSince(open[0].Turns, c.FirstTurn)
	return open, false
}

// TurnsSince drops the turns before turn; "" drops none.
func TurnsSince(turns []conversation.Turn, turn conversation.TurnID) []conversation.Turn {
	if turn == "" {
		return turns
	}
	return turns[max(0, slices.IndexFunc(turns, func(t conversation.Turn) bool { return t.ID == turn })):]
}

// Summary renders a compaction's summary.
func Summary(c *conversation.Compacted) providers.Message {
	text := fmt.Sprintf("<summary>\n%s\n\n%s\n</summary>", textShown, escape(c.Summary))
	return providers.Message{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: text}}}
}

// textShown introduces a summary.
const textShown = "The beginning of this conversation was omitted. This is a summary of it:"

// Renderer renders conversations of a bucket. It is safe for concurrent use; use NewRenderer.
type Renderer struct {
	bucket storage.Bucket
	facts  facts
}

// NewRenderer returns a renderer with an empty cache.
func NewRenderer(b storage.Bucket) *Renderer { return &Renderer{bucket: b} }

// View holds the parameters of a rendering. Its members are immutable.
type View struct {
	// After is the compaction with which the view begins, nil for the whole conversation.
	After *conversation.Compacted
	// Without lists attachments to omit.
	Without []conversation.AttachmentID
	// Output bounds each output, in bytes; 0 is no limit.
	Output int
}

// Same reports whether exchanges render alike in both views.
func (v View) Same(other View) bool {
	return v.After == other.After && v.Output == other.Output && slices.Equal(v.Without, other.Without)
}

// Messages renders exchanges for a provider, which opens their attachments while it sends them. The
// error may match storage.ErrUnavailable.
func (r *Renderer) Messages(
	ctx context.Context, key conversation.Key, exchanges []conversation.Exchange, shown View,
) ([]providers.Message, error) {
	v := view{Renderer: r, ctx: ctx, key: key, output: shown.Output, without: make(map[conversation.AttachmentID]bool, len(shown.Without))}
	for _, id := range shown.Without {
		v.without[id] = true
	}
	var out []providers.Message
	for _, x := range exchanges {
		m, err := v.deliveryMessage(x.Delivery)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
		for _, t := range x.Turns {
			m, err := v.turnMessages(t)
			if err != nil {
				return nil, err
			}
			out = append(out, m...)
		}
	}
	return out, nil
}

// view is one call of Messages.
type view struct {
	*Renderer
	ctx     context.Context
	key     conversation.Key
	output  int
	without map[conversation.AttachmentID]bool
}

func (v *view) deliveryMessage(d conversation.Delivery) (providers.Message, error) {
	m := providers.Message{Role: providers.RoleUser}
	if d.Kind == conversation.KindSignal {
		m.Parts = append(m.Parts, providers.Text{Text: signalText(d)})
		return m, nil
	}
	m.Parts = append(m.Parts, providers.Text{Text: d.Body})
	shown, err := v.images(d.Attachments)
	m.Parts = append(m.Parts, shown...)
	return m, err
}

// turnMessages renders a turn: the model's text and calls, then the results in call order. A note
// becomes a user message, which every vendor accepts in mid-conversation.
func (v *view) turnMessages(t conversation.Turn) ([]providers.Message, error) {
	if t.Note != "" {
		note := fmt.Sprintf("<advisory>\n%s\n</advisory>", escape(t.Note))
		return []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: note}}}}, nil
	}
	reply := providers.Message{Role: providers.RoleAssistant, Model: t.Model}
	results := providers.Message{Role: providers.RoleTool}
	for _, p := range t.Parts {
		switch {
		case p.Tool != nil:
			reply.Parts = append(reply.Parts, providers.ToolCall{ID: callID(p.Tool), Name: p.Tool.Name, Arguments: p.Tool.Input, Signature: p.Signature})
			result, err := v.toolResult(p.Tool)
			if err != nil {
				return nil, err
			}
			results.Parts = append(results.Parts, result)
		case p.Kind == conversation.PartReasoning:
			reply.Parts = append(reply.Parts, providers.Reasoning{Text: p.Text, Signature: p.Signature})
		default:
			reply.Parts = append(reply.Parts, providers.Text{Text: p.Text, Signature: p.Signature})
		}
	}
	if len(reply.Parts) == 0 {
		return nil, nil
	}
	if len(results.Parts) == 0 {
		return []providers.Message{reply}, nil
	}
	return []providers.Message{reply, results}, nil
}

// callID returns the vendor's id of a call, or our own.
func callID(t *conversation.ToolCall) string {
	if t.ProviderCall != "" {
		return t.ProviderCall
	}
	return string(t.Call)
}

// textWaits replaces the missing result of a suspended call of an earlier response.
const textWaits = "This call has not ended yet. Its response continues when it has ended."

func (v *view) toolResult(t *conversation.ToolCall) (providers.ToolResult, error) {
	if !t.Settled {
		return providers.ToolResult{CallID: callID(t), Name: t.Name, Content: []providers.Part{providers.Text{Text: textWaits}}}, nil
	}
	text := v.outputOf(t)
	shown, err := v.images(t.Images)
	return providers.ToolResult{
		CallID: callID(t), Name: t.Name, IsError: t.Failed, Content: append([]providers.Part{providers.Text{Text: text}}, shown...),
	}, err
}

// signalText renders a signal for the model as an element named tagName or "signal". It has the
// attribute type first, then the caller's attributes in key order. An attribute whose name is invalid
// in a tag becomes an escaped line of the body. Body and values are escaped.
func signalText(d conversation.Delivery) string {
	tag := d.TagName
	if tag == "" {
		tag = "signal"
	}
	var head, extra strings.Builder
	fmt.Fprintf(&head, `<%s type="%s"`, tag, escapeValue(d.Type))
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		value := d.Attributes[name]
		if name == "type" || !conversation.ValidTagName(name) {
			fmt.Fprintf(&extra, "%s: %s\n", escape(name), escape(value))
			continue
		}
		fmt.Fprintf(&head, ` %s="%s"`, name, escapeValue(value))
	}
	return fmt.Sprintf("%s>\n%s%s\n</%s>", head.String(), extra.String(), escape(d.Body), tag)
}

// escape makes text safe inside an element, escapeValue inside an attribute.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

func escapeValue(s string) string {
	return strings.ReplaceAll(escape(s), `"`, "&quot;")
}
