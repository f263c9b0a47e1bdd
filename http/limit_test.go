package http_test

import (
	"io"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
)

// maxData is the longest data of an attachment, in characters: 14 × 1024 × 1024.
const maxData = 14_680_064

// imageOf is a message with an image. Its data is the text before, followed by n letters.
func imageOf(before string, n int64) io.Reader {
	return io.MultiReader(strings.NewReader(`{"kind":"user","body":"x","attachments":[{"type":"image","mimeType":"image/png","data":"`+before),
		&letters{n}, strings.NewReader(`"}]}`))
}

// TestAttachmentDataLimit sends data at and above the limit. An escape counts as one character.
// covers: protocol/32 at_the_limit, protocol/32 at_the_limit_in_characters, protocol/33 one_over
func TestAttachmentDataLimit(t *testing.T) {
	all := []struct {
		name   string
		before string // of one character
		length int64
		ok     bool
	}{
		{"at_the_limit", "A", maxData, true},
		{"one_over_in_characters", `\u0041`, maxData + 1, false},
		{"at_the_limit_in_characters", `\u0041`, maxData, true},
		{"one_group_less", "A", maxData - 4, true},
		{"one_over", "A", maxData + 1, false},
		{"one_group_over", "A", maxData + 4, false},
		{"far_over", "A", 2 * maxData, false},
	}
	for _, tt := range sample.Of(all, all[:2]) {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.rt.onStage = func(b conversation.Blob) {
				if n, err := io.Copy(io.Discard, b.Content); err != nil || n != tt.length/4*3 || b.Size != n {
					t.Errorf("staged %d bytes, size %d, %v; want %d", n, b.Size, err, tt.length/4*3)
				}
			}
			res := h.serve(newPost("/c1", imageOf(tt.before, tt.length-1)))
			if tt.ok {
				wantStatus(t, res, 202)
				return
			}
			e := wantError(t, res, 400, conversation.CodeInvalidRequest)
			if !strings.Contains(e.Details, "14680064") || !strings.Contains(e.Details, "attachments[0].data") {
				t.Errorf("got details %q, want limit and member", e.Details)
			}
			if got, left := h.rt.wrote(), h.leftovers(); got != nil || left != nil {
				t.Errorf("got writes %v, leftovers %v", got, left)
			}
		})
	}
}

// TestInitialDataOfAnyKind checks that any JSON value arrives unchanged.
// covers: protocol/26
func TestInitialDataOfAnyKind(t *testing.T) {
	for _, data := range []string{
		`null`, `true`, `0`, `-1.5e300`, `12345678901234567890`, `""`, `"é \u00e9"`, `[]`, `[1,{"a":null}]`, `{}`, `{"b":1,"a":{"b":2}}`,
	} {
		h := newHarness(t, nil)
		wantStatus(t, h.post("/c1", `{"kind":"user","body":"x","initialData":`+data+`}`), 202)
		if got := string(h.rt.admissions[0].InitialData); got != data {
			t.Errorf("initialData %s became %s", data, got)
		}
	}
	h := newHarness(t, nil)
	h.create()
	if got := h.rt.admissions[0].InitialData; got != nil {
		t.Errorf("absent initialData became %s", got)
	}
}
