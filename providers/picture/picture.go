// Package picture detects the format and size of a picture from its first bytes. The runtime uses it
// for images that users and tools send to models.
//
//  1. Only headers are decoded. Memory does not depend on the declared size of a picture, and at most
//     MaxHeader bytes are read.
//  2. The bytes determine the format, whatever media type was declared.
//
// All functions are safe for concurrent use.
package picture

import (
	"bufio"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"
)

// Facts are the properties of a picture. The zero Facts mean an unknown format.
type Facts struct {
	// MimeType is "image/png", "image/jpeg", "image/gif" or "image/webp".
	MimeType string
	// Width and Height are in pixels.
	Width, Height int
}

// MaxHeader is the maximum number of bytes read. In a JPEG the size follows metadata, of which cameras
// write some hundred kilobytes; in other formats it is at the start.
const MaxHeader = 2 << 20

// formats are the known formats by magic number. A dot in magic matches any byte.
var formats = []struct {
	mimeType, magic string
	config          func(io.Reader) (image.Config, error)
}{
	{"image/png", "\x89PNG\r\n\x1a\n", png.DecodeConfig},
	{"image/jpeg", "\xff\xd8\xff", jpeg.DecodeConfig},
	{"image/gif", "GIF8.a", gif.DecodeConfig},
	{"image/webp", "RIFF....WEBP", webp.DecodeConfig},
}

// Read returns the facts of the picture in r, or zero Facts if the format is unknown or the header is
// corrupt. An error is one of r.
func Read(r io.Reader) (Facts, error) {
	source := &source{r: io.LimitReader(r, MaxHeader)}
	header := bufio.NewReader(source)
	begin, _ := header.Peek(16) // fewer bytes are no picture, and the error is kept
	for _, f := range formats {
		if !begins(begin, f.magic) {
			continue
		}
		c, err := f.config(header)
		if err != nil || c.Width <= 0 || c.Height <= 0 {
			break
		}
		return Facts{MimeType: f.mimeType, Width: c.Width, Height: c.Height}, nil
	}
	if source.err != nil {
		return Facts{}, fmt.Errorf("read picture: %w", source.err)
	}
	return Facts{}, nil
}

func begins(b []byte, magic string) bool {
	if len(b) < len(magic) {
		return false
	}
	for i := range magic {
		if magic[i] != '.' && magic[i] != b[i] {
			return false
		}
	}
	return true
}

// source records the read error, because decoders do not distinguish it from corruption.
type source struct {
	r   io.Reader
	err error // nil at the end
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
