package machine

import "github.com/parleyrun/parley/conversation"

// bareness is what model calls leave out because a vendor refused what it was
// shown, beyond what the state has as refused.
type bareness struct {
	images []conversation.AttachmentID // never changed in place
	taken  int                         // how many of them a model has answered without
	times  int                         // more were left out of the call under way
}

// forget shows again what no model has answered without: another one is asked, or the call
// failed for another reason.
func (b *bareness) forget() { b.images, b.times = b.images[:b.taken:b.taken], 0 }

// leaveOut repeats a model call whose vendor refused what it was shown: once without the
// first of its images, then without all of them. It reports whether it did.
func (m *Machine) leaveOut(w *work, e ModelEvent) bool {
	b := &w.bare
	if len(e.Images) == 0 || b.times >= 2 {
		return false
	}
	refused := e.Images
	if b.times++; b.times == 1 {
		refused = refused[:e.First]
	}
	b.images = append(b.images[:len(b.images):len(b.images)], refused...)
	m.withdraw(w, e)
	w.repeated++
	m.startCall(w)
	return true
}

// tookWithout records the images that a model has answered without.
func (m *Machine) tookWithout(w *work, model string) []conversation.Record {
	b := &w.bare
	refused := b.images[b.taken:]
	b.taken, b.times = len(b.images), 0
	if len(refused) == 0 {
		return nil
	}
	refused = refused[max(0, len(refused)-conversation.MaxRefused):]
	return []conversation.Record{&conversation.ImagesRefused{Must: true, Attachments: refused, Model: model, At: m.env.Wall}}
}
