package googlegenerativeai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// The roles. Results of calls have the user role.
const (
	roleUser  = "user"
	roleModel = "model"
)

// Texts of results without readable content.
const (
	noOutput    = "(no output)"
	seeImage    = "(see the image)"
	imagesBelow = "(see the image below)"
	imagesOf    = "Images that were returned by "
)

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

// part has one kind of member. The order of members is the vendor's.
type part struct {
	Text      *string   `json:"text,omitempty"`
	Thought   bool      `json:"thought,omitempty"`
	Data      *blob     `json:"inlineData,omitempty"`
	Call      *call     `json:"functionCall,omitempty"`
	Response  *response `json:"functionResponse,omitempty"`
	Signature string    `json:"thoughtSignature,omitempty"`
}

type blob struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

type call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type response struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"`
	Response output `json:"response"`
	Parts    []part `json:"parts,omitempty"`
}

type output struct {
	Output *string `json:"output,omitempty"`
	Error  *string `json:"error,omitempty"`
}

// encodeMessage returns the contents of a message, none if nothing is sent.
func encodeMessage(s shape, msg providers.Message, e *providers.BodyEncoder) []content {
	switch msg.Role {
	case providers.RoleUser:
		if parts := encodeParts(msg.Parts, e); len(parts) > 0 {
			return []content{{Role: roleUser, Parts: parts}}
		}
	case providers.RoleAssistant:
		if parts := encodeAssistant(s, msg.Parts); len(parts) > 0 {
			return []content{{Role: roleModel, Parts: parts}}
		}
	case providers.RoleTool:
		return encodeResults(s, msg.Parts, e)
	}
	return nil
}

func encodeParts(parts []providers.Part, e *providers.BodyEncoder) []part {
	var out []part
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, part{Text: &p.Text})
		case providers.Image:
			out = append(out, part{Data: &blob{MimeType: p.MimeType, Data: e.Base64(p)}})
		}
	}
	return out
}

// encodeAssistant returns the parts of a reply in their order, each with its signature. A first call
// without a signature was made by another model, or before the vendor signed calls.
func encodeAssistant(s shape, parts []providers.Part) []part {
	var out []part
	called := false
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, encodeText(p.Text, p.Signature, false)...)
		case providers.Reasoning:
			out = append(out, encodeText(p.Text, p.Signature, true)...)
		case providers.ToolCall:
			c := part{Call: &call{Name: callName(p.Name), Args: p.Arguments}, Signature: p.Signature}
			if s.ids {
				c.Call.ID = callID(p.ID)
			}
			if s.signed && !called && c.Signature == "" {
				c.Signature = skipSignature
			}
			called = true
			out = append(out, c)
		}
	}
	return out
}

// encodeText returns text or reasoning as its original parts: a signed part stays separate, even if
// empty.
func encodeText(text, signature string, thought bool) []part {
	before, rest, vendors, ok := unsigned(text, signature)
	var out []part
	if before != "" {
		out = append(out, part{Text: &before, Thought: thought})
	}
	if ok {
		out = append(out, part{Text: &rest, Thought: thought, Signature: vendors})
	}
	return out
}

// Maximum lengths of names that the vendor accepts, in bytes.
const (
	maxCallID   = 64
	maxCallName = 64
)

// named matches a valid function name.
var named = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]*$`)

// callName returns a valid name for a call, since a model may have invented it.
func callName(name string) string {
	if len(name) <= maxCallName && named.MatchString(name) {
		return name
	}
	return "_" + providers.PlainName(name, maxCallName-1)
}

// callID returns the id of a call in the request, the same for call and result.
func callID(id string) string {
	if id == providers.PlainName(id, maxCallID) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:20])
}

// encodeResults returns the results of one step in one content, because the vendor counts them there.
// For models that reject images in results, the images follow in another content.
func encodeResults(s shape, parts []providers.Part, e *providers.BodyEncoder) []content {
	results, images := content{Role: roleUser}, content{Role: roleUser}
	for _, p := range parts {
		r, ok := p.(providers.ToolResult)
		if !ok {
			continue
		}
		out, shown := encodeResult(s, r, e)
		results.Parts = append(results.Parts, part{Response: out})
		if len(shown) > 0 {
			images.Parts = append(append(images.Parts, part{Text: new(imagesOf + r.Name + ":")}), shown...)
		}
	}
	switch {
	case len(results.Parts) == 0:
		return nil
	case len(images.Parts) == 0:
		return []content{results}
	}
	return []content{results, images}
}

// encodeResult returns a result, and its images that it cannot contain.
func encodeResult(s shape, r providers.ToolResult, e *providers.BodyEncoder) (out *response, images []part) {
	out = &response{Name: callName(r.Name)}
	if s.ids {
		out.ID = callID(r.CallID)
	}
	var texts []string
	for _, p := range encodeParts(r.Content, e) {
		if p.Text != nil {
			texts = append(texts, *p.Text)
			continue
		}
		images = append(images, p)
	}
	text := strings.Join(texts, "\n")
	switch {
	case text != "":
	case len(images) == 0:
		text = noOutput
	case s.signed:
		text = seeImage
	default:
		text = imagesBelow
	}
	if out.Response.Output = &text; r.IsError {
		out.Response = output{Error: &text}
	}
	if s.signed {
		out.Parts, images = images, nil
	}
	return out, images
}
