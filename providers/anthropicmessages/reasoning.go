package anthropicmessages

import (
	"encoding/json"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// thought is one block of thinking while it arrives.
type thought struct {
	kind            string
	text, signature strings.Builder
	data            string
}

func (t *thought) block() block {
	if t.kind == blockRedacted {
		return block{Type: t.kind, Data: t.data}
	}
	text := t.text.String()
	return block{Type: t.kind, Thinking: &text, Signature: t.signature.String()}
}

// run is the thinking of one response that nothing visible interrupts. It
// becomes one providers.Reasoning, though the vendor wants every block of it
// back with its own signature.
type run []*thought

// sign returns what Reasoning.Signature is to hold. The vendor's signatures
// are base64, so an array is never taken for one.
func (r run) sign() string {
	if len(r) == 1 && r[0].kind == blockThinking {
		return r[0].signature.String()
	}
	var kept []block
	for _, t := range r {
		if b := t.block(); b.sealed() {
			kept = append(kept, b)
		}
	}
	if len(kept) == 0 {
		return ""
	}
	signature, err := json.Marshal(kept)
	if err != nil {
		panic("anthropicmessages: blocks have no JSON form: " + err.Error())
	}
	return string(signature)
}

// sealed reports that the vendor takes the block back.
func (b block) sealed() bool {
	switch b.Type {
	case blockThinking:
		return b.Thinking != nil && b.Signature != ""
	case blockRedacted:
		return b.Data != ""
	}
	return false
}

// encodeReasoning is the inverse of sign.
func encodeReasoning(r providers.Reasoning) []block {
	if !strings.HasPrefix(r.Signature, "[") {
		b := block{Type: blockThinking, Thinking: &r.Text, Signature: r.Signature}
		if !b.sealed() {
			return nil
		}
		return []block{b}
	}
	var stored, out []block
	if json.Unmarshal([]byte(r.Signature), &stored) != nil {
		return nil
	}
	for _, b := range stored {
		if b.sealed() {
			out = append(out, block{Type: b.Type, Thinking: b.Thinking, Signature: b.Signature, Data: b.Data})
		}
	}
	return out
}
