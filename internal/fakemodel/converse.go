package fakemodel

import (
	"errors"
	"fmt"
)

// converse is the Converse API of Amazon Bedrock. The path names the model. Its blocks are converted
// to those of the messages format.
var converse = newVendor("converse", vendor{read: func(p *prompt, c any) error {
	if _, err := p.sides(c, converseBlocks); err != nil {
		return err
	}
	for _, t := range p.turns {
		if len(t.calls) > 0 && len(p.tools) == 0 {
			return errors.New("toolConfig must be defined where there are calls")
		}
	}
	return nil
}})

// converseBlocks converts blocks to those of the messages format.
func converseBlocks(content any) ([]any, error) {
	var blocks []any
	for _, b := range list(content, "") {
		switch {
		case has(b, "cachePoint"):
		case has(b, "text"):
			blocks = append(blocks, object{"type": blockText, "text": text(b, "text")})
		case has(b, "image"):
			source := object{"media_type": "image/" + text(b, "image.format"), "data": text(b, "image.source.bytes")}
			blocks = append(blocks, object{"type": "image", "source": source})
		case has(b, "reasoningContent"):
			const path = "reasoningContent.reasoningText."
			blocks = append(blocks, object{"type": blockThinking, "thinking": text(b, path+"text"), "signature": text(b, path+"signature")})
		case has(b, "toolUse"):
			blocks = append(blocks, object{
				"type": "tool_use", "id": text(b, "toolUse.toolUseId"), "name": text(b, "toolUse.name"), "input": get(b, "toolUse.input"),
			})
		case has(b, "toolResult"):
			id := text(b, "toolResult.toolUseId")
			inner, err := converseBlocks(get(b, "toolResult.content"))
			switch {
			case err != nil:
				return nil, err
			case len(inner) == 0:
				return nil, fmt.Errorf("result of %q is empty", id)
			case text(b, "toolResult.status") == "error" && len(texts(b, "toolResult.content.*.image.format")) > 0:
				return nil, fmt.Errorf("result of %q is an error with an image", id)
			}
			blocks = append(blocks, object{"type": "tool_result", "tool_use_id": id, "content": inner})
		default:
			return nil, errors.New("block has no known member")
		}
	}
	return blocks, nil
}
