package providers

import (
	"encoding/base64"
	"iter"
	"slices"
)

// noRoomText replaces an image that exceeds the limits of a request.
const noRoomText = "(An older image was left out here: this model takes no more of them in one request.)"

// otherShare is the divisor of the request bytes reserved for everything except messages: system text,
// tools, member names, escapes.
const otherShare = 8

// Fit returns a request without the images that exceed m.InputLimits, oldest first, each replaced by a
// sentence. A new image, after the last assistant message, is removed only if it exceeds the limit by
// itself.
//
// The decision for a message depends only on the messages before it, so a longer request omits the
// same images as before. When a limit is exceeded, the oldest images are removed until half of the
// limit is free. The beginning of requests thus changes once for many images, which preserves the
// vendor's prompt cache.
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

// fitting selects the images of a request to remove.
type fitting struct {
	rules  imageRules
	limits InputLimits

	gone  []bool // by image, in order
	left  []seen // images that remain and that the model accepts
	bytes int64  // total bytes of left
	text  int64  // text bytes so far
	fresh int    // number of images before the new messages
}

// seen is an image in the request: its index, and its size in bytes of base64.
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

// makeRoom removes the oldest images if there are too many, or too many bytes of them.
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

// drop removes n images, beginning at from.
func (f *fitting) drop(from, n int) {
	for _, s := range f.left[from : from+n] {
		f.gone[s.place] = true
		f.bytes -= s.size
	}
	f.left = slices.Delete(f.left, from, from+n)
}

// encoded returns the size of an image in a request, in bytes.
func (i Image) encoded() int64 {
	if i.Content == nil {
		return 0
	}
	return int64(base64.StdEncoding.EncodedLen(int(i.Content.Size())))
}

// Images returns the images of a message in order, including those of tool results.
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

// withoutImages returns messages without the images marked in gone.
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
