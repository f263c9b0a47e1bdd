package fakemodel_test

import (
	"strings"
	"testing"
)

// TestResponsesBadCalls verifies the rejection of calls that the vendor rejects.
func TestResponsesBadCalls(t *testing.T) {
	const (
		openAI, azure, codex = "/v1/responses", "/openai/v1/responses", "/backend-api/codex/responses"

		asks    = `{"role":"user","content":"x"}`
		calls   = asks + `,{"type":"function_call","call_id":"c1","name":"a","arguments":"{}"}`
		answers = calls + `,{"type":"function_call_output","call_id":"c1","output":"1"}`
		thinks  = asks + `,{"type":"reasoning","summary":[],"encrypted_content":"x"}`
		message = asks + `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}`
	)
	for name, tt := range map[string]struct{ path, input, more, want string }{
		"no input":             {openAI, ``, ``, "messages are missing"},
		"ends with answer":     {azure, message, ``, "last message"},
		"unknown role":         {openAI, `{"role":"tool","content":"x"}`, ``, "unknown role"},
		"unknown item":         {openAI, asks + `,{"type":"call"}`, ``, "unknown item type"},
		"unknown member":       {openAI, asks, `,"messages":[]`, "unknown field"},
		"id of an item":        {openAI, strings.Replace(calls, `"name"`, `"id":"x","name"`, 1), ``, "unknown field"},
		"late system":          {openAI, asks + `,{"role":"developer","content":"x"}`, ``, "must come first"},
		"system of an account": {codex, `{"role":"system","content":"x"},` + asks, `,"stream":true,"instructions":"x"`, "are instructions"},
		"no content":           {openAI, `{"role":"user"}`, ``, "content is missing"},
		"text of the other":    {openAI, strings.Replace(message, "output_text", "input_text", 1), ``, `invalid value \"input_text\"`},
		"url as an object":     {openAI, `{"role":"user","content":[{"type":"input_image","image_url":{"url":"data:image/png;base64,YQ=="}}]}`, ``, "decode content"},
		"no data URL":          {openAI, `{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,?"}]}`, ``, "data URL"},
		"image of the model":   {openAI, strings.Replace(message, "output_text", "input_image", 1), ``, "invalid value"},
		"unknown phase":        {openAI, strings.Replace(message, `"role":"assistant"`, `"role":"assistant","phase":"x"`, 1), ``, "unknown phase"},
		"call not answered":    {openAI, calls + `,` + asks, ``, "not answered"},
		"answered twice":       {openAI, answers + `,{"type":"function_call_output","call_id":"c1","output":"1"}`, ``, "no open call"},
		"no output":            {openAI, strings.Replace(answers, `,"output":"1"`, ``, 1), ``, "content is missing"},
		"long id":              {openAI, strings.ReplaceAll(answers, "c1", strings.Repeat("c", 65)), ``, "too long"},
		"bad arguments":        {openAI, strings.Replace(answers, "{}", "{", 1), ``, "not JSON"},
		"reasoning only":       {openAI, thinks + `,` + asks, ``, "required following item"},
		"reasoning at the end": {azure, thinks, ``, "required following item"},
		"reasoning of another": {azure, thinks + strings.TrimPrefix(answers, asks), ``, "invalid_encrypted_content"},
		"reasoning lost":       {openAI, asks, `,"reasoning":{"effort":"low"}`, "include lacks"},
		"temperature":          {openAI, asks, `,"reasoning":{"effort":"low"},"temperature":1`, "temperature"},
		"small limit":          {openAI, asks, `,"max_output_tokens":15`, "minimum value 16"},
		"long key":             {openAI, asks, `,"prompt_cache_key":"` + strings.Repeat("k", 65) + `"`, "too long"},
		"limit of an account":  {codex, asks, `,"stream":true,"instructions":"x","max_output_tokens":99`, `{"detail":"unsupported parameter`},
		"stored":               {codex, asks, `,"stream":true,"instructions":"x","store":true`, "store"},
		"not streamed":         {codex, asks, `,"instructions":"x"`, "stream must"},
		"no instructions":      {codex, asks, `,"stream":true`, "instructions are required"},
		"error of azure":       {azure, ``, ``, `{"error":{"code":"400","message":"messages`},
	} {
		t.Run(name, func(t *testing.T) { refused(t, tt.path, `{"model":"m","input":[`+tt.input+`]`+tt.more+`}`, tt.want) })
	}
}

func FuzzResponses(f *testing.F) {
	f.Add(`{"role":"user","content":"tokens=1"}`)
	f.Add(`{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"c","name":"a","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"r"}]}`)
	f.Fuzz(func(t *testing.T, input string) {
		for _, stream := range []string{"true", "false"} {
			answer(t, "/v1/responses", `{"model":"m","max_output_tokens":50,"stream":`+stream+`,"input":[`+input+`]}`)
		}
	})
}
