package openairesponses

import (
	"encoding/json"
	"strings"
)

// Types of items.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemResult    = "function_call_output"
)

// itemBytes is about what an item takes beside what it says.
const itemBytes = 256

// item is one item of the output while it arrives.
type item struct {
	kind  string
	ended bool
	call  int // of a call: its index
	said  int // bytes that were handed over
	piece int // of reasoning: the number of the piece under way
	begun int // of reasoning: what decoder.seen was
}

// itemJSON is an item as the vendor has it, when it begins or when it is done.
type itemJSON struct {
	Type      string  `json:"type"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
	Phase     string  `json:"phase"`
	Encrypted string  `json:"encrypted_content"`
	Summary   []piece `json:"summary"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

func (j *itemJSON) read(raw json.RawMessage) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	switch j.Type = head.Type; head.Type {
	case itemMessage, itemReasoning, itemCall:
		return json.Unmarshal(raw, j)
	}
	return nil // what others hold is theirs
}

// find returns the item of an index, or the latest that is open.
func (d *decoder) find(index *int) *item {
	if index == nil {
		return d.last
	}
	return d.items[*index]
}

func (d *decoder) added(index *int, raw json.RawMessage) error {
	var j itemJSON
	if err := j.read(raw); err != nil {
		return err
	}
	d.open(index, &j)
	return nil
}

func (d *decoder) open(index *int, j *itemJSON) *item {
	n := len(d.items)
	if index != nil {
		n = *index
	}
	if i := d.items[n]; i != nil {
		return i
	}
	i := &item{kind: j.Type, begun: d.seen}
	d.items[n], d.last = i, i
	if !d.out.Hold(itemBytes) {
		return i
	}
	switch j.Type {
	case itemMessage:
		if d.adjacent { // two messages are not one
			d.out.EndText(signature(said{}))
		}
		d.adjacent = false
	case itemReasoning:
		d.adjacent = false
	case itemCall:
		d.adjacent = false
		d.seen++
		i.call = d.out.StartCall(j.CallID, j.Name)
		d.restOfArguments(i, j.Arguments)
	}
	return i
}

func (d *decoder) itemDone(index *int, raw json.RawMessage) error {
	var j itemJSON
	if err := j.read(raw); err != nil {
		return err
	}
	i := d.find(index)
	if i == nil || i.ended {
		i = d.open(index, &j)
	}
	if i.ended || i.kind != j.Type {
		return nil
	}
	if i.kind == itemCall {
		d.restOfArguments(i, j.Arguments)
	}
	i.ended = true
	if d.last == i {
		d.last = nil
	}
	switch i.kind {
	case itemMessage:
		d.messageDone(i, &j)
	case itemReasoning:
		d.reasoningDone(i, &j)
	case itemCall:
		if !d.out.Stopped() {
			d.out.EndCall(i.call, "")
		}
	}
	return nil
}

func (d *decoder) text(i *item, s string) {
	if s != "" {
		d.seen++
		i.said += len(s)
		d.out.Text(s)
	}
}

func (d *decoder) messageDone(i *item, j *itemJSON) {
	if i.said == 0 {
		for _, c := range j.Content {
			d.text(i, c.Text+c.Refusal)
		}
	}
	if j.Phase != "" {
		d.out.EndText(signature(said{Phase: j.Phase}))
		return
	}
	d.adjacent = i.said > 0
}

// think takes a piece of reasoning, of the paragraph of a number.
func (d *decoder) think(i *item, number int, s string) {
	if s == "" {
		return
	}
	if number != i.piece && i.said > 0 {
		s = paragraph + s
	}
	i.piece = number
	i.said += len(s)
	d.out.Reasoning(s, "")
}

// reasoningDone closes reasoning with what its vendor wants back. Without that, or if
// something else came before its end and so has its place, it cannot go back.
func (d *decoder) reasoningDone(i *item, j *itemJSON) {
	t := thought{Encrypted: j.Encrypted}
	var texts []string
	for _, p := range j.Summary {
		texts = append(texts, p.Text)
		t.Summary = append(t.Summary, len(p.Text))
	}
	if len(texts) == 0 {
		for _, c := range j.Content {
			texts = append(texts, c.Text)
			t.Content = append(t.Content, len(c.Text))
		}
	}
	whole := strings.Join(texts, paragraph)
	if i.said == 0 && whole != "" {
		i.said = len(whole)
		d.out.Reasoning(whole, "")
	}
	if j.Encrypted == "" || i.said != len(whole) || d.seen != i.begun {
		d.out.EndReasoning("")
		return
	}
	d.out.EndReasoning(signature(t))
}

func (d *decoder) arguments(i *item, s string) {
	if i.ended || d.out.Stopped() {
		return
	}
	i.said += len(s)
	d.out.CallArguments(i.call, s)
}

// restOfArguments hands over what the deltas of a call did not say of its arguments.
func (d *decoder) restOfArguments(i *item, whole string) {
	if len(whole) > i.said {
		d.arguments(i, whole[i.said:])
	}
}
