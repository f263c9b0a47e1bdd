package providers

import (
	"encoding/base64"
	"iter"
	"slices"
)

// noRoomText stands for an image for which a request has no room.
const noRoomText = "(An older image was left out here: this model takes no more of them in one request.)"

// otherShare is the part of a request's bytes that is for what is no message, and for what
// encoding adds: system text, tools, names of members, escapes.
const otherShare = 8

// Fit returns a request without the images for which m.InputLimits leave no room, the oldest
// first, with a sentence in the place of each. What is new, after the last assistant message,
// loses one only if it is too much by itself.
//
// Each message is judged by what stands before it, so that a request that has grown leaves
// out what it left out before. Where there is too much, so many of the oldest images go
// that half of the room is free again: the beginning of requests changes once for many
// images, and not with each, and vendors find the others in their caches.
func Fit(m Model, req Request) Request {
	f := fitting{rules: imagesFor(m), limits: m.InputLimits}
	if l := m.InputLimits; !f.rules.taken() || l.Images == 0 && l.ImagesPerMessage == 0 && l.RequestBytes == 0 {
		return req
	}
	for _, b := range req.History {
		f.add(b.messages)
	}
	f.add(req.Messages)
	if !slices.Contains(f.gone, true) {
		return req
	}
	history, gone := slices.Clone(req.History), f.gone
	for i, b := range history {
		n := countImages(b.messages)
		history[i], gone = b.without(gone[:n:n]), gone[n:]
	}
	req.History, req.Messages = history, withoutImages(req.Messages, gone)
	return req
}

// fitting decides which images of a request go.
type fitting struct {
	rules  imageRules
	limits InputLimits

	gone  []bool // of all images so far
	left  []seen // those that stay, of those that are images to the model
	bytes int64  // of left
	text  int64  // bytes so far
	fresh int    // how many images stand before what is new
}

// seen is an image that the model is sent: its place, and its size in bytes of base64.
type seen struct {
	place int
	size  int64
}

func (f *fitting) add(messages []Message) {
	for i, m := range messages {
		if m.Role == RoleAssistant {
			f.fresh = len(f.gone)
		}
		f.text += int64(TextBytes(messages[i : i+1]))
		before := len(f.left)
		for image := range m.Images() {
			if _, ok := f.rules.show(image).(Image); ok {
				f.left = append(f.left, seen{len(f.gone), image.encoded()})
				f.bytes += image.encoded()
			}
			f.gone = append(f.gone, false)
		}
		if most := f.limits.ImagesPerMessage; most > 0 {
			f.drop(before, max(len(f.left)-before-most, 0))
		}
		f.makeRoom()
	}
}

// makeRoom lets the oldest images go if there are too many, or too many bytes of them.
func (f *fitting) makeRoom() {
	fresh, freshBytes := 0, int64(0)
	for i := len(f.left) - 1; i >= 0 && f.left[i].place >= f.fresh; i-- {
		fresh, freshBytes = fresh+1, freshBytes+f.left[i].size
	}
	if most := f.limits.Images; most > 0 && len(f.left) > most {
		f.drop(0, len(f.left)-max(most/2, min(most, fresh)))
	}
	room := max(f.limits.RequestBytes-f.limits.RequestBytes/otherShare-f.text, 0)
	if f.limits.RequestBytes == 0 || f.bytes <= room {
		return
	}
	for keep := max(room/2, min(room, freshBytes)); f.bytes > keep; {
		f.drop(0, 1)
	}
}

// drop lets n images go, from one on.
func (f *fitting) drop(from, n int) {
	for _, s := range f.left[from : from+n] {
		f.gone[s.place] = true
		f.bytes -= s.size
	}
	f.left = slices.Delete(f.left, from, from+n)
}

// encoded is the size of an image in a request, in bytes.
func (i Image) encoded() int64 {
	if i.Content == nil {
		return 0
	}
	return int64(base64.StdEncoding.EncodedLen(int(i.Content.Size())))
}

// Images are the images of a message in order, those of results included.
func (m Message) Images() iter.Seq[Image] {
	return func(yield func(Image) bool) {
		for _, p := range m.Parts {
			parts := []Part{p}
			if r, ok := p.(ToolResult); ok {
				parts = r.Content
			}
			for _, p := range parts {
				if i, ok := p.(Image); ok && !yield(i) {
					return
				}
			}
		}
	}
}

func countImages(messages []Message) (n int) {
	for _, m := range messages {
		for range m.Images() {
			n++
		}
	}
	return n
}

// withoutImages returns messages without some of their images, which are in order.
func withoutImages(messages []Message, gone []bool) []Message {
	if !slices.Contains(gone, true) {
		return messages
	}
	out := slices.Clone(messages)
	for i := range out {
		out[i].Parts = partsWithout(out[i].Parts, &gone)
	}
	return out
}

func partsWithout(parts []Part, gone *[]bool) []Part {
	out := slices.Clone(parts)
	for i, p := range out {
		switch p := p.(type) {
		case Image:
			if (*gone)[0] {
				out[i] = Text{Text: noRoomText}
			}
			*gone = (*gone)[1:]
		case ToolResult:
			p.Content = partsWithout(p.Content, gone)
			out[i] = p
		}
	}
	return out
}
