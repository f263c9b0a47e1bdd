package openairesponses

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parleyrun/parley/providers/sse"
)

// Types of items.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemResult    = "function_call_output"
)

// itemBytes is the approximate overhead of an item in addition to its text.
const itemBytes = 256

// item is one item of the output while it arrives.
type item struct {
	kind, id  string
	callID    string // call
	ended     bool
	matched   bool            // also in the output of the last event
	early     bool            // its first delta preceded its start
	sure      bool            // an event other than its start had its id
	call      int             // call: index in the Assembler
	started   bool            // call
	held      strings.Builder // call: arguments before it was started
	whole     bool            // call: its arguments have ended
	assistant int             // bytes emitted
	parts     map[int]int     // bytes emitted by part
	piece     int             // reasoning: number of the current piece
	begun     int             // reasoning: value of decoder.seen at its start
	text      string          // final text of an item that has ended without an id
}

// items are the items of a response. Some servers give two items the same number, give one item
// several ids, or omit either.
type items struct {
	all []*item
	// byID also contains items by call id, prefixed by callPrefix.
	byID map[string]*item
	// byPlace and open contain the latest item of a kind.
	byPlace map[place]*item
	open    map[string]*item
}

type place struct {
	index int
	kind  string
}

const callPrefix = "call:"

func newItems() items {
	return items{byID: map[string]*item{}, byPlace: map[place]*item{}, open: map[string]*item{}}
}

// known returns the item of a kind that has one of the ids, or nil.
func (s *items) known(kind, id, callID string) *item {
	for _, key := range []string{id, callPrefix + callID} {
		if i := s.byID[key]; i != nil && i.kind == kind && key != callPrefix {
			return i
		}
	}
	return nil
}

// find returns the item of an event, or nil if it is new. An unknown id may be another id of the item
// at the same index, unless that item's id is confirmed.
func (s *items) find(kind string, index *int, id string) *item {
	if i := s.known(kind, id, ""); i != nil {
		i.sure = true
		return i
	}
	i := s.open[kind]
	if index != nil {
		i = s.byPlace[place{*index, kind}]
	}
	if i == nil || id != "" && i.id != "" && (i.sure || i.ended) {
		return nil
	}
	return i
}

func (s *items) add(i *item, index *int) {
	s.all = append(s.all, i)
	s.open[i.kind] = i
	if index != nil {
		s.byPlace[place{*index, i.kind}] = i
	}
	s.name(i, i.id, i.callID)
}

// name adds missing ids to an item.
func (s *items) name(i *item, id, callID string) {
	if i.id == "" {
		i.id = id
	}
	if i.callID == "" {
		i.callID = callID
	}
	if id != "" {
		s.byID[id] = i
	}
	if callID != "" {
		s.byID[callPrefix+callID] = i
	}
}

// itemJSON is an item in the vendor's format, at its start or end.
type itemJSON struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Phase     string          `json:"phase"`
	Encrypted string          `json:"encrypted_content"`
	Summary   []piece         `json:"summary"`
	Content   []partJSON      `json:"content"`
}

// partJSON is a part of the content of an item.
type partJSON struct {
	Type    string          `json:"type"`
	Text    json.RawMessage `json:"text"`
	Refusal json.RawMessage `json:"refusal"`
}

func (p partJSON) assistant() (string, error) {
	text, err := sse.Text(p.Text)
	if err != nil {
		return "", err
	}
	refusal, err := sse.Text(p.Refusal)
	return text + refusal, err
}

func (d *decoder) readItem(raw json.RawMessage) (j itemJSON, err error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := d.inner.Field("item", raw, &head); err != nil {
		return j, err
	}
	switch j.Type = head.Type; head.Type {
	case itemMessage, itemReasoning, itemCall:
		err = d.inner.Field("item", raw, &j)
	}
	return j, err // content of other types is not decoded
}

// text returns the text of an item.
func (j *itemJSON) text() string {
	var out strings.Builder
	for _, c := range j.Content {
		s, _ := c.assistant() // parts of other types have no text
		out.WriteString(s)
	}
	for _, p := range j.Summary {
		out.WriteString(p.Text)
	}
	return out.String()
}

