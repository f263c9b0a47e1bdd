package events

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// TestRecoveryNamesTheConversation: events of recovery have agent and instance where the log could not be read, if an
// admission, or an earlier activation on the node, had them.
func TestRecoveryNamesTheConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []observability.Envelope
		f := New(Options{Logger: slog.New(slog.DiscardHandler), Content: func(string) bool { return false }, Observers: []observability.Sink{
			&observability.Callbacks{Any: func(e observability.Event) { got = append(got, e.Envelope) }},
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		f.Run(ctx, &wg, func() {})
		created := &conversation.ConversationCreated{Agent: "chat", ID: "opened"}
		opened, asked, lost := f.Tap(created.Address().Key()), f.Tap("asked"), f.Tap("lost")
		opened.Opened(created, -1, -1, nil)
		asked.Asked(conversation.Address{Agent: "chat", ID: "asked"})
		lost.Landed(conversation.Batch{Records: []conversation.Record{&conversation.ConversationCreated{Agent: "chat", ID: "lost"}}})
		want := []string{"opened", "asked", "lost", "opened", "asked", "lost", ""}
		for _, tap := range []*Tap{opened, asked, lost, f.Tap(opened.key), f.Tap("asked"), f.Tap("lost"), f.Tap("unknown")} {
			tap.Recovery("sub_1", &observability.SubmissionRecovery{Operation: observability.RecoveryProcess})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		var recoveries []observability.Envelope
		for _, e := range got {
			if e.Type == (&observability.SubmissionRecovery{}).EventType() {
				recoveries = append(recoveries, e)
			}
		}
		if len(recoveries) != len(want) {
			t.Fatalf("got %d events of recovery, want %d", len(recoveries), len(want))
		}
		for i, e := range recoveries {
			if e.Instance != want[i] || (e.Agent == "chat") != (want[i] != "") {
				t.Errorf("event %d: got agent %q, instance %q, want chat, %q", i, e.Agent, e.Instance, want[i])
			}
		}
	})
}

// TestAddressesAreBounded: a node remembers few addresses, and always the last one.
func TestAddressesAreBounded(t *testing.T) {
	var a addresses
	for i := range 3 * maxAddresses {
		key := conversation.Key(rune(i))
		a.put(key, conversation.Address{Agent: "chat", ID: string(key)})
		if got := a.get(key).ID; len(a.list) > maxAddresses || got != string(key) {
			t.Fatalf("address %d: got %q, want %q, and %d of them, want at most %d", i, got, key, len(a.list), maxAddresses)
		}
	}
}
