package openairesponses

import (
	"encoding/json"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// paragraph separates the pieces of reasoning.
const paragraph = "\n\n"

// thought is the signature of a reasoning item: the item without its text, and the lengths of the
// pieces in bytes. The part's text joins them by paragraph.
type thought struct {
	Encrypted string `json:"encrypted_content"`
	Summary   []int  `json:"summary,omitempty"`
	Content   []int  `json:"content,omitempty"` // replaces Summary on servers that return full reasoning
}

// assistant is the signature of a message.
type assistant struct {
	Phase string `json:"phase,omitempty"`
}

func signature(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("openairesponses: encode signature: " + err.Error())
	}
	return string(b)
}

// phaseOf returns the phase in a message signature, and whether the signature has this format.
func phaseOf(signature string) (string, bool) {
	var s assistant
	if !strings.HasPrefix(signature, "{") || json.Unmarshal([]byte(signature), &s) != nil {
		return "", false
	}
	return s.Phase, true
}

// reasoningItem returns the item of a part, if its signature has this format and fits the text.
func reasoningItem(r providers.Reasoning) (inputItem, bool) {
	var t thought
	if !strings.HasPrefix(r.Signature, "{") || json.Unmarshal([]byte(r.Signature), &t) != nil || t.Encrypted == "" {
		return inputItem{}, false
	}
	item := inputItem{Type: itemReasoning, Encrypted: t.Encrypted, Summary: &[]piece{}}
	kind, lengths := "summary_text", t.Summary
	if len(t.Content) > 0 {
		kind, lengths = "reasoning_text", t.Content
	}
	pieces, ok := cut(r.Text, kind, lengths)
	switch {
	case !ok:
		return inputItem{}, false
	case len(t.Content) > 0:
		item.Content = pieces
	case len(pieces) > 0:
		item.Summary = &pieces
	}
	return item, true
}

// cut splits a text that was joined by paragraph into pieces of the given lengths.
func cut(text, kind string, lengths []int) ([]piece, bool) {
	var out []piece
	for i, n := range lengths {
		if i > 0 {
			rest, ok := strings.CutPrefix(text, paragraph)
			if !ok {
				return nil, false
			}
			text = rest
		}
		if n < 0 || n > len(text) {
			return nil, false
		}
		out = append(out, piece{Type: kind, Text: text[:n]})
		text = text[n:]
	}
	return out, text == ""
}
