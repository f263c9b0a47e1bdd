package fakemodel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
)

// converse is the Converse call of Amazon Bedrock, whose path names the model. It is read as
// messages of other names.
var converse = &vendor{
	// The id of the key that has signed the call, or a token. The signature is not checked.
	key: func(h http.Header) string {
		if _, signer, ok := strings.Cut(h.Get("Authorization"), "Credential="); ok {
			id, _, _ := strings.Cut(signer, "/")
			return id
		}
		return bearer(h)
	},
	strict: true,
	call: example(`{"system": [{"text": "", "cachePoint": {"type": "", "ttl": ""}}],
		"inferenceConfig": {"maxTokens": 0, "temperature": 0, "stopSequences": [""]},
		"toolConfig": {"tools": [{"toolSpec": {"name": "", "description": "", "inputSchema": {"json": null}}}], "toolChoice": null},
		"additionalModelRequestFields": {
			"thinking": {"type": "", "budget_tokens": 0, "display": "", "block_binding": null}, "output_config": {"effort": ""},
			"reasoning": {"effort": ""}, "reasoning_effort": "", "anthropic_beta": [""]},
		"messages": [{"role": "", "content": [{"text": "", "image": ` + converseImage + `, "cachePoint": {"type": "", "ttl": ""},
			"reasoningContent": {"reasoningText": {"text": "", "signature": ""}, "redactedContent": ""},
			"toolUse": {"toolUseId": "", "name": "", "input": null},
			"toolResult": {"toolUseId": "", "status": "", "content": [{"text": "", "image": ` + converseImage + `}]}}]}]}`),
	limits: []string{"inferenceConfig.maxTokens"},
	efforts: []string{
		"additionalModelRequestFields.thinking.budget_tokens", "additionalModelRequestFields.output_config.effort",
		"additionalModelRequestFields.reasoning.effort", "additionalModelRequestFields.reasoning_effort",
	},
	system: []string{"system.*.text"},
	tools:  "toolConfig.tools.*.toolSpec.name",
	read: func(p *prompt, c any) error {
		if _, err := p.sides(c, converseBlocks); err != nil {
			return err
		}
		for _, t := range p.turns {
			if len(t.calls) > 0 && len(p.tools) == 0 {
				return errors.New("toolConfig must be defined where there are calls")
			}
		}
		return nil
	},
	finishes: map[string]string{
		finishStop: `"end_turn"`, finishLength: `"max_tokens"`, finishTool: `"tool_use"`, finishFilter: `"content_filtered"`,
	},
	errors: map[int]string{
		4: "ValidationException", 401: "AccessDeniedException", 403: "AccessDeniedException", 404: "ResourceNotFoundException",
		429: "ThrottlingException", 5: "InternalServerException", 503: "ServiceUnavailableException",
	},
	framed: true,
	says: map[string]string{
		"failure":       `{"__type":"fakemodel#$error","message":$message}`,
		"begin":         `messageStart {"role":"assistant"}`,
		"call open":     `contentBlockStart {"contentBlockIndex":$index,"start":{"toolUse":{"toolUseId":"$call","name":$name}}}`,
		"text more":     converseDelta(`{"text":$piece}`),
		"thinking more": converseDelta(`{"reasoningContent":{"text":$piece}}`),
		"call more":     converseDelta(`{"toolUse":{"input":$piece}}`),
		"thinking shut": converseDelta(`{"reasoningContent":{"signature":$signature}}`) + "\n" + converseStop,
		"shut":          converseStop,
		"end":           `messageStop {"stopReason":$stop}` + "\n" + `metadata {"usage":$usage,"metrics":{"latencyMs":0}}`,
		"fail":          `internalServerException {"message":$message}`,
		"text part":     `{"text":$said}`,
		"thinking part": `{"reasoningContent":{"reasoningText":{"text":$said,"signature":$signature}}}`,
		"call part":     `{"toolUse":{"toolUseId":"$call","name":$name,"input":$input}}`,
		"usage":         `{"inputTokens":$in,"outputTokens":$out,"totalTokens":$total}`,
		"whole": `{"output":{"message":{"role":"assistant","content":[$parts]}},` +
			`"stopReason":$stop,"usage":$usage,"metrics":{"latencyMs":0}}`,
	},
}

const (
	converseImage = `{"format": "", "source": {"bytes": ""}}`
	converseStop  = `contentBlockStop {"contentBlockIndex":$index}`
)

func converseDelta(delta string) string {
	return `contentBlockDelta {"contentBlockIndex":$index,"delta":` + delta + `}`
}

// converseBlocks makes blocks of the messages format of those of this one.
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
			return nil, errors.New("a block has no known member")
		}
	}
	return blocks, nil
}

// frame adds a message of the binary framing of the vendor's streams.
func (s *sender) frame(kind, payload string) {
	if !s.begin("application/vnd.amazon.eventstream") {
		return
	}
	message := "event"
	if strings.HasSuffix(kind, "Exception") {
		message = "exception"
	}
	var headers []byte
	for _, h := range [][2]string{{":" + message + "-type", kind}, {":content-type", "application/json"}, {":message-type", message}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(h[1])))
		headers = append(headers, h[1]...)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(headers)))
	frame = binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame))
	frame = append(append(frame, headers...), payload...)
	s.pending = append(s.pending, binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame))...)
	s.bound()
}
