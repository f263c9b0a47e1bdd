package bedrockconverse_test

import (
	"bytes"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/eventstream"
)

// nothing is an empty environment.
func nothing(string) string { return "" }

// environment returns an environment with vars.
func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// newCodec returns a codec with an empty environment.
func newCodec() providers.Codec {
	return bedrockconverse.NewCodec(&bedrockconverse.Options{Getenv: nothing})
}

// frame encodes an event, written as its type, a space and the payload. A type that ends in Exception
// is an exception.
func frame(written string) []byte {
	kind, payload, _ := strings.Cut(written, " ")
	headers := []eventstream.Header{{Name: ":event-type", Value: kind}, {Name: ":content-type", Value: "application/json"}, {Name: ":message-type", Value: "event"}}
	if strings.HasSuffix(kind, "Exception") {
		headers[0].Name, headers[2].Value = ":exception-type", "exception"
	}
	return eventstream.AppendMessage(nil, headers, []byte(payload))
}

// stream encodes a response.
func stream(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.Write(frame(e))
	}
	return b.String()
}

// framing is the framing of the suites.
type framing struct{}

// Frame implements providertest.Framing.
func (framing) Frame(data string) []byte { return frame(data) }

// Variants implements providertest.Framing: other header orders and types, padding, and unknown
// events.
func (framing) Variants(body []byte) map[string][]byte {
	var turned, padded, unknown []byte
	r := eventstream.NewReader(bytes.NewReader(body), nil)
	for m, err := r.Next(); err == nil; m, err = r.Next() {
		kind, payload := m.Text(":event-type"), string(m.Payload)
		turned = eventstream.AppendMessage(turned, []eventstream.Header{
			{Name: ":message-type", Value: "event"}, {Name: "other", Value: strings.Repeat("x", 300)}, {Name: ":event-type", Value: kind},
		}, m.Payload)
		padded = append(padded, frame(kind+" "+strings.TrimSuffix(payload, "}")+`,"p":"abcdefghijklmnopqrstuvwxyz"}`)...)
		unknown = append(append(unknown, frame(`weather {"contentBlockIndex":"none"}`)...), frame(kind+" "+payload)...)
	}
	return map[string][]byte{"headers in another order": turned, "padding": padded, "unknown events": unknown}
}

func start(block, id, name string) string {
	return `contentBlockStart {"contentBlockIndex":` + block + `,"start":{"toolUse":{"toolUseId":"` + id + `","name":"` + name + `"}}}`
}

func delta(block, desc string) string {
	return `contentBlockDelta {"contentBlockIndex":` + block + `,"delta":` + desc + `}`
}

func stop(block string) string { return `contentBlockStop {"contentBlockIndex":` + block + `}` }

func text(s string) string { return `{"text":"` + s + `"}` }

func thought(member, s string) string { return `{"reasoningContent":{"` + member + `":"` + s + `"}}` }

func input(fragment string) string { return `{"toolUse":{"input":"` + fragment + `"}}` }

const (
	begin = `messageStart {"role":"assistant"}`
	end   = `messageStop {"stopReason":"end_turn"}`
	used  = `metadata {"metrics":{"latencyMs":422},"usage":{"inputTokens":5,"outputTokens":9,"totalTokens":14}}`
)

// recording contains every kind of output: two reasoning blocks and a redacted one, non-ASCII text,
// empty texts, unknown blocks and events, two calls.
func recording() (body string, complete int) {
	toStop := stream(begin,
		delta("0", text("")), stop("0"),
		delta("1", thought("text", "Hm, ")), delta("1", thought("text", "néw")), delta("1", thought("signature", "c2ln")), stop("1"),
		`contentBlockStart {"contentBlockIndex":2,"start":{}}`, delta("2", text("Grüße 😀")), stop("2"),
		`contentBlockStart {"contentBlockIndex":3,"start":{"image":{"format":"png"}}}`, delta("3", `{"image":{"source":{}}}`), stop("3"),
		`weather {"delta":"rain"}`,
		delta("4", thought("redactedContent", "cmVk")), stop("4"),
		delta("5", thought("text", "so")), delta("5", thought("signature", "c28=")), stop("5"),
		start("6", "tooluse_0", "add"), delta("6", input("")), delta("6", input(`{\"n\":123456789`)), delta("6", input(`01234567890}`)), stop("6"),
		start("7", "tooluse_1", "now"), stop("7"),
		`messageStop {"stopReason":"tool_use","additionalModelResponseFields":{}}`)
	return toStop + stream(`metadata {"metrics":{"latencyMs":1},"usage":{"inputTokens":5,"outputTokens":9,"totalTokens":64,"cacheReadInputTokens":20,`+
		`"cacheWriteInputTokens":30,"cacheDetails":[{"ttl":"5m","inputTokens":10},{"ttl":"1h","inputTokens":20}]},"trace":{}}`), len(toStop)
}
