package fakemodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Types of items.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemResult    = "function_call_output"
)

// Phases of messages, which those of models have whose names end with "-codex".
const (
	phaseComment = "commentary"
	phaseFinal   = "final_answer"
)

// responsesCall has all members that the vendor takes of ours: it refuses others.
var responsesCall = example(`{"model": "", "instructions": "", "stream": true, "store": true, "include": [""],
	"input": [{"type": "", "role": "", "status": "", "phase": "", "content": null, "output": null, "encrypted_content": "",
		"summary": [{"type": "", "text": ""}], "call_id": "", "name": "", "arguments": ""}],
	"tools": [{"type": "", "name": "", "description": "", "parameters": null, "strict": true}], "tool_choice": null,
	"parallel_tool_calls": true, "reasoning": {"effort": "", "summary": ""}, "text": {"verbosity": ""}, "max_output_tokens": 0,
	"temperature": 0, "prompt_cache_key": "", "prompt_cache_retention": "", "prompt_cache_options": {"ttl": ""}}`)

// The variants of the responses format. They differ in their keys, in what they refuse, and in
// the form of errors.
var (
	openAI = responses(bearer, func(any) error { return nil }, map[string]string{"failure": completionsFailure})
	azure  = responses(func(h http.Header) string { return h.Get("Api-Key") }, func(any) error { return nil }, map[string]string{
		"failure": `{"error":{"code":"$status","message":$message}}`,
	})
	// codex has tokens of an account.
	codex = responses(func(h http.Header) string { return h.Get("Chatgpt-Account-Id") }, refuseCodex, map[string]string{
		"failure": `{"detail":$message}`, "failure 5": completionsFailure,
	})
)

// responses is a variant with its keys, what it alone refuses, and how its errors are written.
func responses(key func(http.Header) string, refuse func(call any) error, failures map[string]string) *vendor {
	says := responsesSays()
	maps.Copy(says, failures)
	return &vendor{
		key: key, call: responsesCall, strict: true,
		limits: []string{"max_output_tokens"}, efforts: []string{"reasoning.effort"}, system: []string{"instructions"}, tools: "tools.*.name",
		read: func(p *prompt, c any) error {
			if err := cmp.Or(refuse(c), refuseResponses(c)); err != nil {
				return err
			}
			return p.addItems(list(c, "input"))
		},
		finishes: map[string]string{
			"": `"in_progress"`, finishStop: `"completed"`, finishTool: `"completed"`,
			finishLength: `"incomplete","incomplete_details":{"reason":"max_output_tokens"}`,
			finishFilter: `"incomplete","incomplete_details":{"reason":"content_filter"}`,
		},
		errors: completionsErrors,
		says:   says,
		fill: func(a *answer, b *block, name string) string {
			switch name {
			case "ending":
				if a.finish == finishLength || a.finish == finishFilter {
					return "incomplete"
				}
				return "completed"
			case "encrypted": // what is encrypted at first is not all of it
				return quote(a.p.encrypt(string(b.said)))
			}
			switch { // the phase of a message that is done
			case len(b.said) == 0 || !strings.HasSuffix(a.p.model, "-codex"):
				return ""
			case a.finish != "" && b == a.last():
				return `"phase":"` + phaseFinal + `",`
			}
			return `"phase":"` + phaseComment + `",`
		},
	}
}

// Beginnings of the data of events, of the whole and of one item.
const (
	responsesEvent = ` {$type,"sequence_number":$sequence,`
	responsesItem  = responsesEvent + `"output_index":$index,`
)

// said are the forms of a kind of block, whose item has one part: text in a list with the
// name of an index, and the names of the events of the part and of its text.
func said(kind, item, index, part, text, is string) map[string]string {
	in := responsesItem + `"` + index + `":0,`
	return map[string]string{
		kind + " open": `response.output_item.added` + responsesItem + `"item":{` + item + `]}}` + "\n" + part + `.added` + in + `"part":` + is + `}`,
		kind + " more": text + `.delta` + in + `"delta":$piece}`,
		kind + " shut": text + `.done` + in + `"text":$said}` + "\n" + part + `.done` + in + `"part":` + is + "}\n" + responsesDone,
		kind + " part": `{` + item + is + `]}`,
	}
}

const responsesDone = `response.output_item.done` + responsesItem + `"item":$part}`

// responsesSays is what the variants have in common.
func responsesSays() map[string]string {
	says := said(blockText, `"type":"message","id":"msg_${id}_$index",$phase"role":"assistant","content":[`,
		"content_index", "response.content_part", "response.output_text", `{"type":"output_text","text":$said,"annotations":[]}`)
	maps.Copy(says, said(blockThinking, `"type":"reasoning","id":"rs_${id}_$index","encrypted_content":$encrypted,"summary":[`,
		"summary_index", "response.reasoning_summary_part", "response.reasoning_summary_text", `{"type":"summary_text","text":$said}`))
	maps.Copy(says, map[string]string{
		"call open": `response.output_item.added` + responsesItem + `"item":$part}`,
		"call more": `response.function_call_arguments.delta` + responsesItem + `"delta":$piece}`,
		"call shut": `response.function_call_arguments.done` + responsesItem + `"arguments":$said}` + "\n" + responsesDone,
		"call part": `{"type":"function_call","id":"fc_$call","call_id":"$call","name":$name,"arguments":$said}`,

		"begin": `response.created` + responsesEvent + `"response":$whole}` + "\n" + `response.in_progress` + responsesEvent + `"response":$whole}`,
		"fail":  `error` + responsesEvent + `"error":{"type":"server_error","code":"server_error","message":$message,"param":null}}`,
		"end":   `response.$ending` + responsesEvent + `"response":$whole}`,
		"whole": `{"id":"$id","object":"response","created_at":0,"model":$model,"status":$stop,"output":[$parts],"usage":$usage}`,
		"usage": `{"input_tokens":$in,"input_tokens_details":{"cached_tokens":0},"output_tokens":$out,` +
			`"output_tokens_details":{"reasoning_tokens":$thought},"total_tokens":$total}`,
	})
	return says
}

