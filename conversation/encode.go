package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// appender collects the output of an encoder.
type appender struct{ b []byte }

// Write implements io.Writer.
func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// encoder returns an encoder that appends values in the encoding of wire and log.
func (a *appender) encoder() *json.Encoder {
	enc := json.NewEncoder(a)
	enc.SetEscapeHTML(false)
	return enc
}

// EncodeJSON encodes a value on one line, without escaping HTML.
func EncodeJSON(v any) ([]byte, error) { return appendJSON(nil, v) }

// AppendJSON appends the result of EncodeJSON to dst. On an error it returns dst unchanged.
func AppendJSON(dst []byte, v any) ([]byte, error) { return appendJSON(dst, v) }

func appendJSON(dst []byte, v any) ([]byte, error) {
	out := appender{dst}
	if err := out.encoder().Encode(v); err != nil {
		return dst, err
	}
	return bytes.TrimSuffix(out.b, []byte("\n")), nil
}

// AppendChunks appends the chunks' JSON forms to dst. They are separated by commas, without the
// array's brackets, so that encoded batches can be joined.
func AppendChunks(dst []byte, chunks []Chunk) ([]byte, error) {
	for i := range chunks {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendChunk(dst, &chunks[i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendChunk appends the EncodeJSON form of the chunk. It is written by hand because it runs for
// every chunk, and reflection is several times slower.
func appendChunk(dst []byte, c *Chunk) ([]byte, error) {
	w := chunkWriter{b: append(dst, `{"type":`...)}
	w.b = appendString(w.b, string(c.Type))
	w.b = appendString(append(w.b, `,"conversationId":`...), string(c.ConversationID))
	if c.Snapshot != nil {
		w.value("snapshot", c.Snapshot)
	}
	if c.Message != nil {
		w.value("message", c.Message)
	}
	w.text("messageId", string(c.MessageID))
	w.text("submissionId", string(c.SubmissionID))
	w.text("turnId", string(c.TurnID))
	w.text("kind", string(c.Kind))
	w.text("delta", c.Delta)
	w.text("name", c.Name)
	w.raw("data", c.Data)
	w.raw("metadata", c.Metadata)
	w.text("toolCallId", string(c.ToolCallID))
	w.text("toolName", c.ToolName)
	w.raw("input", c.Input)
	w.raw("output", c.Output)
	if c.ErrorText != nil {
		w.name("errorText")
		w.b = appendString(w.b, *c.ErrorText)
	}
	if c.DurationMs != nil {
		w.name("durationMs")
		w.b = strconv.AppendInt(w.b, *c.DurationMs, 10)
	}
	w.text("outcome", string(c.Outcome))
	if c.Error != nil {
		w.value("error", c.Error)
	}
	if c.Timestamp != nil {
		w.name("timestamp")
		w.b = append(c.Timestamp.appendTo(append(w.b, '"')), '"')
	}
	w.name("position")
	w.b = append(c.Position.appendTo(w.b), '}')
	if w.err != nil {
		return w.b, fmt.Errorf("encode chunk %s: %w", c.Type, w.err)
	}
	return w.b, nil
}

// chunkWriter appends members to an object that has at least one. It keeps the first error.
type chunkWriter struct {
	b   []byte
	err error
}

func (w *chunkWriter) name(name string) {
	w.b = append(append(append(w.b, `,"`...), name...), `":`...)
}

// text appends a string, omitted if empty.
func (w *chunkWriter) text(name, v string) {
	if v != "" {
		w.name(name)
		w.b = appendString(w.b, v)
	}
}

// raw appends a compacted JSON text, omitted if empty.
func (w *chunkWriter) raw(name string, v json.RawMessage) {
	if len(v) == 0 {
		return
	}
	w.name(name)
	buf := bytes.NewBuffer(w.b)
	w.fail(json.Compact(buf, v))
	w.b = buf.Bytes()
}

// value appends a rare value by reflection.
func (w *chunkWriter) value(name string, v any) {
	w.name(name)
	b, err := appendJSON(w.b, v)
	w.b = b
	w.fail(err)
}

func (w *chunkWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// AppendString appends s in quotes to dst, as AppendJSON does and several times faster.
func AppendString(dst []byte, s string) []byte { return appendString(dst, s) }

// appendString appends s in quotes, escaped as encoding/json does without HTML escaping. Invalid UTF-8
// becomes U+FFFD. U+2028 and U+2029 are escaped because JavaScript requires it.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0 // everything before it has been appended
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r >= utf8.RuneSelf && r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
			i += size
			continue
		}
		dst = append(dst, s[from:i]...)
		switch r {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
		i += size
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}
