package machine

import "github.com/parleyrun/parley/conversation"

// called records a call of the model.
func (m *Machine) called(r *run, id conversation.MessageID, e ModelEvent) {
	r.signed = 0
	records := []conversation.Record{&conversation.ToolCalled{
		Message: id, Child: r.child, Call: conversation.CallID(m.ids.next("call_")), ProviderCall: e.ProviderCall,
		Name: e.Name, Input: e.Input, Durable: e.Durable, At: m.env.Wall,
	}}
	if e.Signature != "" && m.allRead(conversation.TypePartSigned) {
		call := records[0].(*conversation.ToolCalled).Call
		records = append(records, &conversation.PartSigned{Must: true, Message: id, Child: r.child, Call: call, Signature: e.Signature})
	}
	m.enqueue(true, records...)
}

// sign records what the vendor wants back with what it has said, or in its place.
func (m *Machine) sign(r *run, id conversation.MessageID, e ModelEvent) {
	if e.Text == "" {
		return
	}
	if !m.allRead(conversation.TypePartSigned) {
		m.signLast(r, id, e)
		return
	}
	r.speaks = ModelSignature // whatever comes next is another part
	if m.mayStill(r, conversation.PartBytes+len(e.Text)) {
		m.enqueue(false, &conversation.PartSigned{Must: true, Message: id, Child: r.child, Kind: e.Part, Signature: e.Text})
	}
}

// signLast signs the reasoning under way, for nodes that know no more than that.
// They take reasoning in a row for one part: with the signature of either half its
// vendor would refuse it, so it has none then and is not shown to the model again.
func (m *Machine) signLast(r *run, id conversation.MessageID, e ModelEvent) {
	if e.Part != conversation.PartReasoning || r.speaks != ModelReasoning || !m.mayStill(r, conversation.PartBytes+len(e.Text)) {
		return
	}
	signature := e.Text
	if r.signed++; r.signed > 1 {
		signature = ""
	}
	m.enqueue(false, &conversation.PartDone{Message: id, Child: r.child, Signature: signature})
}
