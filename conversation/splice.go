package conversation

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

const (
	// longText is the size in bytes from which a text is spliced into encoded output.
	longText = 64 << 10
	// textMark and a number replace a long text until then. If other text contains a mark, the value
	// is encoded whole.
	textMark = "long text "
)

// splice replaces long texts and long JSON by marks, because an encoder makes several copies of its
// input. It inserts them into the encoded output afterwards. The zero value is ready; nil marks
// nothing.
type splice struct{ long []longValue }

type longValue struct {
	text string
	json json.RawMessage
}

// mark returns a text, or its mark if it is long.
func (s *splice) mark(text string) string {
	if s == nil || len(text) < longText {
		return text
	}
	s.long = append(s.long, longValue{text: text})
	return textMark + strconv.Itoa(len(s.long)-1)
}

// markJSON returns JSON, or its mark if it is long.
func (s *splice) markJSON(raw json.RawMessage) json.RawMessage {
	if s == nil || len(raw) < longText {
		return raw
	}
	s.long = append(s.long, longValue{json: raw})
	return appendString(nil, textMark+strconv.Itoa(len(s.long)-1))
}

// append appends the encoded output to dst, with the long values in place of marks. It reports false
// and appends nothing if the marks are ambiguous, or for invalid JSON.
func (s *splice) append(dst, encoded []byte) ([]byte, bool) {
	const open = `"` + textMark
	if bytes.Count(encoded, []byte(textMark)) != len(s.long) {
		return dst, false
	}
	size := len(encoded)
	for _, v := range s.long {
		size += len(v.json) + TextBytes(v.text)
	}
	out := slices.Grow(dst, size)
	for range s.long {
		before, after, found := bytes.Cut(encoded, []byte(open))
		number, after, closed := bytes.Cut(after, []byte{'"'})
		i, err := strconv.Atoi(string(number))
		if !found || !closed || err != nil || i < 0 || i >= len(s.long) {
			return dst, false
		}
		out, encoded = append(out, before...), after
		if out, err = s.long[i].appendTo(out); err != nil {
			return dst, false
		}
	}
	return append(out, encoded...), true
}

// appendTo appends the compact JSON form of the value.
func (v longValue) appendTo(dst []byte) ([]byte, error) {
	if v.json == nil {
		return appendString(dst, v.text), nil
	}
	out := bytes.NewBuffer(dst)
	err := json.Compact(out, v.json)
	return out.Bytes(), err
}

// appendSpliced appends the JSON form of form's result. form marks its long values, and gets nil if
// marks cannot be used.
func appendSpliced(dst []byte, form func(*splice) any) ([]byte, error) {
	var s splice
	v := form(&s)
	if len(s.long) == 0 {
		return appendJSON(dst, v)
	}
	encoded, err := appendJSON(nil, v)
	if err != nil {
		return dst, err
	}
	if out, ok := s.append(dst, encoded); ok {
		return out, nil
	}
	return appendJSON(dst, form(nil))
}

func appendMessage(dst []byte, m Message) ([]byte, error) {
	return appendSpliced(dst, func(s *splice) any {
		short := m
		short.Parts = slices.Clone(m.Parts)
		for i := range short.Parts {
			p := &short.Parts[i]
			if p.Text != nil {
				p.Text = new(s.mark(*p.Text))
			}
			p.Data, p.Input, p.Output = s.markJSON(p.Data), s.markJSON(p.Input), s.markJSON(p.Output)
		}
		return short
	})
}

// markTurns marks the long values of copies of turns.
func (s *splice) markTurns(turns []Turn) []Turn {
	for _, t := range turns {
		for i := range t.Parts {
			p := &t.Parts[i]
			p.Text = s.mark(p.Text)
			if p.Tool != nil {
				p.Tool.Input, p.Tool.Output = s.markJSON(p.Tool.Input), s.markJSON(p.Tool.Output)
			}
		}
	}
	return turns
}

// withoutText returns a copy of the record with a mark in place of a long text or output.
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
	case *ToolSettled:
		if len(r.Output) >= longText {
			short := *r
			short.Output = s.markJSON(r.Output)
			return &short
		}
	case *StepRecorded:
		if len(r.Output) >= longText {
			short := *r
			short.Output = s.markJSON(r.Output)
			return &short
		}
	}
	return r
}
