package conversation

// textBuffer is the text of a part. It is held as bytes while it grows, and as a string afterwards, so
// complete text is never copied.
type textBuffer struct {
	whole string
	grown []byte // replaces whole while text is added
}

func (w *textBuffer) len() int { return len(w.whole) + len(w.grown) }

func (w *textBuffer) add(text string) {
	if w.whole != "" {
		w.grown, w.whole = append(make([]byte, 0, w.len()+len(text)), w.whole...), ""
	}
	w.grown = append(w.grown, text...)
}

// end marks the text as complete for now.
func (w *textBuffer) end() { w.whole, w.grown = w.String(), nil }

// String returns the text. It changes nothing, so concurrent calls are safe.
func (w *textBuffer) String() string {
	if w.grown != nil {
		return string(w.grown)
	}
	return w.whole
}