func (d *decoder) added(index *int, raw json.RawMessage) error {
	j, err := d.readItem(raw)
	if err != nil {
		return err
	}
	_, err = d.open(index, &j)
	return err
}

// open returns the item that begins. It may already exist, after an early delta or a repeated start.
func (d *decoder) open(index *int, j *itemJSON) (*item, error) {
	i := d.items.known(j.Type, j.ID, withoutPlace(index, j.CallID))
	if i == nil && index != nil {
		i = d.items.byPlace[place{*index, j.Type}]
		if i != nil && !i.early && (i.ended || j.ID != "" && j.ID != i.id || j.CallID != i.callID) {
			i = nil
		}
	}
	if i == nil {
		i = d.begin(index, j.Type, j.ID, j.CallID)
	}
	i.early = false
	d.items.name(i, j.ID, j.CallID)
	if i.kind != itemCall || i.ended {
		return i, nil
	}
	d.startCall(i, j.Name)
	return i, d.restOfArguments(i, j.Arguments)
}

// withoutPlace returns the call id if the item has no index. Calls at different indexes may share an
// id.
func withoutPlace(index *int, callID string) string {
	if index != nil {
		return ""
	}
	return callID
}

// begin adds an item.
func (d *decoder) begin(index *int, kind, id, callID string) *item {
	i := &item{kind: kind, id: id, callID: callID, begun: d.seen}
	if !d.out.Hold(itemBytes) {
		return i
	}
	d.items.add(i, index)
	switch kind {
	case itemMessage:
		if d.adjacent { // separate two messages
			d.out.EndText(signature(assistant{}))
		}
		d.adjacent = false
	case itemReasoning, itemCall:
		d.adjacent = false
	}
	return i
}

// startCall starts a call once its name is known.
func (d *decoder) startCall(i *item, name string) {
	if i.started || d.out.Stopped() {
		return
	}
	d.seen++
	i.started, i.call = true, d.out.StartCall(i.callID, name)
	if !d.out.Stopped() {
		d.out.CallArguments(i.call, i.held.String())
	}
	i.held.Reset()
}

func (d *decoder) itemDone(index *int, raw json.RawMessage) error {
	j, err := d.readItem(raw)
	if err != nil {
		return err
	}
	i := d.items.known(j.Type, j.ID, withoutPlace(index, j.CallID))
	if i == nil {
		i = d.items.find(j.Type, index, "")
		if i != nil && (i.ended && !i.repeats(&j) || i.sure && j.ID != "") {
			i = nil
		}
	}
	return d.complete(i, index, &j)
}

// repeats reports whether j is this item, which has ended before.
func (i *item) repeats(j *itemJSON) bool {
	if i.id != "" && j.ID != "" {
		return false
	}
	return i.kind == itemCall || i.text == j.text()
}

// complete ends an item; i is nil for a new item.
func (d *decoder) complete(i *item, index *int, j *itemJSON) (err error) {
	switch {
	case i == nil:
		if i, err = d.open(index, j); err != nil {
			return err
		}
	case i.ended:
		return nil
	case i.kind == itemCall:
		d.items.name(i, j.ID, j.CallID)
		d.startCall(i, j.Name)
	}
	if i.kind == itemCall {
		if err := d.restOfArguments(i, j.Arguments); err != nil {
			return err
		}
	}
	i.ended = true
	if d.items.open[i.kind] == i {
		delete(d.items.open, i.kind)
	}
	if i.text = j.text(); !d.out.Hold(len(i.text)) {
		return nil
	}
	switch i.kind {
	case itemMessage:
		return d.messageDone(i, j)
	case itemReasoning:
		return d.reasoningDone(i, j)
	case itemCall:
		d.out.EndCall(i.call, "")
	}
	return nil
}

