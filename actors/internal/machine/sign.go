package machine

import "github.com/parleyrun/parley/conversation"

func (m *Machine) called(w *work, id conversation.MessageID, e ModelEvent) {
	call := conversation.CallID(m.ids.next("call_"))
	records := []conversation.Record{&conversation.ToolCalled{
		Message: id, Child: w.child, Call: call, ProviderCall: e.ProviderCall,
		Name: e.Name, Input: e.Input, Durable: e.Durable, At: m.env.Wall,
	}}
	if e.Signature != "" {
		records = append(records, &conversation.PartSigned{Must: true, Message: id, Child: w.child, Call: call, Signature: e.Signature})
	}
	m.enqueue(true, records...)
}

// sign records a vendor signature of the previous part, or of none.
func (m *Machine) sign(w *work, id conversation.MessageID, e ModelEvent) {
	if e.Text == "" {
		return
	}
	w.partKind = ModelSignature // The next event starts another part.
	if m.countBytes(w, conversation.PartBytes+len(e.Text)) {
		m.enqueue(false, &conversation.PartSigned{Must: true, Message: id, Child: w.child, Kind: e.Part, Signature: e.Text})
	}
}
