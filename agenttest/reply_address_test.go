package agenttest_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// room is a platform with edits. It records the distinct texts at each address.
type room struct {
	mu    sync.Mutex
	shown map[string][]string // by address
}

func (r *room) Post(_ context.Context, to channels.Reply, text string) (string, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.shown[to.Address], text) {
		r.shown[to.Address] = append(r.shown[to.Address], text)
	}
	return to.ID, text, nil
}

func (r *room) Edit(ctx context.Context, to channels.Reply, _, text string) error {
	_, _, err := r.Post(ctx, to, text)
	return err
}

// TestReplyAddress verifies that two senders of one conversation get their own replies and drafts at
// their own addresses, over crashes. A message that a tool dispatches to its own conversation is
// answered at the address of the delivery. A caller cannot choose an address.
// covers: channels/194
func TestReplyAddress(t *testing.T) {
	for _, crash := range []time.Duration{0, time.Second, 9 * time.Second, 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			places := &room{shown: map[string][]string{}}
			remind := agent.NewTool("remind", "Sends a message to its own conversation.", func(ctx context.Context, _ struct{}) (string, error) {
				m := agent.Text("Reminder.")
				m.Notify = "channels.bot"
				_, err := agent.Dispatch(ctx, conversation.Address{Agent: "desk", ID: "shared"}, m)
				return "Done.", err
			}, nil)
			h := agenttest.New(t, []*agent.Agent{{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{remind}, Notify: []string{"channels.bot"}}}, &agenttest.Options{
				Model: agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
					last := lastOf(r)
					if strings.Contains(last, "Remind") && !strings.Contains(last, "Reminder") {
						return agenttest.Call("remind", nil)
					}
					return agenttest.Answer{Text: "To " + last + ": one two three.", Pace: 2 * time.Second}
				}),
				Runtime: actors.Options{Outbox: outbox.Routes{Targets: map[string]outbox.Target{"channels.bot": channels.StreamedReplies(places, 1000)}}},
			})
			deliver := func(id, address, text string) {
				t.Helper()
				d := channels.Delivery{
					Channel: "bot", Agent: "desk", InstanceID: "shared", DeliveryID: id, Text: text, Notify: "channels.bot", ReplyAddress: address,
				}
				if _, err := channels.Deliver(t.Context(), h.Runtime(), d); err != nil {
					t.Fatal(err)
				}
			}
			deliver("1", "a", "Ann")
			deliver("2", "b", "Ben")
			deliver("3", "b", "Remind")
			if crash > 0 {
				time.Sleep(crash)
				h.Crash()
			}
			caller := client.Message{Body: "Eve", Key: "channel:bot:1"}
			if _, err := h.Conversation("desk", "shared").Send(t.Context(), caller); err == nil {
				t.Error("key of a delivery with another message: got no error, want one")
			}
			if _, err := h.Conversation("desk", "shared").Settle(client.Message{Body: "Eve"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			m := agent.Text("?")
			m.Notify = "channels.bot"
			_, err := h.Runtime().Dispatch(t.Context(), conversation.Address{Agent: "desk", ID: "shared"}, m)
			if err == nil || !strings.Contains(err.Error(), "several reply addresses") {
				t.Errorf("dispatch without an address: got %v, want an error", err)
			}
			places.mu.Lock()
			defer places.mu.Unlock()
			for address, want := range map[string][]string{"a": {"Ann:"}, "b": {"Ben:", "Done.:", "Reminder.:"}} {
				var whole []string
				for _, text := range places.shown[address] {
					if !strings.HasSuffix(text, "…") {
						whole = append(whole, strings.Fields(text)[1])
					}
				}
				if !slices.Equal(whole, want) || len(whole) == len(places.shown[address]) {
					t.Errorf("crash after %s: %s: got %q, want replies to %q and drafts", crash, address, places.shown[address], want)
				}
			}
			for address, texts := range places.shown {
				all := strings.Join(texts, " ")
				if address != "a" && address != "b" || strings.Contains(all, "Ann") != (address == "a") || strings.Contains(all, "Eve") {
					t.Errorf("crash after %s: %s: got %q", crash, address, texts)
				}
			}
		})
	}
}

func lastOf(r agenttest.Request) string {
	b, _ := json.Marshal(r.Messages[len(r.Messages)-1])
	for _, text := range []string{"Reminder.", "Remind", "Ann", "Ben", "Eve", "Done."} {
		if strings.Contains(string(b), text) {
			return text
		}
	}
	return "?"
}
