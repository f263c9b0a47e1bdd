package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// Limits of the images of one [Result].
const (
	MaxImages     = 16
	MaxImageBytes = 16 << 20 // of all together
)

// maxMetaBytes limits media types and file names, in bytes.
const maxMetaBytes = 255

// Result is what a tool returns that has more to say than a value. A tool whose
// function returns a Result, or a pointer to one, is not different from others.
type Result struct {
	// Output is shown to the model as JSON; nil is null.
	Output any

	// Terminate asks to end the response after this turn, without asking the model again.
	// It ends if every call of the turn asks for it. A call that failed asks for
	// nothing.
	Terminate bool

	// Images are shown to the model with the output, and are attachments of the
	// conversation. There may be [MaxImages] with [MaxImageBytes].
	Images []Image
}

// Image is a picture that a tool shows.
type Image struct {
	// MimeType is the media type, such as "image/png". Which ones a model takes is
	// its vendor's affair.
	MimeType string
	// Data is the file's content. It must not be changed once it is returned.
	Data []byte
	// Filename is what clients call the attachment; empty for none.
	Filename string
}

// Outcome is what a call came to, checked and encoded.
type Outcome struct {
	// Output is what the model reads.
	Output json.RawMessage
	// Terminate and Images are those of the [Result].
	Terminate bool
	Images    []Image
}

// outcome checks and encodes what a tool's function returned, once the host has room for that.
func (t Tool) outcome(ctx context.Context, returned any) (*Outcome, error) {
	r := Result{Output: returned}
	switch v := returned.(type) {
	case Result:
		r = v
	case *Result:
		r = Result{}
		if v != nil {
			r = *v
		}
	}
	if issues := imageIssues(r.Images); len(issues) > 0 {
		return nil, &ResultError{Tool: t.name, Issues: issues}
	}
	done, err := seam.WaitForRoom(ctx, r.Output, imageBytes(r.Images))
	if err != nil {
		return nil, err
	}
	defer done()
	raw, err := encodeOutput(t.what(), r.Output)
	if crashed(err) {
		return nil, err
	}
	if err != nil {
		return nil, &OutputError{Tool: t.name, Err: err}
	}
	return &Outcome{Output: raw, Terminate: r.Terminate, Images: r.Images}, nil
}

// encodeOutput writes an output as JSON. Texts and JSON, which outputs that are large mostly are, are copied once.
func encodeOutput(what string, v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case string:
		return conversation.AppendString(make([]byte, 0, conversation.TextBytes(v)+2), v), nil
	case json.RawMessage:
		var out bytes.Buffer
		out.Grow(len(v))
		if json.Compact(&out, v) == nil {
			return out.Bytes(), nil
		}
	}
	return contain.Encode(what, v)
}

func imageBytes(images []Image) (n int64) {
	for _, m := range images {
		n += int64(len(m.Data))
	}
	return n
}

func imageIssues(images []Image) []Issue {
	if len(images) > MaxImages {
		return []Issue{{"Images", fmt.Sprintf("there are %d, at most %d are shown", len(images), MaxImages)}}
	}
	var issues []Issue
	total := 0
	for i, m := range images {
		total += len(m.Data)
		if problem := m.problem(); problem != "" {
			issues = append(issues, Issue{fmt.Sprintf("Images[%d]", i), problem})
		}
	}
	if total > MaxImageBytes {
		issues = append(issues, Issue{"Images", fmt.Sprintf("they have %d bytes together, at most %d are shown", total, MaxImageBytes)})
	}
	return issues
}

// problem returns what is wrong with an image by itself, or "".
func (m Image) problem() string {
	media, _, err := mime.ParseMediaType(m.MimeType)
	switch {
	case err != nil, len(m.MimeType) > maxMetaBytes, !strings.HasPrefix(media, "image/"), m.MimeType != strings.TrimSpace(m.MimeType),
		strings.ContainsFunc(m.MimeType, func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Sprintf("MimeType %.40q is not that of an image", m.MimeType)
	case len(m.Data) == 0:
		return "has no data"
	case len(m.Filename) > maxMetaBytes, !utf8.ValidString(m.Filename), strings.ContainsFunc(m.Filename, unicode.IsControl):
		return fmt.Sprintf("Filename %.40q is not one; use up to %d bytes of UTF-8 without control characters", m.Filename, maxMetaBytes)
	}
	return ""
}
