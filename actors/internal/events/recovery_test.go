package events

import (
	"context"
	"fmt"
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
		f := New(Options{Logger: slog.New(slog.DiscardHandler), Addresses: NewAddresses(), Content: func(string) bool { return false }, Observers: []observability.Sink{
			&observability.Callbacks{Any: func(e observability.Event) { got = append(got, e.Envelope) }},
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		f.Run(ctx, &wg, func() {})
		key := func(id string) conversation.Key { return conversation.Address{Agent: "chat", ID: id}.Key() }
		created := &conversation.ConversationCreated{Agent: "chat", ID: "opened"}
		opened, asked, lost := f.Tap(created.Address().Key()), f.Tap(key("asked")), f.Tap(key("lost"))
		opened.Opened(created, -1, -1, nil)
		asked.Asked(conversation.Address{Agent: "chat", ID: "asked"})
		lost.Landed(conversation.Batch{Records: []conversation.Record{&conversation.ConversationCreated{Agent: "chat", ID: "lost"}}})
		want := []string{"opened", "asked", "lost", "opened", "asked", "lost", ""}
		for _, tap := range []*Tap{opened, asked, lost, f.Tap(opened.key), f.Tap(key("asked")), f.Tap(key("lost")), f.Tap(key("unknown"))} {
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

// TestAddressesAreBounded adds more addresses than fit: recent ones stay known, and the others are dropped.
func TestAddressesAreBounded(t *testing.T) {
	a := NewAddresses()
	at := func(i int) conversation.Address { return conversation.Address{Agent: "a", ID: fmt.Sprint(i)} }
	for i := range 3*maxAddresses + 1 {
		a.Put(at(i))
	}
	for i, want := range map[int]bool{0: false, 2*maxAddresses - 1: false, 2 * maxAddresses: true, 3 * maxAddresses: true} {
		if got, ok := a.Get(at(i).Key()); ok != want || ok && got != at(i) {
			t.Errorf("got %v, %t for address %d of %d, want known %t", got, ok, i, 3*maxAddresses+1, want)
		}
	}
	if got := len(a.newer) + len(a.older); got > 2*maxAddresses {
		t.Errorf("got %d addresses, want at most %d", got, 2*maxAddresses)
	}
}
