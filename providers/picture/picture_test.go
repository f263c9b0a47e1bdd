package picture_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"testing"
	"testing/iotest"

	"github.com/parleyrun/parley/providers/picture"
)

func encoded(t testing.TB, encode func(io.Writer, image.Image) error, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b, image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gifOf(w io.Writer, m image.Image) error  { return gif.Encode(w, m, nil) }
func jpegOf(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, nil) }

// webpOf returns a picture of 1 by 1 pixels.
func webpOf(t testing.TB) []byte {
	b, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bomb returns a PNG that declares the given side length but has no pixels.
func bomb(side uint32) []byte {
	head := append([]byte("IHDR"), binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, side), side)...)
	head = append(head, 8, 6, 0, 0, 0)
	out := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(head))
}

// metadata returns a JPEG with segments of 64 KiB before its picture.
func metadata(t testing.TB, segments int) []byte {
	whole := encoded(t, jpegOf, 5, 4)
	out := bytes.Clone(whole[:2])
	for range segments {
		out = append(append(out, 0xff, 0xe1, 0xff, 0xff), make([]byte, 0xffff-2)...)
	}
	return append(out, whole[2:]...)
}

func TestRead(t *testing.T) {
	corrupt := encoded(t, png.Encode, 3, 2)
	corrupt[20]++
	for _, tt := range []struct {
		name string
		data []byte
		want picture.Facts
	}{
		{"png", encoded(t, png.Encode, 3, 2), picture.Facts{"image/png", 3, 2}},
		{"jpeg", encoded(t, jpegOf, 5, 4), picture.Facts{"image/jpeg", 5, 4}},
		{"gif", encoded(t, gifOf, 7, 6), picture.Facts{"image/gif", 7, 6}},
		{"webp", webpOf(t), picture.Facts{"image/webp", 1, 1}},
		{"more pixels than memory", bomb(1 << 28), picture.Facts{"image/png", 1 << 28, 1 << 28}},
		{"a header without its palette", encoded(t, png.Encode, 3, 2)[:33], picture.Facts{}},
		{"a camera's metadata", metadata(t, 16), picture.Facts{"image/jpeg", 5, 4}},
		{"metadata without end", metadata(t, 33), picture.Facts{}},
		{"a cut header", encoded(t, png.Encode, 3, 2)[:32], picture.Facts{}},
		{"a damaged header", corrupt, picture.Facts{}},
		{"no pixels", bomb(0), picture.Facts{}},
		{"more pixels than numbers", bomb(1<<32 - 1), picture.Facts{}},
		{"nothing", nil, picture.Facts{}},
		{"a beginning", []byte("\x89PNG"), picture.Facts{}},
		{"pdf", []byte("%PDF-1.7\n1 0 obj"), picture.Facts{}},
		{"svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>`), picture.Facts{}},
		{"sound in the same container", []byte("RIFF\x10\x00\x00\x00WAVEfmt \x10"), picture.Facts{}},
		{"camera raw", []byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1"), picture.Facts{}},
	} {
		got, err := picture.Read(iotest.OneByteReader(bytes.NewReader(tt.data)))
		if got != tt.want || err != nil {
			t.Errorf("%s: read %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

// TestReadDistinguishesErrorFromCorruption: a read error is returned and not treated as a corrupt picture.
func TestReadDistinguishesErrorFromCorruption(t *testing.T) {
	away, data := errors.New("away"), encoded(t, png.Encode, 3, 2)
	for n := range len(data) {
		got, err := picture.Read(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(away)))
		if known := got != (picture.Facts{}); known == (err != nil) || err != nil && !errors.Is(err, away) {
			t.Errorf("after %d bytes: read %+v, %v", n, got, err)
		}
	}
}

// FuzzRead checks the read limit, and that known formats have a size.
func FuzzRead(f *testing.F) {
	for _, data := range [][]byte{encoded(f, png.Encode, 3, 2), encoded(f, jpegOf, 5, 4), encoded(f, gifOf, 7, 6), webpOf(f), bomb(9), metadata(f, 1)} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		got, err := picture.Read(r)
		if err != nil || (got.MimeType != "") != (got.Width > 0 && got.Height > 0) {
			t.Fatalf("read %+v, %v", got, err)
		}
		if n := len(data) - r.Len(); n > picture.MaxHeader {
			t.Fatalf("got %d bytes read", n)
		}
	})
}
