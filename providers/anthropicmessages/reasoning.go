package anthropicmessages

import (
	"encoding/json"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// redacted returns the signature of a block of thinking that is not shown: the block in
// an array. The vendor's own signatures are base64, so an array is never taken for one.
func redacted(data string) string {
	signature, err := json.Marshal([]block{{Type: blockRedacted, Data: data}})
	if err != nil {
		panic("anthropicmessages: a block has no JSON form: " + err.Error())
	}
	return string(signature)
}

// sealed reports that the vendor takes the block back.
func (b block) sealed() bool {
	switch b.Type {
	case blockThinking:
		return b.Thinking != nil && b.Signature != nil && *b.Signature != ""
	case blockRedacted:
		return b.Data != ""
	}
	return false
}

// encodeReasoning returns the blocks of a part: one, or several where an array holds
// them, as earlier versions stored neighbours. unsigned says that the server takes what
// was never signed.
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
