// Package picture finds out what a picture is from its first bytes. The runtime calls it
// for what people and tools send to models as images.
//
//  1. Nothing is decoded but headers: memory does not depend on the size that a picture
//     says it has, and no more than MaxHeader bytes of it are read.
//  2. What a picture is goes by its bytes, whatever type it was sent as.
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

// Facts are what a picture is. The zero Facts are of what is none of a known format.
type Facts struct {
	// MimeType is "image/png", "image/jpeg", "image/gif" or "image/webp".
	MimeType string
	// Width and Height are in pixels.
	Width, Height int
}

// MaxHeader is how much is read of a picture, in bytes. In a JPEG the size follows
// metadata, of which cameras write some hundred kilobytes; elsewhere it is at the start.
const MaxHeader = 2 << 20

// formats are those that are known, by how they begin. A dot in magic is any byte.
var formats = []struct {
	mimeType, magic string
	config          func(io.Reader) (image.Config, error)
}{
	{"image/png", "\x89PNG\r\n\x1a\n", png.DecodeConfig},
	{"image/jpeg", "\xff\xd8\xff", jpeg.DecodeConfig},
	{"image/gif", "GIF8.a", gif.DecodeConfig},
	{"image/webp", "RIFF....WEBP", webp.DecodeConfig},
}

// Read returns what the picture in r is, the zero Facts if it is none that is known,
// or its header is damaged. An error is one of r.
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

// source keeps why reading ended, which decoders do not tell from damage.
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
