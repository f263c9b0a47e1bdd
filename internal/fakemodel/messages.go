package fakemodel

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

var messages = newVendor("messages", vendor{read: func(p *prompt, c any) error {
	if p.maxTokens <= 0 {
		return errors.New("max_tokens is missing")
	}
	begun, err := p.sides(c, blocks)
	if n := len(p.turns); err == nil && number(c, "thinking.budget_tokens") > 0 && n > 0 && p.turns[n-1].side == sideTool && begun != blockThinking {
		return errors.New("when thinking is enabled, a final assistant message must start with a thinking block")
	}
	return err
}})

// sides converts messages of alternating sides to turns; blocks decodes their content. It returns the
// type of the first block of the last answer.
func (p *prompt) sides(c any, blocks func(content any) ([]any, error)) (begun string, err error) {
	before := sideAssistant
	for i, m := range list(c, "messages") {
		role := text(m, "role")
		if role == before || role != sideUser && role != sideAssistant {
			return "", fmt.Errorf("message %d: got role %q, but roles must alternate", i, role)
		}
		content, err := blocks(get(m, "content"))
		if err == nil {
			err = p.addBlocks(role, content)
		}
		if err != nil {
			return "", fmt.Errorf("message %d: %w", i, err)
		}
		if before = role; role == sideAssistant {
			begun = text(content[0], "type")
		}
	}
	return begun, nil
}

// blocks decodes a list of blocks, or a text in its place.
func blocks(content any) ([]any, error) {
	switch content := content.(type) {
	case nil:
		return nil, nil
	case string:
		return []any{object{"type": blockText, "text": content}}, nil
	case []any:
		return content, nil
	}
	return nil, fmt.Errorf("decode content: %T is neither a text nor a list", content)
}

// addBlocks converts a message to turns: its results, then the rest.
func (p *prompt) addBlocks(role string, content []any) error {
	if len(content) == 0 {
		return errors.New("content is empty")
	}
	if text(content[len(content)-1], "type") == blockThinking {
		return errors.New("the final block in an assistant message cannot be `thinking`")
	}
	t := turn{side: role}
	for _, b := range content {
		if text(b, "type") != "tool_result" {
			if err := t.addBlock(b); err != nil {
				return err
			}
			continue
		}
		if t.texts != nil || t.images != nil || role != sideUser {
			return errors.New("results must come first in a user's message")
		}
		result := turn{side: sideTool, result: text(b, "tool_use_id")}
		inner, err := blocks(get(b, "content"))
		if err == nil {
			err = result.each(inner, result.addBlock)
		}
		if err != nil {
			return err
		}
		p.turns = append(p.turns, result)
	}
	if t.texts != nil || t.images != nil || t.calls != nil || role == sideAssistant {
		p.turns = append(p.turns, t)
	}
	return nil
}

func (t *turn) addBlock(b any) error {
	switch kind := text(b, "type"); kind {
	case blockText:
		if blank(text(b, "text")) {
			return errors.New("text is blank")
		}
		t.texts = append(t.texts, text(b, "text"))
	case "image":
		return t.show(text(b, "source.media_type"), text(b, "source.data"))
	case blockThinking:
		if text(b, "signature") != sign(text(b, "thinking")) {
			return errors.New("signature of thinking does not match")
		}
	case "tool_use":
		id := text(b, "id")
		if _, ok := get(b, "input").(object); !ok || !plainID.MatchString(id) {
			return fmt.Errorf("input of call %q is not an object, or its id is invalid", id)
		}
		t.calls = append(t.calls, call{id, text(b, "name"), string(encode(get(b, "input")))})
	default:
		return fmt.Errorf("unknown block %q", kind)
	}
	return nil
}

// sign returns a stand-in for the vendor's signature.
func sign(thinking string) string {
	sum := sha256.Sum256([]byte("fakemodel " + thinking))
	return base64.StdEncoding.EncodeToString(sum[:])
}
