package anthropicmessages

import (
	"encoding/json"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// redacted returns the signature of a redacted thinking block: a JSON array with the block. The
// vendor's own signatures are base64, so they never look like an array.
func redacted(data string) string {
	signature, err := json.Marshal([]block{{Type: blockRedacted, Data: data}})
	if err != nil {
		panic("anthropicmessages: encode block: " + err.Error())
	}
	return string(signature)
}

// sealed reports whether the vendor accepts the block back.
func (b block) sealed() bool {
	switch b.Type {
	case blockThinking:
		return b.Thinking != nil && b.Signature != nil && *b.Signature != ""
	case blockRedacted:
		return b.Data != ""
	}
	return false
}

// encodeReasoning returns the blocks of a part. Signatures of earlier versions may contain several.
// unsigned is set for servers that accept unsigned thinking.
func encodeReasoning(r providers.Reasoning, unsigned bool) []block {
	if !strings.HasPrefix(r.Signature, "[") {
		b := block{Type: blockThinking, Thinking: &r.Text, Signature: &r.Signature}
		if !b.sealed() && (!unsigned || blank(r.Text)) {
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
