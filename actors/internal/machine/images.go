package machine

import "github.com/parleyrun/parley/conversation"

// omittedImages lists the images that model calls omit because a vendor refused them, in addition to those
// the state has as refused.
type omittedImages struct {
	images   []conversation.AttachmentID // never changed in place
	answered int                         // how many of them were missing when a model answered
	times    int                         // how often the call under way omitted more
}

// reset restores the images that no model has answered without: another model is called, or the
// failure had another cause.
func (b *omittedImages) reset() { b.images, b.times = b.images[:b.answered:b.answered], 0 }

// omitImages repeats a refused model call, first without the first of its images, then without all. It
// reports whether it did.
func (m *Machine) omitImages(w *work, e ModelEvent) bool {
	b := &w.omitted
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

// omittedRecord returns the record of the images that the answering model was not shown.
func (m *Machine) omittedRecord(w *work, model string) []conversation.Record {
	b := &w.omitted
	refused := b.images[b.answered:]
	b.answered, b.times = len(b.images), 0
	if len(refused) == 0 {
		return nil
	}
	refused = refused[max(0, len(refused)-conversation.MaxRefused):]
	return []conversation.Record{&conversation.ImagesRefused{Must: true, Attachments: refused, Model: model, At: m.env.Wall}}
}
