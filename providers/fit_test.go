package providers_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

const noRoom = "(An older image was left out here: this model takes no more of them in one request.)"

// picture returns an image of the given size in bytes of base64.
func picture(encoded int64) providers.Image { return known(encoded/4*3, "image/png", 1, 1) }

// viewer returns a model with limits.
func viewer(l providers.InputLimits) providers.Model {
	return providers.Model{Provider: "p", ID: "m", API: "a", Input: []string{"text", "image"}, InputLimits: l}
}

// fitted returns, for each image of a request, its bytes, or "-" if it was removed.
func fitted(t testing.TB, m providers.Model, req providers.Request) (out []string) {
	t.Helper()
	req = providers.Fit(m, req)
	var messages []message
	for _, b := range req.History {
		messages = append(messages, b.Messages()...)
	}
	for _, msg := range append(messages, req.Messages...) {
		for _, p := range msg.Parts {
			list := parts{p}
			if r, ok := p.(providers.ToolResult); ok {
				list = r.Content
			}
			for _, p := range list {
				switch p := p.(type) {
				case providers.Image:
					out = append(out, fmt.Sprint(p.Content.Size()/3*4))
				case providers.Text:
					if p.Text == noRoom {
						out = append(out, "-")
					}
				}
			}
		}
	}
	return out
}

