package openaicompletions

import (
	"encoding/json"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/sse"
)

// detail is one entry of reasoning_details, which a gateway expects back for its vendors.
type detail struct {
	Type      string          `json:"type"`
	ID        json.RawMessage `json:"id,omitempty"`
	Format    json.RawMessage `json:"format,omitempty"`
	Index     json.RawMessage `json:"index,omitempty"`
	Text      string          `json:"text,omitempty"`
	Summary   string          `json:"summary,omitempty"`
	Signature json.RawMessage `json:"signature,omitempty"`
	Data      string          `json:"data,omitempty"`
	// Cut is the number of bytes of the part's text that Text or Summary contains. It is used in
	// signatures.
	Cut int `json:"cut,omitempty"`
}

// details are the entries of the current reasoning. Fragments of one entry are joined.
type details []detail

func (ds *details) add(d detail) {
	if n := len(*ds); n > 0 {
		last := &(*ds)[n-1]
		if last.Type == d.Type && d.Data == "" && last.Data == "" && string(last.Index) == string(d.Index) && len(last.Signature) == 0 {
			last.Text += d.Text
			last.Summary += d.Summary
			last.ID, last.Format, last.Signature = either(last.ID, d.ID), either(last.Format, d.Format), either(last.Signature, d.Signature)
			return
		}
	}
	*ds = append(*ds, d)
}

func either(a, b json.RawMessage) json.RawMessage {
	if sse.Given(a) {
		return a
	}
	return b
}

// sign returns the signature of the entries: a JSON array without the text that the reasoning
// contains.
func (ds details) sign(text string) string {
	if len(ds) == 0 {
		return ""
	}
	var whole strings.Builder
	for _, d := range ds {
		whole.WriteString(d.Text + d.Summary)
	}
	if whole.String() == text {
		for i := range ds {
			d := &ds[i]
			d.Cut = len(d.Text) + len(d.Summary)
			if d.Cut > 0 {
				d.Text, d.Summary = "", ""
			}
		}
	}
	signature, err := json.Marshal(ds)
	if err != nil { // the raw members come from a decoder
		return ""
	}
	return string(signature)
}

// detailsOf is the inverse of sign. It returns nil for a signature of another kind.
func detailsOf(r providers.Reasoning) details {
	var ds details
	if !strings.HasPrefix(r.Signature, "[") || json.Unmarshal([]byte(r.Signature), &ds) != nil {
		return nil
	}
	text := r.Text
	for i := range ds {
		d := &ds[i]
		if d.Cut < 0 || d.Cut > len(text) {
			return nil
		}
		if strings.HasSuffix(d.Type, ".summary") {
			d.Summary += text[:d.Cut]
		} else {
			d.Text += text[:d.Cut]
		}
		text, d.Cut = text[d.Cut:], 0
	}
	return ds
}
