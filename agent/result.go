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
	MaxImageBytes = 16 << 20 // bytes of all images together
)

// maxMetaBytes limits media types and file names, in bytes.
const maxMetaBytes = 255

// Result is the return value of a tool with more than an output. A tool whose function returns a
// Result, or a pointer to one, is otherwise an ordinary tool.
type Result struct {
	// Output is sent to the model as JSON; nil is null.
	Output any

	// Terminate requests the end of the response after this turn, without another model call. The
	// response ends if every call of the turn requests it and none failed.
	Terminate bool

	// Images are sent to the model with the output and stored as attachments of the conversation. The
	// limits are [MaxImages] and [MaxImageBytes].
	Images []Image
}

// Image is a picture in the result of a tool.
type Image struct {
	// MimeType is the media type, such as "image/png". The accepted types depend on the model's
	// vendor.
	MimeType string
	// Data is the file's content. It must not be changed after it is returned.
	Data []byte
	// Filename is the attachment's name for clients; it may be empty.
	Filename string
}

// Outcome is the validated and encoded outcome of a call.
type Outcome struct {
	// Output is the output for the model.
	Output json.RawMessage
	// Terminate and Images are those of the [Result].
	Terminate bool
	Images    []Image
}

// outcome validates and encodes the return value of a tool's function after the host has reserved room
// for it.
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
	raw, err := encodeOutput(t.desc(), r.Output)
	if crashed(err) {
		return nil, err
	}
	if err != nil {
		return nil, &OutputError{Tool: t.name, Err: err}
	}
	return &Outcome{Output: raw, Terminate: r.Terminate, Images: r.Images}, nil
}

// encodeOutput encodes an output as JSON. Strings and raw JSON, the usual forms of large outputs, are
// copied once.
func encodeOutput(desc string, v any) (json.RawMessage, error) {
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
	return contain.Encode(desc, v)
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

// problem describes the mistake of a single image, or returns "".
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
