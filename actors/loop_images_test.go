package actors_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// sighted is the model of spec with image input.
var sighted = providers.Model{Provider: "test", ID: "model", API: "test", Input: []string{providers.InputText, providers.InputImage}}

// strict is a vendor that validates each picture and rejects a request with an invalid one. Otherwise
// it answers with the number of pictures.
func strict(_ context.Context, req providers.Request, a *providers.Assembler) error {
	req, _ = providers.Transform(sighted, req, providers.Options{})
	seen := 0
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			parts := []providers.Part{p}
			if r, ok := p.(providers.ToolResult); ok {
				parts = r.Content
			}
			for _, p := range parts {
				i, ok := p.(providers.Image)
				if !ok {
					continue
				}
				if seen++; !acceptable(i) {
					return &providers.Error{Kind: providers.KindInvalidRequest, Status: http.StatusBadRequest, Body: []byte("Could not process image")}
				}
			}
		}
	}
	return replies(fmt.Sprintf("I see %d.", seen))(context.Background(), req, a)
}

// acceptable reports whether a strict vendor accepts a picture: complete, of the declared type, not
// animated, at most 5 MiB of base64, and 2 to 8,000 pixels a side.
func acceptable(i providers.Image) bool {
	data, err := fetch(i.Content)
	if err != nil || base64.StdEncoding.EncodedLen(len(data)) > 5<<20 || bytes.Contains(data, []byte("acTL")) {
		return false
	}
	c, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || "image/"+format != i.MimeType || max(c.Width, c.Height) > 8000 || min(c.Width, c.Height) < 2 {
		return false
	}
	if all, err := gif.DecodeAll(bytes.NewReader(data)); format == "gif" && (err != nil || len(all.Image) > 1) {
		return false
	}
	_, _, err = image.Decode(bytes.NewReader(data))
	return err == nil
}

func (n *node) attach(at conversation.Address, key string, data []byte, mimeType string) {
	n.w.tb.Helper()
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	if err := n.rt.Stage(context.Background(), at, conversation.Blob{Content: bytes.NewReader(data), Size: int64(len(data)), Digest: digest}); err != nil {
		n.w.tb.Fatal(err)
	}
	m := message(at, key, "What is this?")
	m.Delivery.Attachments = []conversation.Attachment{{SHA256: digest, Size: int64(len(data)), MimeType: mimeType, Filename: "file"}}
	n.accept(m)
}

// file is a file sent as an image.
type file struct {
	name, mimeType string
	data           []byte
	calls          int // of the model until it answers, then 1
}

// movement is a GIF with two frames.
func movement(t *testing.T) []byte {
	frame := image.NewPaletted(image.Rect(0, 0, 9, 9), color.Palette{color.Black, color.White})
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{frame, frame}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func photo(t *testing.T) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 64, 64)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// claiming is a PNG that declares a size and has no pixels.
func claiming(t *testing.T, side uint32) []byte {
	t.Helper()
	whole := drawn(t, 1, 1)
	head := fmt.Appendf(nil, "IHDR%s%s", be32(side), be32(side))
	head = append(head, whole[24:29]...)
	return bytes.Join([][]byte{whole[:12], head, crc(head), whole[33:]}, nil)
}

