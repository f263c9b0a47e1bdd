package http

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

const (
	// maxAttachmentData limits the base64 text of one attachment, in characters.
	maxAttachmentData = 14 << 20
	// attachmentMemory is the part of a decoded attachment that stays in memory, in bytes.
	attachmentMemory = 64 << 10
	// maxMimeType limits a media type, in bytes.
	maxMimeType = 255
	// maxFilename limits a file name, in bytes. It exceeds the limits of common file systems.
	maxFilename = 1 << 10
)

// attachments decodes the attachments of a user message. All are validated before the first is
// decoded.
func (p *promptReader) attachments(v span) error {
	parts, err := p.attachmentFields(v)
	if err != nil {
		return err
	}
	for i, part := range parts {
		a, err := p.attachment(i, part)
		if err != nil {
			return err
		}
		p.out.delivery.Attachments = append(p.out.delivery.Attachments, a)
	}
	for i, part := range parts {
		if err := p.decode(i, part["data"]); err != nil {
			return err
		}
	}
	return nil
}

// attachmentFields locates the members of every attachment.
func (p *promptReader) attachmentFields(v span) ([]fields, error) {
	s := newScanner(p.body, v)
	if c, err := s.must(); err != nil {
		return nil, err
	} else if c != '[' {
		return nil, invalid("The member %s must be an array.", p.words.attachments)
	}
	var out []fields
	err := s.array(func() error {
		if c, err := s.must(); err != nil {
			return err
		} else if c != '{' {
			return invalid("%s[%d] must be an object.", p.words.attachments, len(out))
		}
		if len(out) == p.opts.MaxAttachments {
			return invalid("A message has at most %d attachments.", p.opts.MaxAttachments)
		}
		part := fields{}
		out = append(out, part)
		return s.object(func(name string) error {
			v, err := s.span()
			switch name {
			case "type", "data", "mimeType", "filename":
				part[name] = v
			}
			return err
		})
	})
	return out, err
}

// attachment validates an attachment except its data.
func (p *promptReader) attachment(i int, part fields) (conversation.Attachment, error) {
	var a conversation.Attachment
	name := func(member string) string { return fmt.Sprintf("%s[%d].%s", p.words.attachments, i, member) }
	for _, member := range []string{"type", "data", "mimeType"} {
		if _, ok := part[member]; !ok {
			return a, invalid("The member %s is missing.", name(member))
		}
	}
	kind, err := p.string(name("type"), part["type"])
	if err != nil {
		return a, err
	}
	if kind != "image" {
		return a, invalid("The member %s must be \"image\".", name("type"))
	}
	if is, err := p.isString(part["data"]); err != nil || !is {
		return a, errors.Join(err, invalidType(is, name("data"), "a string"))
	}
	if a.MimeType, err = p.string(name("mimeType"), part["mimeType"]); err != nil {
		return a, err
	}
	if !isMimeType(a.MimeType) {
		return a, invalid("The member %s is not a media type that can be sent as a header.", name("mimeType"))
	}
	if v, ok := part["filename"]; ok {
		a.Filename, err = p.string(name("filename"), v)
	}
	if len(a.Filename) > maxFilename {
		return a, invalid("The member %s has %d bytes; at most %d are allowed.", name("filename"), len(a.Filename), maxFilename)
	}
	return a, err
}

// isMimeType reports whether s can be a Content-Type header.
func isMimeType(s string) bool {
	if len(s) > maxMimeType || strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) {
		return false
	}
	if s != strings.Trim(s, " ") {
		return false // a header would lose the spaces
	}
	t, _, err := mime.ParseMediaType(s)
	return err == nil && strings.Contains(t, "/")
}

// decode writes the content of attachment i to a spool of its own.
func (p *promptReader) decode(i int, data span) error {
	r, err := newStringReader(p.body.reader(data))
	if err != nil {
		return err
	}
	file := p.body.in.open(attachmentMemory)
	p.out.files = append(p.out.files, file)
	sum := sha256.New()
	err = decodeBase64(file, sum, r)
	var flaw dataError
	switch {
	case errors.As(err, &flaw):
		return invalid("The member %s[%d].data %s.", p.words.attachments, i, string(flaw))
	case err != nil:
		return fmt.Errorf("decode attachment %d: %w", i, err)
	}
	a := &p.out.delivery.Attachments[i]
	a.Size, a.SHA256 = file.size, hex.EncodeToString(sum.Sum(nil))
	return nil
}

// dataError reports invalid client data.
type dataError string

// Error implements error.
func (e dataError) Error() string { return string(e) }

// decodeBase64 decodes r strictly: the standard alphabet, padded, without line breaks or trailing
// bits. Invalid text is a dataError.
func decodeBase64(dst io.Writer, sum hash.Hash, r io.Reader) error {
	const bad = dataError("is not base64 of the standard alphabet with padding")
	enc := base64.StdEncoding.Strict()
	text := make([]byte, 32<<10) // a multiple of 4
	raw := make([]byte, enc.DecodedLen(len(text)))
	out := io.MultiWriter(dst, sum)
	total, ended := 0, false
	for {
		n, err := io.ReadFull(r, text)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if total += n; total > maxAttachmentData {
			return dataError(fmt.Sprintf("is longer than %d characters", maxAttachmentData))
		}
		// The decoder of the standard library would skip line breaks.
		if n > 0 && ended || bytes.ContainsAny(text[:n], "\r\n") {
			return bad
		}
		k, err := enc.Decode(raw, text[:n])
		if err != nil {
			return bad
		}
		ended = k < enc.DecodedLen(n) // padding ends the text
		if _, err := out.Write(raw[:k]); err != nil {
			return err
		}
		if !last {
			continue
		}
		if total == 0 {
			return dataError("is empty") // the store rejects empty objects
		}
		return nil
	}
}