// covers: providers/179
func TestFit(t *testing.T) {
	one, assistantMessage := picture(4), assistant(text("ok"))
	pictures := func(n int) (out parts) {
		for range n {
			out = append(out, one)
		}
		return out
	}
	heavy := func(sizes ...int64) (out []message) {
		for _, size := range sizes {
			out = append(out, user(text("x"), picture(size)), assistantMessage)
		}
		return out
	}
	drawn := func(n int) []message {
		return []message{assistant(call("a", `{}`)), tool(providers.ToolResult{CallID: "a", Content: pictures(n)})}
	}
	each := func(n int) (out []message) {
		for range n {
			out = append(out, user(text("x"), one), assistantMessage)
		}
		return out
	}
	for _, tt := range []struct {
		name   string
		limits providers.InputLimits
		in     []message
		want   []string
	}{
		{"nothing is known", providers.InputLimits{ImageBytes: 1, ImageSide: 1}, each(5), []string{"4", "4", "4", "4", "4"}},
		{"as many as may be", providers.InputLimits{Images: 4}, each(4), []string{"4", "4", "4", "4"}},
		{"one more: half of the room is free again", providers.InputLimits{Images: 4}, each(5), []string{"-", "-", "-", "4", "4"}},
		{"room that was made is used", providers.InputLimits{Images: 4}, each(7), []string{"-", "-", "-", "4", "4", "4", "4"}},
		{"and made again", providers.InputLimits{Images: 4}, each(8), []string{"-", "-", "-", "-", "-", "-", "4", "4"}},
		{"one at a time", providers.InputLimits{Images: 1}, each(3), []string{"-", "-", "4"}},
		{"new images stay", providers.InputLimits{Images: 4}, append(each(3), user(pictures(3)...)), []string{"-", "-", "-", "4", "4", "4"}},
		{"too many new images", providers.InputLimits{Images: 4}, append(each(3), user(pictures(6)...)),
			[]string{"-", "-", "-", "-", "-", "4", "4", "4", "4"}},
		{"of a tool, and after it", providers.InputLimits{Images: 4}, slices.Concat(each(3), drawn(2), []message{user(one)}),
			[]string{"-", "-", "-", "4", "4", "4"}},
		{"in one message", providers.InputLimits{ImagesPerMessage: 2}, append([]message{user(pictures(3)...)}, drawn(3)...),
			[]string{"-", "4", "4", "-", "4", "4"}},
		{"bytes: 3,500 of 4,000 are for messages", providers.InputLimits{RequestBytes: 4000}, heavy(1000, 1000, 1000, 400), []string{"1000", "1000", "1000", "400"}},
		{"too many bytes", providers.InputLimits{RequestBytes: 4000}, heavy(1000, 1000, 1000, 1000), []string{"-", "-", "-", "1000"}},
		{"heavy, but new", providers.InputLimits{RequestBytes: 4000}, heavy(1000, 3000), []string{"-", "3000"}},
		{"too heavy by itself", providers.InputLimits{RequestBytes: 4000}, heavy(1000, 3600, 400), []string{"-", "-", "400"}},
		{"text takes their room", providers.InputLimits{RequestBytes: 4000}, append(heavy(1000, 1000), user(text(fmt.Sprintf("%2000d", 0)))), []string{"-", "-"}},
		{"text alone is too much", providers.InputLimits{RequestBytes: 4000}, append(heavy(40), user(text(fmt.Sprintf("%5000d", 0)))), []string{"-"}},
	} {
		m := viewer(tt.limits)
		if diff := cmp.Diff(tt.want, fitted(t, m, providers.Request{Messages: tt.in})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		for cut := range tt.in {
			req := providers.Request{History: []*providers.Block{providers.NewBlock(tt.in[:cut])}, Messages: tt.in[cut:]}
			if diff := cmp.Diff(tt.want, fitted(t, m, req)); diff != "" {
				t.Errorf("%s, %d messages of it as history (-want +got):\n%s", tt.name, cut, diff)
			}
		}
	}
}

// TestFitIgnoresOtherImages: images that the model does not accept take no room. The input is
// unchanged.
func TestFitIgnoresOtherImages(t *testing.T) {
	pdf := known(40, "", 0, 0)
	in := []message{user(pdf, picture(4), pdf, picture(4)), assistant(text("ok")), user(pdf, picture(4))}
	before := []message{user(in[0].Parts...), in[1], user(in[2].Parts...)}
	req := providers.Request{Messages: in}
	got := providers.Fit(viewer(providers.InputLimits{Images: 2}), req)
	want := []message{user(pdf, text(noRoom), pdf, text(noRoom)), assistant(text("ok")), user(pdf, picture(4))}
	if diff := cmp.Diff(want, got.Messages); diff != "" {
		t.Errorf("fitted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, in); diff != "" {
		t.Errorf("got a modified request:\n%s", diff)
	}
	blind := viewer(providers.InputLimits{Images: 1})
	blind.Input = []string{"text"}
	if diff := cmp.Diff(in, providers.Fit(blind, req).Messages); diff != "" {
		t.Errorf("model without images:\n%s", diff)
	}
}

// TestFitIsStable grows random conversations. No request exceeds the image limit, removed images stay
// removed, and new ones are sent if they fit. The beginning of requests changes at most once for each
// half of the limit.
// covers: providers/179
func TestFitIsStable(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		limits := providers.InputLimits{Images: 1 + r.IntN(12)}
		if seed%2 == 0 {
			limits.RequestBytes = 4000 + r.Int64N(8000)
		}
		m := viewer(limits)
		var messages []message
		var last []string
		images, changes := 0, 0
		for range 60 {
			n := r.IntN(3)
			var p parts
			for range n {
				p = append(p, picture(4*(1+r.Int64N(100))))
			}
			images += n
			messages = append(messages, user(append(p, text("x"))...))
			got := fitted(t, m, providers.Request{Messages: messages})
			shown, first := 0, slices.IndexFunc(got, func(s string) bool { return s != "-" })
			for i, s := range got {
				if s != "-" {
					shown++
				}
				if i < len(last) && last[i] == "-" && s != "-" {
					t.Fatalf("seed %d: got removed image %d again", seed, i)
				}
			}
			if len(got) != images || shown > limits.Images || first >= 0 && slices.Contains(got[first:], "-") {
				t.Fatalf("seed %d: %d images: got %v, want at most %d", seed, images, got, limits.Images)
			}
			if tail := got[len(got)-n:]; limits.Images >= 2 && slices.Contains(tail, "-") {
				t.Fatalf("seed %d: new images removed: got %v", seed, tail)
			}
			if last != nil && !slices.Equal(last, got[:len(last)]) {
				changes++
			}
			last = got
			messages = append(messages, assistant(text("ok")))
		}
		if limits.RequestBytes == 0 && changes > images/max(limits.Images/2-1, 1)+1 {
			t.Errorf("seed %d: got %d prefix changes for %d images, at most %d at a time", seed, changes, images, limits.Images)
		}
	}
}

// TestFittedBlockIsEncodedOnce: a reduced block is reused until another image is removed. Only one of
// the two blocks holds an encoding.
func TestFittedBlockIsEncodedOnce(t *testing.T) {
	b := providers.NewBlock([]message{user(picture(4), picture(4)), assistant(text("ok"))})
	e := &encodings{size: 7}
	encode := func(images int, own bool) (*providers.Block, providers.Model) {
		t.Helper()
		m := viewer(providers.InputLimits{Images: images})
		fit := providers.Fit(m, providers.Request{History: []*providers.Block{b}, Messages: []message{user(picture(4))}}).History[0]
		if (fit == b) != own {
			t.Errorf("%d images: got same block %v", images, fit == b)
		}
		if _, err := e.of(fit, m, true); err != nil {
			t.Fatal(err)
		}
		return fit, m
	}
	for i, step := range []struct {
		images  int
		own     bool
		encoded int
	}{{3, true, 1}, {3, true, 1}, {2, false, 2}, {2, false, 2}, {1, false, 2}, {3, true, 3}, {2, false, 4}} {
		fit, _ := encode(step.images, step.own)
		if e.n != step.encoded {
			t.Errorf("step %d: got %d encodings, want %d", i, e.n, step.encoded)
		}
		if fit.EncodedBytes() != 7 || fit != b && b.EncodedBytes() != 0 {
			t.Errorf("step %d: got %d bytes, the block has %d", i, fit.EncodedBytes(), b.EncodedBytes())
		}
	}
	fit, _ := encode(2, false)
	b.Evict()
	if again, _ := encode(2, false); again == fit {
		t.Error("got the reduced block after Evict")
	}
}

func TestTooMuch(t *testing.T) {
	vendor := func(message string) error { return &providers.VendorError{Message: message} }
	for _, tt := range []struct {
		err  providers.Error
		want bool
	}{
		{providers.Error{Kind: providers.KindContextOverflow, Status: 413}, true},
		{providers.Error{Kind: providers.KindContextOverflow, Status: 400, Err: vendor("prompt is too long")}, false},
		{providers.Error{Kind: providers.KindInvalidRequest, Status: 400, Err: vendor("Too many images: 6 > 5")}, true},
		{providers.Error{Kind: providers.KindInvalidRequest, Status: 400, Err: vendor("At most 1 image(s) may be provided in one request.")}, true},
		{providers.Error{Kind: providers.KindInvalidRequest, Status: 400, Err: vendor("Could not process image")}, false},
		{providers.Error{Kind: providers.KindRateLimit, Status: 429, Err: vendor("too many images")}, false},
		{providers.Error{Kind: providers.KindInvalidRequest, Status: 400}, false},
	} {
		if got := tt.err.TooMuch(); got != tt.want {
			t.Errorf("%v: %v", &tt.err, got)
		}
	}
}
