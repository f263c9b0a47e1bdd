package bedrockconverse

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/bedrockconverse/awsauth"
)

type body struct {
	System    []block         `json:"system,omitempty"`
	Messages  json.RawMessage `json:"messages"`
	Inference inference       `json:"inferenceConfig,omitzero"`
	Tools     *toolConfig     `json:"toolConfig,omitempty"`
	Fields    *fields         `json:"additionalModelRequestFields,omitempty"`
}

type inference struct {
	MaxTokens   int      `json:"maxTokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	Stop        []string `json:"stopSequences,omitempty"`
}

type toolConfig struct {
	Tools  []tool      `json:"tools"`
	Choice *toolChoice `json:"toolChoice,omitempty"`
}

// toolChoice has exactly one member.
type toolChoice struct {
	Any  *struct{}   `json:"any,omitempty"`
	Tool *chosenTool `json:"tool,omitempty"`
}

type chosenTool struct {
	Name string `json:"name"`
}

var errNoTools = errors.New("this format does not support tool choice none; offer no tools")

type tool struct {
	Spec toolSpec `json:"toolSpec"`
}

type toolSpec struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	InputSchema struct {
		JSON json.RawMessage `json:"json"`
	} `json:"inputSchema"`
}

// noLongerOffered describes a tool that occurs only in the history.
const noLongerOffered = "This tool was used before and is not available any more."

// Encode implements providers.Codec.
func (c codec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	mark := c.marks(m)
	message, used, err := messages(m, mark).Encode(m, req)
	if err != nil {
		return nil, err
	}
	var e providers.BodyEncoder
	b := body{Messages: e.Place(message...), Inference: inference{Temperature: o.Temperature, Stop: o.Stop}}
	if !blank(req.System) {
		b.System = []block{{Text: req.System}}
		if mark {
			b.System = append(b.System, cacheMark(m))
		}
	}
	tools := req.Tools
	if len(tools) == 0 {
		for _, name := range slices.Sorted(maps.Keys(used)) {
			tools = append(tools, providers.Tool{Name: name, Description: noLongerOffered})
		}
	}
	if tools, err = providers.SentTools(API, m, tools); err != nil {
		return nil, err
	}
	if len(tools) > 0 {
		b.Tools = &toolConfig{Tools: encodeTools(tools)}
	}
	if len(req.Tools) > 0 {
		if b.Tools.Choice, err = choose(o.ToolChoice); err != nil {
			return nil, err
		}
		if _, isClaude := claudeOf(m); isClaude && b.Tools.Choice != nil && o.ThinkingLevel != "" {
			o.ThinkingLevel = providers.ThinkingOff // the vendor rejects both together
		}
	}
	b.think(m, req.Messages, o, c.env.government(m))
	encoded, err := e.Encode(b)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Accept": {"application/vnd.amazon.eventstream"}}
	if !c.env.on(envSkipAuth) {
		providers.SetBearer(header, m, o.APIKey)
	}
	return &providers.Call{Path: "/model/" + awsauth.Escape(m.ID) + "/converse-stream", Header: header, Body: encoded}, nil
}

// choose returns nil for the vendor's default.
func choose(c providers.ToolChoice) (*toolChoice, error) {
	switch c {
	case providers.ToolAuto:
		return nil, nil
	case providers.ToolNone:
		return nil, errNoTools
	case providers.ToolRequired:
		return &toolChoice{Any: &struct{}{}}, nil
	default:
		return &toolChoice{Tool: &chosenTool{plain(c.Tool())}}, nil
	}
}

// marks reports whether cache markers are set.
func (c codec) marks(m providers.Model) bool {
	family, _ := claudeOf(m)
	return family.takesMarks() || c.env.on(envForceCache)
}

func encodeTools(tools []providers.Tool) []tool {
	out := make([]tool, len(tools))
	for i, t := range tools {
		out[i].Spec = toolSpec{Name: plain(t.Name), Description: t.Description}
		out[i].Spec.InputSchema.JSON = t.InputSchema
	}
	return out
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