// refuseResponses finds what no variant takes.
func refuseResponses(c any) error {
	switch n := number(c, "max_output_tokens"); {
	case n != 0 && n < 16:
		return errors.New("max_output_tokens: integer below minimum value 16")
	case len(text(c, "prompt_cache_key")) > 64:
		return errors.New("prompt_cache_key: string too long")
	case has(c, "reasoning") && has(c, "temperature"):
		return errors.New("unsupported parameter: 'temperature' is not supported with this model")
	case has(c, "reasoning") && !slices.Contains(list(c, "include"), any("reasoning.encrypted_content")):
		return errors.New("include lacks reasoning.encrypted_content: the reasoning would be lost")
	}
	return nil
}

func refuseCodex(c any) error {
	switch {
	case number(c, "max_output_tokens") != 0:
		return errors.New("unsupported parameter: max_output_tokens")
	case get(c, "store") == true:
		return errors.New("store must be set to false")
	case get(c, "stream") != true:
		return errors.New("stream must be set to true")
	case text(c, "instructions") == "":
		return errors.New("instructions are required")
	case slices.ContainsFunc(list(c, "input"), isSystem):
		return errors.New("system messages are instructions of a subscription")
	}
	return nil
}

func isSystem(item any) bool {
	return text(item, "role") == "system" || text(item, "role") == "developer"
}

// isSaid reports whether an item is the model's.
func isSaid(item any) bool {
	kind := text(item, "type")
	return text(item, "role") == sideAssistant || kind == itemReasoning || kind == itemCall
}

func (p *prompt) addItems(items []any) error {
	for i, item := range items {
		var err error
		if text(item, "type") == itemReasoning && (i+1 == len(items) || !isSaid(items[i+1])) {
			err = errors.New("item of type 'reasoning' was provided without its required following item")
		} else {
			err = p.addItem(item)
		}
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
	}
	return nil
}

// addItem makes a turn of an item. The model's items in a row are one.
func (p *prompt) addItem(item any) error {
	role, content := text(item, "role"), get(item, "content")
	t := &turn{side: role}
	if isSaid(item) {
		if n := len(p.turns); n == 0 || p.turns[n-1].side != sideAssistant {
			p.turns = append(p.turns, turn{side: sideAssistant})
		}
		t = &p.turns[len(p.turns)-1]
	}
	switch kind := text(item, "type"); kind {
	case itemReasoning:
		if text(item, "encrypted_content") != p.encrypt(strings.Join(texts(item, "summary.*.text"), "")) {
			return errors.New("invalid_encrypted_content: the encrypted content could not be verified")
		}
		return nil
	case itemCall:
		c := call{text(item, "call_id"), text(item, "name"), text(item, "arguments")}
		if len(c.id) > 64 || !json.Valid([]byte(c.args)) {
			return fmt.Errorf("call_id %q is too long, or its arguments are not JSON", c.id)
		}
		t.calls = append(t.calls, c)
		return nil
	case itemResult:
		t.side, t.result, content = sideTool, text(item, "call_id"), get(item, "output")
	case "", itemMessage:
		switch {
		case isSystem(item) && len(p.turns) > 0:
			return errors.New("system messages must come first")
		case !isSystem(item) && role != sideUser && role != sideAssistant:
			return fmt.Errorf("unknown role %q", role)
		case !slices.Contains([]string{"", phaseComment, phaseFinal}, text(item, "phase")):
			return fmt.Errorf("unknown phase %q", text(item, "phase"))
		}
	default:
		return fmt.Errorf("unknown type %q of an item", kind)
	}
	err := t.read(content, responsesPart)
	switch {
	case isSystem(item):
		p.system += strings.Join(t.texts, "\n")
	case t.side != sideAssistant:
		p.turns = append(p.turns, *t)
	}
	return err
}

func responsesPart(t *turn, part any) error {
	kind := text(part, "type")
	switch own := t.side == sideAssistant; {
	case kind == "output_text" && own, kind == "input_text" && !own:
		t.texts = append(t.texts, text(part, "text"))
	case kind == "input_image" && !own:
		return t.showURL(get(part, "image_url"))
	default:
		return fmt.Errorf("invalid value %q of a part of %s", kind, t.side)
	}
	return nil
}

// encrypt stands for reasoning that its model alone can read.
func (p *prompt) encrypt(thoughts string) string { return sign(p.model + " " + thoughts) }