// rest reads the output of the last event, for servers that stream items partly or not at all.
// Streamed items are matched by id, by index, or by kind.
func (d *decoder) rest(output []json.RawMessage) error {
	read := make([]itemJSON, len(output))
	of := make([]*item, len(output))
	for n, raw := range output {
		var err error
		if read[n], err = d.readItem(raw); err != nil {
			return err
		}
		if i := d.items.known(read[n].Type, read[n].ID, read[n].CallID); i != nil && !i.matched {
			of[n], i.matched = i, true
		}
	}
	for n := range read {
		j := &read[n]
		if of[n] == nil {
			of[n] = d.streamed(n, j.Type)
		}
		if err := d.complete(of[n], &n, j); err != nil {
			return err
		}
	}
	return nil
}

// streamed returns an unmatched streamed item of a kind, preferably that at the index.
func (d *decoder) streamed(index int, kind string) *item {
	i := d.items.byPlace[place{index, kind}]
	if i == nil || i.matched {
		n := slices.IndexFunc(d.items.all, func(i *item) bool { return i.kind == kind && !i.matched })
		if n < 0 {
			return nil
		}
		i = d.items.all[n]
	}
	i.matched = true
	return i
}

// emitText emits a fragment of a message part.
func (d *decoder) emitText(i *item, number int, s string) {
	if s != "" {
		d.seen++
		i.emit(number, len(s))
		d.out.Text(s)
	}
}

func (i *item) emit(number, n int) {
	if i.parts == nil {
		i.parts = map[int]int{}
	}
	i.parts[number] += n
	i.assistant += n
}

// unsaid returns the text of a part that was not emitted.
func (i *item) unsaid(number int, whole string) string {
	return whole[min(i.parts[number], len(whole)):]
}

func (d *decoder) messageDone(i *item, j *itemJSON) error {
	for n, c := range j.Content {
		s, err := c.assistant()
		if err != nil {
			return err
		}
		if i.assistant < len(i.text) {
			d.emitText(i, n, i.unsaid(n, s))
		}
	}
	if j.Phase != "" {
		d.out.EndText(signature(assistant{Phase: j.Phase}))
		return nil
	}
	d.adjacent = i.assistant > 0
	return nil
}

// think emits a fragment of a reasoning paragraph.
func (d *decoder) think(i *item, number int, s string) {
	if s == "" {
		return
	}
	between := ""
	if number != i.piece && i.assistant > 0 {
		between = paragraph
	}
	i.piece = number
	i.emit(number, len(s))
	i.assistant += len(between)
	s = between + s
	d.out.Reasoning(s, "")
}

// reasoningDone closes reasoning with its signature. It cannot be replayed without one, or if another
// part came before its end.
func (d *decoder) reasoningDone(i *item, j *itemJSON) error {
	t := thought{Encrypted: j.Encrypted}
	var texts []string
	for _, p := range j.Summary {
		texts = append(texts, p.Text)
		t.Summary = append(t.Summary, len(p.Text))
	}
	if len(texts) == 0 {
		for _, c := range j.Content {
			s, err := c.assistant()
			if err != nil {
				return err
			}
			texts = append(texts, s)
			t.Content = append(t.Content, len(s))
		}
	}
	whole := strings.Join(texts, paragraph)
	if i.assistant == 0 && whole != "" {
		i.assistant = len(whole)
		d.out.Reasoning(whole, "")
	}
	if j.Encrypted == "" || i.assistant != len(whole) || d.seen != i.begun {
		d.out.EndReasoning("")
		return nil
	}
	d.out.EndReasoning(signature(t))
	return nil
}

func (d *decoder) arguments(i *item, s string) {
	if i.ended || d.out.Stopped() {
		return
	}
	i.assistant += len(s)
	if i.started {
		d.out.CallArguments(i.call, s)
	} else if d.out.Hold(len(s)) {
		i.held.WriteString(s)
	}
}

// restOfArguments emits the arguments of a call that the deltas did not contain. They are a text or an
// object.
func (d *decoder) restOfArguments(i *item, raw json.RawMessage) error {
	whole := string(raw)
	if !sse.Given(raw) {
		return nil
	}
	if raw[0] == '"' {
		var err error
		if whole, err = sse.Text(raw); err != nil {
			return err
		}
	}
	if len(whole) > i.assistant {
		d.arguments(i, whole[i.assistant:])
	}
	return nil
}
