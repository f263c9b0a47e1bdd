package providertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/parleyrun/parley/providers"
)

// BenchmarkEncode measures encoding the next call of a conversation: in one list, and with all but the
// latest turns in blocks that are already encoded.
func BenchmarkEncode(b *testing.B, codec providers.Codec) {
	m := providers.Model{Provider: "p", ID: "m"}
	encode := func(b *testing.B, req providers.Request) {
		b.ReportAllocs()
		for b.Loop() {
			treq, o := providers.Transform(m, req, providers.Options{})
			if _, err := codec.Encode(m, treq, o); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, turns := range []int{10, 1000} {
		b.Run(fmt.Sprintf("list/%d", turns), func(b *testing.B) { encode(b, providers.Request{Messages: exchange(turns)}) })
		b.Run(fmt.Sprintf("blocks/%d", turns), func(b *testing.B) {
			req := providers.Request{Messages: exchange(5)}
			for range (turns - 5) / 20 {
				req.History = append(req.History, providers.NewBlock(exchange(20)))
			}
			encode(b, req)
		})
	}
}

// BenchmarkDecode measures decoding a reply that arrives in one piece.
func BenchmarkDecode(b *testing.B, codec providers.Codec, reply []byte) {
	b.ReportAllocs()
	for b.Loop() {
		a := providers.NewAssembler(func(providers.Event) bool { return true })
		if err := codec.Decode(bytes.NewReader(reply), a); err != nil {
			b.Fatal(err)
		}
	}
}

// exchange returns a conversation of short turns, one in ten of which calls a tool.
func exchange(turns int) []providers.Message {
	var out []providers.Message
	for n := range turns {
		out = append(out, providers.Message{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: fmt.Sprintf("question %d", n)}}})
		if n%10 == 0 {
			id := fmt.Sprintf("call_%d", n)
			out = append(out,
				providers.Message{Role: providers.RoleAssistant, Model: "p/m", Parts: []providers.Part{
					providers.ToolCall{ID: id, Name: "add", Arguments: json.RawMessage(`{"a":1,"b":2}`)},
				}},
				providers.Message{Role: providers.RoleTool, Parts: []providers.Part{
					providers.ToolResult{CallID: id, Name: "add", Content: []providers.Part{providers.Text{Text: "3"}}},
				}})
		}
		out = append(out, providers.Message{Role: providers.RoleAssistant, Model: "p/m", Parts: []providers.Part{
			providers.Text{Text: "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18 w19 w20"},
		}})
	}
	return out
}
