package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	"github.com/parleyrun/parley/conversation"
)

// FinishTool is the name of the tool by which a model submits the result of [Agent.Output]. The
// runtime adds it to the tools of such an agent.
const FinishTool = conversation.FinishTool

const textFinish = "Gives the final answer and ends the work. Call it alone, once, when everything is done: what it is called with is the whole answer."

// outputKey is the member of the tool's input that holds a result which is not an object.
const outputKey = "output"

// finishTool returns the tool whose input is a value of the schema.
func finishTool(output *Schema) (Tool, error) {
	if output.typ != nil && output.typ.Kind() == reflect.Map { // The input of a tool is never null.
		var err error
		if output, err = schemaBy(output.typ, nil, reads|objects, output.open); err != nil {
			return Tool{}, err
		}
	}
	schema, wrapped := output.source, !isObject(output.source)
	if wrapped {
		var err error
		if schema, err = wrap(schema); err != nil {
			return Tool{}, err
		}
	}
	t, err := newTool("output", textFinish, reflect.TypeFor[map[string]any](), &ToolOptions{InputSchema: schema, Durable: true})
	t.name = FinishTool // reserved for the runtime
	t.call = func(_ context.Context, input any) (any, error) {
		if o, ok := input.(object); ok && wrapped {
			input, _ = o.find(outputKey)
		}
		issues, err := output.fits(input)
		if len(issues) > 0 {
			err = &InputError{Tool: FinishTool, Issues: issues}
		}
		if err != nil {
			return nil, err
		}
		return Result{Output: json.RawMessage(appendValue(nil, input)), Terminate: true}, nil
	}
	return t, err
}

func isObject(schema json.RawMessage) bool {
	var head struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &head) == nil && head.Type == "object"
}

// wrap puts a schema into that of an object. Definitions stay at the root, where references resolve.
func wrap(schema json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil { // true or false
		members = nil
	}
	object := map[string]any{"type": "object", "required": []string{outputKey}, "additionalProperties": false}
	for _, key := range []string{"$defs", "definitions", "$schema"} {
		if v, ok := members[key]; ok {
			object[key] = v
			delete(members, key)
		}
	}
	if members != nil {
		object["properties"] = map[string]any{outputKey: members}
	} else {
		object["properties"] = map[string]any{outputKey: schema}
	}
	var out bytes.Buffer
	err := json.NewEncoder(&out).Encode(object)
	return bytes.TrimSpace(out.Bytes()), err
}
