package googlegenerativeai

import (
	"encoding/json"
	"net/http"

	"github.com/parleyrun/parley/providers"
)

type body struct {
	System     *content          `json:"systemInstruction,omitempty"`
	Tools      []toolset         `json:"tools,omitempty"`
	ToolConfig *toolConfig       `json:"toolConfig,omitempty"`
	Generation *generationConfig `json:"generationConfig,omitempty"`
	// Contents are last, because only they change between calls.
	Contents json.RawMessage `json:"contents"`
}

type toolset struct {
	Functions []function `json:"functionDeclarations"`
}

// function is a tool. One of two members contains its schema.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	JSONSchema  json.RawMessage `json:"parametersJsonSchema,omitempty"`
	OpenAPI     json.RawMessage `json:"parameters,omitempty"`
}

type toolConfig struct {
	Calling callingConfig `json:"functionCallingConfig"`
}

type callingConfig struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}

type generationConfig struct {
	Temperature     *float64        `json:"temperature,omitempty"`
	Stop            []string        `json:"stopSequences,omitempty"`
	MaxOutputTokens int             `json:"maxOutputTokens,omitempty"`
	Thinking        *thinkingConfig `json:"thinkingConfig,omitempty"`
}

// Encode implements providers.Codec.
func (c codec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	b := body{}
	if req.System != "" {
		b.System = &content{Parts: []part{{Text: &req.System}}}
	}
	tools, err := providers.SentTools(API, m, req.Tools)
	if err != nil {
		return nil, err
	}
	b.Tools = encodeTools(m, tools)
	if len(req.Tools) > 0 {
		b.ToolConfig = choose(o.ToolChoice)
	}
	config := &generationConfig{Temperature: o.Temperature, Stop: o.Stop}
	config.Thinking, config.MaxOutputTokens = thinking(m, o)
	if config.Thinking != nil || config.MaxOutputTokens > 0 || config.Temperature != nil || len(config.Stop) > 0 {
		b.Generation = config
	}
	contents, err := encodeContents(m, req)
	if err != nil {
		return nil, err
	}
	var e providers.BodyEncoder
	b.Contents = e.Place(contents...)
	encoded, err := e.Encode(b)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	return &providers.Call{Path: c.address(m, o, header), Header: header, Body: encoded}, nil
}

// choose returns nil for the vendor's default.
func choose(c providers.ToolChoice) *toolConfig {
	if c == providers.ToolAuto {
		return nil
	}
	config := &toolConfig{callingConfig{Mode: "ANY"}}
	if c == providers.ToolNone {
		config.Calling.Mode = "NONE"
	}
	if name := c.Tool(); name != "" {
		config.Calling.Allowed = []string{name}
	}
	return config
}

func encodeTools(m providers.Model, tools []providers.Tool) []toolset {
	if len(tools) == 0 {
		return nil
	}
	set := toolset{Functions: make([]function, len(tools))}
	for i, t := range tools {
		set.Functions[i] = function{Name: t.Name, Description: t.Description}
		if providers.DialectOf(API, m) == providers.SchemaOpenAPI {
			set.Functions[i].OpenAPI = t.InputSchema
		} else {
			set.Functions[i].JSONSchema = t.InputSchema
		}
	}
	return []toolset{set}
}

// fragment is an immutable run of encoded contents without the brackets of an array.
type fragment struct {
	shape shape
	text  *providers.Body // nil if there are none
	// begins and ends are set if the first and the last content have the model role.
	begins, ends bool
}

// encodeContents returns the pieces of the contents array.
func encodeContents(m providers.Model, req providers.Request) ([]*providers.Body, error) {
	shape := shapeOf(m)
	fragments := make([]fragment, 0, len(req.History)+1)
	for _, block := range req.History {
		f, err := providers.EncodeBlock(block, m, func(f fragment) bool { return f.shape == shape },
			func(messages []providers.Message) (fragment, int64, error) { return encodeBlock(shape, messages) })
		if err != nil {
			return nil, err
		}
		fragments = append(fragments, f)
	}
	f, err := newFragment(shape, req.Messages)
	if err != nil {
		return nil, err
	}
	return join(append(fragments, f)), nil
}

func encodeBlock(s shape, messages []providers.Message) (fragment, int64, error) {
	f, err := newFragment(s, messages)
	if err != nil || f.text == nil {
		return f, 0, err
	}
	return f, f.text.TextBytes(), nil
}

func newFragment(s shape, in []providers.Message) (fragment, error) {
	f := fragment{shape: s}
	var e providers.BodyEncoder
	var out []content
	for _, msg := range in {
		for _, c := range encodeMessage(s, msg, &e) {
			// The vendor rejects a call after another content of the model.
			if n := len(out); n > 0 && c.Role == roleModel && out[n-1].Role == roleModel {
				out[n-1].Parts = append(out[n-1].Parts, c.Parts...)
				continue
			}
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return f, nil
	}
	f.begins, f.ends = out[0].Role == roleModel, out[len(out)-1].Role == roleModel
	text, err := e.Encode(out)
	if err != nil {
		return f, err
	}
	f.text = text.Inner(len("["), len("]\n"))
	return f, nil
}

const (
	openModel    = `{"role":"model","parts":[`
	closeContent = `]}`
)

// join concatenates fragments to one array. Adjacent contents of the model are merged.
func join(fragments []fragment) []*providers.Body {
	out := make([]*providers.Body, 1, 2*len(fragments)+2)
	out[0] = providers.NewBody("[")
	comma := providers.NewBody(",")
	ended := false
	for _, f := range fragments {
		if f.text == nil {
			continue
		}
		text := f.text
		if n := len(out); n > 1 {
			if ended && f.begins {
				out[n-1], text = out[n-1].Inner(0, len(closeContent)), text.Inner(len(openModel), 0)
			}
			out = append(out, comma)
		}
		out, ended = append(out, text), f.ends
	}
	return append(out, providers.NewBody("]"))
}
