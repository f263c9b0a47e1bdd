package machine

import "github.com/parleyrun/parley/conversation"

// called records a call of the model.
func (m *Machine) called(w *work, id conversation.MessageID, e ModelEvent) {
	w.signed = 0
	records := []conversation.Record{&conversation.ToolCalled{
		Message: id, Child: w.child, Call: conversation.CallID(m.ids.next("call_")), ProviderCall: e.ProviderCall,
		Name: e.Name, Input: e.Input, Durable: e.Durable, At: m.env.Wall,
	}}
	if e.Signature != "" && m.allRead(conversation.TypePartSigned) {
		call := records[0].(*conversation.ToolCalled).Call
		records = append(records, &conversation.PartSigned{Must: true, Message: id, Child: w.child, Call: call, Signature: e.Signature})
	}
	m.enqueue(true, records...)
}

// sign records what the vendor wants back with what it has said, or in its place.
func (m *Machine) sign(w *work, id conversation.MessageID, e ModelEvent) {
	if e.Text == "" {
		return
	}
	if !m.allRead(conversation.TypePartSigned) {
		m.signLast(w, id, e)
		return
	}
	w.speaks = ModelSignature // whatever comes next is another part
	if m.mayStill(w, conversation.PartBytes+len(e.Text)) {
		m.enqueue(false, &conversation.PartSigned{Must: true, Message: id, Child: w.child, Kind: e.Part, Signature: e.Text})
	}
}

// signLast signs the reasoning under way, for nodes that know no more than that.
// They take reasoning in a row for one part: with the signature of either half its
// vendor would refuse it, so it has none then and is not shown to the model again.
func (m *Machine) signLast(w *work, id conversation.MessageID, e ModelEvent) {
	if e.Part != conversation.PartReasoning || w.speaks != ModelReasoning || !m.mayStill(w, conversation.PartBytes+len(e.Text)) {
		return
	}
	signature := e.Text
	if w.signed++; w.signed > 1 {
		signature = ""
	}
	m.enqueue(false, &conversation.PartDone{Message: id, Child: w.child, Signature: signature})
}
