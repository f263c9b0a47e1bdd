package providertest

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// RunHistory verifies over random conversations that the body of a request with History is byte for
// byte the one without. It covers blocks that are new, reused while the conversation grows, omitted,
// or evicted. It also changes the model between two requests. The argument signatures has some of the
// codec's vendor.
func RunHistory(t *testing.T, c providers.Codec, signatures []string) {
	RunHistoryOf(t, c, "m", signatures)
}

// RunHistoryOf is RunHistory for codecs that treat the model id specially.
func RunHistoryOf(t *testing.T, c providers.Codec, id string, signatures []string) {
	for seed := range uint64(100) {
		g := &conversations{r: rand.New(rand.NewPCG(seed, 1)), id: id, signatures: signatures}
		checkHistory(t, c, g)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func checkHistory(t *testing.T, c providers.Codec, g *conversations) {
	models := []providers.Model{
		{Provider: "p", ID: g.id, Reasoning: true, Input: []string{providers.InputText, providers.InputImage}},
		{Provider: "p", ID: g.id, Input: []string{providers.InputText}},
		{Provider: "p", ID: "other", Input: []string{providers.InputText, providers.InputImage}},
	}
	m := models[0]
	var all, tail []providers.Message
	var blocks []*providers.Block
	var sizes []int
	for range 12 {
		added := g.exchange()
		all, tail = append(all, added...), append(tail, added...)
		req := providers.Request{System: "s", History: blocks, Messages: tail}
		want := encoded(t, c, m, providers.Request{System: "s", Messages: all})
		if diff := cmp.Diff(want, encoded(t, c, m, req)); diff != "" {
			t.Errorf("%d blocks, %d messages after them (-without +with history):\n%s", len(blocks), len(tail), diff)
			return
		}
		if g.r.IntN(2) == 0 {
			blocks, sizes, tail = append(blocks, providers.NewBlock(tail)), append(sizes, len(tail)), nil
		}
		if g.r.IntN(4) == 0 {
			m = models[g.r.IntN(len(models))]
		}
		if n := len(blocks); n > 0 && g.r.IntN(4) == 0 {
			blocks[g.r.IntN(n)].Evict()
		}
		if len(blocks) > 0 && g.r.IntN(8) == 0 {
			blocks, all, sizes = blocks[1:], all[sizes[0]:], sizes[1:]
		}
	}
}

func encoded(t *testing.T, c providers.Codec, m providers.Model, req providers.Request) string {
	req, o := providers.Transform(m, req, providers.Options{})
	call, err := c.Encode(m, req, o)
	if err != nil {
		t.Fatal(err)
	}
	body := call.Body.Open(t.Context())
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil || int64(len(b)) != call.Body.Size() {
		t.Fatalf("read %d bytes of %d, %v", len(b), call.Body.Size(), err)
	}
	if !json.Valid(b) {
		t.Fatalf("not JSON: %s", b)
	}
	return string(b)
}

// conversations generates random exchanges with everything that codecs treat specially.
type conversations struct {
	r          *rand.Rand
	id         string // model id
	signatures []string
}

// exchange returns a message of a user and usually some steps of the model.
func (g *conversations) exchange() []providers.Message {
	out := []providers.Message{{Role: providers.RoleUser, Parts: g.content(2)}}
	for range g.r.IntN(4) {
		switch g.r.IntN(5) {
		case 0:
			out = append(out, providers.Message{Role: providers.RoleUser, Parts: g.content(1)})
		default:
			out = append(out, g.step()...)
		}
	}
	return out
}

func (g *conversations) content(most int) []providers.Part {
	var parts []providers.Part
	for range g.r.IntN(most + 1) {
		if g.r.IntN(4) == 0 {
			picture := providers.Bytes(g.text() + "picture")
			parts = append(parts, providers.Image{MimeType: "image/png", Content: picture})
			continue
		}
		parts = append(parts, providers.Text{Text: g.text()})
	}
	return parts
}

func (g *conversations) text() string {
	return []string{"", " \n", "hello <b>&", "\u2028\x00\xff\"\\", "größer"}[g.r.IntN(5)]
}

// step returns a reply of the model and the results of its calls, some of them missing.
func (g *conversations) step() []providers.Message {
	reply := providers.Message{Role: providers.RoleAssistant, Model: []string{"p/" + g.id, "p/other", ""}[g.r.IntN(3)]}
	results := providers.Message{Role: providers.RoleTool}
	for range g.r.IntN(4) {
		switch g.r.IntN(3) {
		case 0:
			signature := ""
			if n := g.r.IntN(len(g.signatures) + 1); n > 0 {
				signature = g.signatures[n-1]
			}
			reply.Parts = append(reply.Parts, providers.Reasoning{Text: g.text(), Signature: signature})
		case 1:
			reply.Parts = append(reply.Parts, providers.Text{Text: g.text()})
		default:
			id := []string{"", "call_0", "call 0", "call_1", fmt.Sprint("c", g.r.IntN(1000))}[g.r.IntN(5)]
			arguments := []string{"", `{"n": 12345678901234567890}`, `[1]`, `{"cut`}[g.r.IntN(4)]
			reply.Parts = append(reply.Parts, providers.ToolCall{ID: id, Name: "add", Arguments: json.RawMessage(arguments)})
			if g.r.IntN(4) > 0 {
				results.Parts = append(results.Parts, providers.ToolResult{
					CallID: id, Name: "add", Content: g.content(2), IsError: g.r.IntN(3) == 0,
				})
			}
		}
	}
	if len(results.Parts) == 0 {
		return []providers.Message{reply}
	}
	return []providers.Message{reply, results}
}

// FuzzSignatures verifies that a request with any signature, over any text, can be encoded, because
// codecs decode the signatures that their vendor sends.
func FuzzSignatures(f *testing.F, c providers.Codec, signatures []string) {
	for _, s := range signatures {
		f.Add("hm", s)
	}
	m := providers.Model{Provider: "p", ID: "m", Reasoning: true}
	f.Fuzz(func(t *testing.T, text, signature string) {
		encoded(t, c, m, providers.Request{Messages: []providers.Message{
			{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "q"}}},
			{Role: providers.RoleAssistant, Model: "p/m", Parts: []providers.Part{
				providers.Reasoning{Text: text, Signature: signature}, providers.Text{Text: text, Signature: signature},
				providers.ToolCall{ID: "c", Name: "f", Arguments: json.RawMessage(`{}`), Signature: signature},
			}},
		}})
	})
}