// hostile returns files that a conversation must survive.
func hostile(t *testing.T) []file {
	png, jpeg := drawn(t, 64, 64), photo(t)
	idat := bytes.Index(png, []byte("IDAT"))
	flipped := bytes.Clone(png)
	flipped[idat+8] ^= 0xff
	chunk := []byte("acTL\x00\x00\x00\x02\x00\x00\x00\x00")
	moving := bytes.Join([][]byte{png[:33], {0, 0, 0, 8}, chunk, crc(chunk), png[33:]}, nil)
	const webp = "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"
	return []file{
		{"pdf", "image/png", []byte("%PDF-1.7\n1 0 obj\n<<>>\nendobj\n"), 1},
		{"svg", "image/svg+xml", []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="1e9" height="1e9"/>`), 1},
		{"svg as png", "image/png", []byte(`<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`), 1},
		{"html", "image/png", []byte("<!doctype html><script>alert(1)</script>"), 1},
		{"json", "image/jpeg", []byte(`{"image":true}`), 1},
		{"text", "text/plain", []byte("I am no image."), 1},
		{"one byte", "image/png", []byte{0}, 1},
		{"zeros", "image/png", make([]byte, 4096), 1},
		{"zip", "image/webp", []byte("PK\x03\x04\x14\x00\x00\x00\x08\x00"), 1},
		{"program", "image/gif", []byte("MZ\x90\x00\x03\x00\x00\x00"), 1},
		{"sound", "image/webp", []byte("RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00"), 1},
		{"film", "image/png", []byte("\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"), 1},
		{"heic", "image/heic", []byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic"), 1},
		{"avif", "image/avif", []byte("\x00\x00\x00\x18ftypavif\x00\x00\x00\x00mif1avif"), 1},
		{"tiff", "image/tiff", []byte("II*\x00\x08\x00\x00\x00"), 1},
		{"bmp", "image/bmp", []byte("BM\x46\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00"), 1},
		{"icon", "image/x-icon", []byte("\x00\x00\x01\x00\x01\x00\x10\x10\x00\x00"), 1},
		{"postscript", "image/png", []byte("%!PS-Adobe-3.0 EPSF-3.0\n"), 1},
		{"a beginning", "image/png", png[:8], 1},
		{"a cut header", "image/png", png[:30], 1},
		{"a cut jpeg header", "image/jpeg", jpeg[:10], 1},
		{"a bomb", "image/png", claiming(t, 60_000), 1},
		{"a larger bomb", "image/png", claiming(t, 1<<28), 1},
		{"no pixels", "image/png", claiming(t, 0), 1},
		{"very heavy", "image/png", append(bytes.Clone(png), make([]byte, 16<<20)...), 1},
		{"of another type", "image/png", jpeg, 1},
		{"of no type", "image/x-unknown", png, 1},
		{"cut", "image/png", png[:len(png)-20], 2},
		{"a header alone", "image/png", png[:33], 2},
		{"cut jpeg", "image/jpeg", jpeg[:len(jpeg)-30], 2},
		{"damaged", "image/png", flipped, 2},
		{"moving gif", "image/gif", movement(t), 2},
		{"moving png", "image/png", moving, 2},
		{"webp that this vendor does not know", "image/webp", []byte(webp), 2},
		{"wider than this vendor takes", "image/png", drawn(t, 9000, 2), 2},
		{"heavier than this vendor takes", "image/png", append(bytes.Clone(png), make([]byte, 4<<20)...), 2},
		{"one pixel", "image/png", drawn(t, 1, 1), 2},
	}
}

// TestHostileFiles: a message with any file as an image is answered, and so is the next one, at once,
// also by another node. Clients see the files as sent.
// covers: providers/178
func TestHostileFiles(t *testing.T) {
	files := hostile(t)
	inLoop(t, func(t *testing.T, l *loop) {
		c := onlyModel(strict)
		n := l.run(part{opts: agents(chatAgent()), vendor: c, page: 1})
		asked := 0
		calls := func(desc string, want int) {
			t.Helper()
			now := len(c.requests(""))
			if now-asked != want {
				t.Errorf("%s: got %d model calls, want %d", desc, now-asked, want)
			}
			asked = now
		}
		for i, f := range files {
			at := chat(fmt.Sprint("c", i))
			n.attach(at, "1", f.data, f.mimeType)
			l.completes(at, 1)
			calls(f.name, f.calls)
			n.admit(at, "2", "And now?")
			l.completes(at, 2)
			calls("after "+f.name, 1)
			shown := n.snapshot(at).Messages[0].Parts[1]
			if shown.MediaType != f.mimeType || *shown.Size != int64(len(f.data)) {
				t.Errorf("%s: got public part %+v", f.name, shown)
			}
		}
		n.crash()
		n = l.run(part{opts: agents(chatAgent()), vendor: c, page: 1})
		for i, f := range files {
			at := chat(fmt.Sprint("c", i))
			n.admit(at, "3", "Still there?")
			l.completes(at, 3)
			calls("another node, after "+f.name, 1)
		}
	})
}

// TestHostileFilesTogether sends them to one conversation, one after the other, mixed with valid
// images, which the model still gets.
func TestHostileFilesTogether(t *testing.T) {
	files := hostile(t)
	inLoop(t, func(t *testing.T, l *loop) {
		c := onlyModel(strict)
		n := l.run(part{opts: agents(chatAgent()), vendor: c, page: 1})
		n.attach(chat("c"), "good", drawn(t, 9, 9), "image/png")
		l.completes(chat("c"), 1)
		want := 1
		for i, f := range files {
			n.attach(chat("c"), f.name, f.data, f.mimeType)
			l.completes(chat("c"), i+2)
			if strings.HasPrefix(f.name, "of ") { // accepted by their detected type
				want++
			}
			texts := responses(n.snapshot(chat("c")))
			if got := texts[len(texts)-1]; got != fmt.Sprintf("I see %d.", want) {
				t.Errorf("after %s: got %s, want %d", f.name, got, want)
			}
		}
	})
}

// responses returns the texts of all responses.
func responses(s conversation.Snapshot) []string {
	var out []string
	for _, m := range s.Messages {
		if m.Role == conversation.RoleAssistant {
			out = append(out, *m.Parts[0].Text)
		}
	}
	return out
}

// TestHostileFileOfATool covers subagents, too.
func TestHostileFileOfATool(t *testing.T) {
	cut := drawn(t, 64, 64)
	cut = cut[:len(cut)-20]
	draw := agent.NewTool("draw", "Draws.", func(context.Context, struct{}) (agent.Result, error) {
		return agent.Result{Output: "here", Images: []agent.Image{{MimeType: "image/png", Data: cut}}}, nil
	}, nil)
	inLoop(t, func(t *testing.T, l *loop) {
		a := withSubagents(chatAgent(draw), researcher(draw))
		c := &vendor{models: map[string]script{
			"model": inTurn(toolCalls("draw", task("researcher", "Paint.")), strict), "child": inTurn(toolCalls("draw"), strict),
		}}
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		n.admit(chat("c"), "2", "and?")
		l.completes(chat("c"), 2)
		if model, child := len(c.requests("model")), len(c.requests("child")); model != 4 || child != 3 {
			t.Errorf("got %d model calls and %d of the child, want 4 and 3", model, child)
		}
		if got := only[*conversation.ImagesRefused](l.records(chat("c"))); len(got) != 2 || got[0].Model != "test/child" {
			t.Errorf("got recorded refusals %+v", got)
		}
		wants(t, "the last request", strings.Join(c.last(t, "model"), "\n"), "here", "An image was left out here: the model's vendor refuses it.")
	})
}

// TestRefusalNotCausedByImages: two retries without images fail as well, and nothing is recorded.
func TestRefusalNotCausedByImages(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		c := onlyModel(inTurn(strict, fails(&providers.Error{Kind: providers.KindInvalidRequest, Status: 400}),
			fails(&providers.Error{Kind: providers.KindInvalidRequest, Status: 400}), fails(&providers.Error{Kind: providers.KindInvalidRequest, Status: 400}), strict))
		n := l.run(part{opts: agents(chatAgent()), vendor: c})
		n.attach(chat("c"), "1", drawn(t, 9, 9), "image/png")
		l.completes(chat("c"), 1)
		n.attach(chat("c"), "2", drawn(t, 8, 8), "image/png")
		if got := l.settles(chat("c"), 2); got[1].Outcome != conversation.OutcomeFailed {
			t.Errorf("got settlement %+v", got[1])
		}
		n.admit(chat("c"), "3", "and?")
		l.completes(chat("c"), 3)
		if got := responses(n.snapshot(chat("c"))); got[len(got)-1] != "I see 2." || len(c.requests("")) != 5 {
			t.Errorf("after %d calls: got %q", len(c.requests("")), got)
		}
	})
}

func be32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func crc(b []byte) []byte { return be32(crc32.ChecksumIEEE(b)) }

// TestImagesExceedRequestSize: images are dropped from a request that is too large, because a summary would
// not shrink them. The newest stays. Without images, the text is summarized.
// covers: providers/180
func TestImagesExceedRequestSize(t *testing.T) {
	tooLarge := &providers.Error{Kind: providers.KindContextOverflow, Status: http.StatusRequestEntityTooLarge}
	for name, refusal := range map[string]*providers.Error{
		"bytes":  tooLarge,
		"images": {Kind: providers.KindInvalidRequest, Status: 400, Err: &providers.VendorError{Message: "Too many images: at most 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				c := onlyModel(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
					text := strings.Join(shown(req), "\n")
					switch n := strings.Count(text, "[image/png]"); {
					case n > 1:
						return refusal
					case strings.Contains(text, "too long"):
						return tooLarge
					default:
						return replies(fmt.Sprintf("I see %d.", n))(ctx, req, a)
					}
				})
				n := l.run(part{opts: agents(chatAgent()), vendor: c})
				n.attach(chat("c"), "1", drawn(t, 9, 9), "image/png")
				l.completes(chat("c"), 1)
				n.attach(chat("c"), "2", drawn(t, 8, 8), "image/png")
				l.completes(chat("c"), 2)
				if got := responses(n.snapshot(chat("c"))); got[1] != "I see 1." || len(c.requests("")) != 3 {
					t.Errorf("after %d calls: got %q", len(c.requests("")), got)
				}
				n.admit(chat("c"), "3", "too long")
				if got := l.settles(chat("c"), 3); got[2].Outcome != conversation.OutcomeFailed {
					t.Errorf("got settlement %+v", got[2])
				}
				first := only[*conversation.SubmissionAdmitted](l.records(chat("c")))[0].Delivery.Attachments[0].ID
				if got := only[*conversation.ImagesRefused](l.records(chat("c"))); len(got) != 1 || !slices.Equal(got[0].Attachments, []conversation.AttachmentID{first}) {
					t.Errorf("got recorded refusals %+v, want %s", got, first)
				}
			})
		})
	}
}

// TestImagesExceedVendorLimit: no request exceeds a known limit of images. The newest is always
// included, and the prefix of requests changes only with every third image, also on another node.
// covers: providers/179
func TestImagesExceedVendorLimit(t *testing.T) {
	const most = 4
	one := drawn(t, 9, 9)
	for name, limits := range map[string]providers.InputLimits{
		"images": {Images: most},
		"bytes":  {RequestBytes: 64 << 10},
	} {
		data := one
		if name == "bytes" { // four of them, and not five
			data = append(bytes.Clone(one), make([]byte, 9<<10)...)
		}
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				c := onlyModel(strict)
				p := part{opts: agents(chatAgent()), vendor: c, page: 1, limits: limits}
				n := l.run(p)
				var last []string
				for i := range 12 {
					if i == 8 {
						n.crash()
						n = l.run(p)
					}
					n.attach(chat("c"), fmt.Sprint(i), data, "image/png")
					l.completes(chat("c"), i+1)
					want := i + 1
					if want > most {
						want = 2 + (i-most)%3
					}
					seen := c.last(t, "model")
					if got := strings.Count(strings.Join(seen, "\n"), "[image/png]"); got != want || !strings.Contains(seen[len(seen)-1], "[image/png]") {
						t.Errorf("message %d: got %d images in the prompt, want %d: %q", i, got, want, seen)
					}
					if same := len(seen) > len(last) && slices.Equal(seen[:len(last)], last); same != (i < most || want > 2) {
						t.Errorf("message %d: got prefix kept %v", i, same)
					}
					last = seen
				}
				if got := len(c.requests("")); got != 12 {
					t.Errorf("got %d requests of 12 messages", got)
				}
				if got := only[*conversation.ImagesRefused](l.records(chat("c"))); len(got) != 0 {
					t.Errorf("got recorded refusals %+v", got)
				}
			})
		})
	}
}
