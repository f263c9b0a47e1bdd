package conversation

// words is the text of a part. As long as it grows it is kept in bytes, and as a string
// from then on: text that comes whole is never copied.
type words struct {
	whole string
	grown []byte // in place of whole, while text is added
}

func (w *words) len() int { return len(w.whole) + len(w.grown) }

// add adds text.
func (w *words) add(text string) {
	if w.whole != "" {
		w.grown, w.whole = append(make([]byte, 0, w.len()+len(text)), w.whole...), ""
	}
	w.grown = append(w.grown, text...)
}

// end says that nothing will be added soon.
func (w *words) end() { w.whole, w.grown = w.String(), nil }

// String returns the text. It changes nothing, so that several may ask.
func (w *words) String() string {
	if w.grown != nil {
		return string(w.grown)
	}
	return w.whole
}
