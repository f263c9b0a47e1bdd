package conversation

import (
	"bytes"
	"slices"
	"strconv"
)

const (
	// longText is from when on, in bytes, a text is spliced into what was encoded without it.
	longText = 64 << 10
	// textMark and a number stand for a long text until then. Where others say it too, what
	// they say is encoded whole.
	textMark = "long text "
)

// splice keeps long texts from an encoder, which makes several copies of what it is given,
// and puts them into what it has made. Its zero value is ready.
type splice struct{ texts []string }

// mark returns a text, or what stands for it.
func (s *splice) mark(text string) string {
	if len(text) < longText {
		return text
	}
	s.texts = append(s.texts, text)
	return textMark + strconv.Itoa(len(s.texts)-1)
}

// append appends what was encoded with marks to dst, with the texts in their place. The
// marks come in the order in which they were made. It reports false, and appends nothing,
// where they cannot be told from words of others.
func (s *splice) append(dst, encoded []byte) ([]byte, bool) {
	if bytes.Count(encoded, []byte(textMark)) != len(s.texts) {
		return dst, false
	}
	size := len(encoded)
	for _, text := range s.texts {
		size += len(text) + len(text)/64 // what has to be escaped is rare
	}
	out := slices.Grow(dst, size)
	for i, text := range s.texts {
		before, after, ok := bytes.Cut(encoded, appendString(nil, textMark+strconv.Itoa(i)))
		if !ok {
			return dst, false
		}
		out = appendString(append(out, before...), text)
		encoded = after
	}
	return append(out, encoded...), true
}

// appendMessage appends the JSON form of a message.
func appendMessage(dst []byte, m Message) ([]byte, error) {
	var s splice
	short := m
	short.Parts = slices.Clone(m.Parts)
	for i, p := range short.Parts {
		if p.Text != nil {
			short.Parts[i].Text = new(s.mark(*p.Text))
		}
	}
	if len(s.texts) == 0 {
		return appendJSON(dst, m)
	}
	encoded, err := appendJSON(nil, short)
	if err != nil {
		return dst, err
	}
	if out, ok := s.append(dst, encoded); ok {
		return out, nil
	}
	return appendJSON(dst, m)
}

// withoutText returns a record with a mark in the place of its long text, if it has one.
func (s *splice) withoutText(r Record) Record {
	switch r := r.(type) {
	case *Delta:
		if len(r.Text) >= longText {
			short := *r
			short.Text = s.mark(r.Text)
			return &short
		}
	case *SubmissionAdmitted:
		if len(r.Delivery.Body) >= longText {
			short := *r
			short.Delivery.Body = s.mark(r.Delivery.Body)
			return &short
		}
	}
	return r
}
