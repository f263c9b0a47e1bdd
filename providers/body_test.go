package providers_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/parleyrun/parley/providers"
)

// content is an image that records its use.
type content struct {
	size  int64
	bytes io.Reader
	err   error // returned by Open
	// opened is the context of the last Open, nil before; it ends on Close.
	opened context.Context
	close  context.CancelFunc
}

// Size implements providers.Content.
func (c *content) Size() int64 { return c.size }

// Open implements providers.Content.
func (c *content) Open(ctx context.Context) (io.ReadCloser, error) {
	if c.err != nil {
		return nil, c.err
	}
	c.opened, c.close = context.WithCancel(context.WithoutCancel(ctx))
	if c.bytes == nil {
		return &endless{ctx, c}, nil
	}
	return &openContent{c.bytes, c}, nil
}

func (c *content) closed() bool { return c.opened != nil && c.opened.Err() != nil }

type openContent struct {
	io.Reader
	c *content
}

// Close implements io.Closer.
func (o *openContent) Close() error {
	o.c.close()
	return nil
}

// endless blocks until its context ends.
type endless struct {
	ctx context.Context
	c   *content
}

// Read implements io.Reader.
func (e *endless) Read([]byte) (int, error) {
	<-e.ctx.Done()
	return 0, e.ctx.Err()
}

// Close implements io.Closer.
func (e *endless) Close() error {
	e.c.close()
	return nil
}

type letter struct {
	Text   string   `json:"text"`
	Images []string `json:"images"`
}

// body encodes texts and images, each image as a data URL.
func body(t testing.TB, text string, images ...providers.Content) *providers.Body {
	t.Helper()
	var e providers.BodyEncoder
	v := letter{Text: text}
	for _, c := range images {
		v.Images = append(v.Images, "data:image/png;base64,"+e.Base64(providers.Image{MimeType: "image/png", Content: c}))
	}
	b, err := e.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// whole encodes the same with all images in memory.
func whole(t testing.TB, text string, images ...[]byte) string {
	t.Helper()
	v := letter{Text: text}
	for _, data := range images {
		v.Images = append(v.Images, "data:image/png;base64,"+base64.StdEncoding.EncodeToString(data))
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestBodyMatchesInMemoryEncoding compares the streamed body with an encoding in memory.
func TestBodyMatchesInMemoryEncoding(t *testing.T) {
	const piece = 24 << 10
	text := "<b>\u2028\x00\xff \"quoted\" 00000000"
	for _, size := range []int{0, 1, 2, 3, 4, piece - 1, piece, piece + 1, piece + 2, 2 * piece, 3*piece + 7} {
		first, second := bytes.Repeat([]byte{0xfb, 0xff, 7}, size)[:size], []byte("second")
		want := whole(t, text, first, second, first)
		b := body(t, text, providers.Bytes(first), providers.Bytes(second), &content{size: int64(size), bytes: bytes.NewReader(first)})
		if b.Size() != int64(len(want)) {
			t.Errorf("%d bytes: got size %d, want %d", size, b.Size(), len(want))
		}
		r := b.Open(t.Context())
		if err := iotest.TestReader(r, []byte(want)); err != nil {
			t.Errorf("%d bytes: got %v", size, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, want := read(t, body(t, text)), whole(t, text); got != want {
		t.Errorf("without images: got %s, want %s", got, want)
	}
	if got, want := read(t, body(t, text, nil)), whole(t, text, nil); got != want {
		t.Errorf("with an image of no content: got %s, want %s", got, want)
	}
}

func read(t testing.TB, b *providers.Body) string {
	t.Helper()
	r := b.Open(t.Context())
	defer r.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestBodyImagePositions varies the order of Base64 calls and uses placeholders twice or never.
func TestBodyImagePositions(t *testing.T) {
	var e providers.BodyEncoder
	a := e.Base64(providers.Image{Content: providers.Bytes("aaa")})
	e.Base64(providers.Image{Content: providers.Bytes("not sent")})
	b := e.Base64(providers.Image{Content: providers.Bytes("bbb")})
	got, err := e.Encode([]string{b, a, b + a})
	if err != nil {
		t.Fatal(err)
	}
	if want := `["YmJi","YWFh","YmJiYWFh"]` + "\n"; read(t, got) != want {
		t.Errorf("got %s, want %s", read(t, got), want)
	}
	if _, err := e.Encode(a[:len(a)-1]); err == nil {
		t.Error("truncated placeholder: got no error")
	}
	if _, err := e.Encode(func() {}); err == nil {
		t.Error("unencodable value: got no error")
	}
}

// TestBodyCanBeOpenedAgain opens a body while it is being read.
func TestBodyCanBeOpenedAgain(t *testing.T) {
	b := body(t, "x", providers.Bytes("image"))
	first := b.Open(t.Context())
	if _, err := io.ReadFull(first, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, b), whole(t, "x", []byte("image")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	rest, err := io.ReadAll(first)
	if want := whole(t, "x", []byte("image"))[20:]; err != nil || string(rest) != want {
		t.Errorf("first reader: got %s, %v, want %s", rest, err, want)
	}
}

// TestBodyImageError checks that an image error occurs before the last piece of the image.
func TestBodyImageError(t *testing.T) {
	broken := errors.New("broken")
	image := bytes.Repeat([]byte("image"), 10_000)
	size := int64(len(image))
	tests := []struct {
		name    string
		content *content
		kind    providers.ErrorKind
		cause   error
	}{
		{"does not open", &content{size: size, err: broken}, providers.KindImageUnreadable, broken},
		{"does not open now", &content{size: size, err: fmt.Errorf("%w: %w", providers.ErrUnavailable, broken)}, providers.KindImageUnavailable, broken},
		{"breaks", &content{size: size, bytes: io.MultiReader(bytes.NewReader(image[:30_000]), iotest.ErrReader(broken))}, providers.KindImageUnreadable, broken},
		{"breaks at its end", &content{size: size, bytes: io.MultiReader(bytes.NewReader(image), iotest.ErrReader(broken))}, providers.KindImageUnreadable, broken},
		{"breaks at the end of a piece", &content{size: 24 << 10, bytes: io.MultiReader(bytes.NewReader(image[:24<<10]), iotest.ErrReader(broken))}, providers.KindImageUnreadable, broken},
		{"is short", &content{size: size + 1, bytes: bytes.NewReader(image)}, providers.KindImageUnreadable, nil},
		{"is long", &content{size: size - 1, bytes: bytes.NewReader(image)}, providers.KindImageUnreadable, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := body(t, "x", tt.content).Open(t.Context())
			got, err := io.ReadAll(r)
			var e *providers.Error
			if !errors.As(err, &e) || e.Kind != tt.kind || tt.cause != nil && !errors.Is(err, tt.cause) {
				t.Errorf("got %v, want kind %s", err, tt.kind)
			}
			encoded := base64.StdEncoding.EncodeToString(image[:min(size, tt.content.size)])
			if _, again := r.Read(make([]byte, 1)); again != err {
				t.Errorf("second read: got %v, first %v", again, err)
			}
			if strings.Contains(string(got), encoded) {
				t.Error("got the whole image, want an error before its end")
			}
			r.Close()
			if tt.content.opened != nil && !tt.content.closed() {
				t.Error("got an open image, want it closed")
			}
		})
	}
}

// TestBodyCloseDuringRead checks that Close ends the Read and closes the image before it returns.
func TestBodyCloseDuringRead(t *testing.T) {
	for name, end := range map[string]func(io.Closer, context.CancelFunc){
		"close":   func(r io.Closer, _ context.CancelFunc) { r.Close() },
		"context": func(_ io.Closer, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				image := &content{size: 10}
				r := body(t, "x", image).Open(ctx)
				done := make(chan error)
				go func() {
					_, err := io.ReadAll(r)
					done <- err
				}()
				synctest.Wait()
				go end(r, cancel)
				var e *providers.Error
				if err := <-done; err == nil || errors.As(err, &e) {
					t.Errorf("got %v, want no image error", err)
				}
				for range 2 {
					if err := r.Close(); err != nil {
						t.Error(err)
					}
				}
				if !image.closed() {
					t.Error("got an open image, want it closed")
				}
			})
		})
	}
}

// TestBodyMemory measures the allocations of reading a large image.
func TestBodyMemory(t *testing.T) {
	const size = 16 << 20
	b := body(t, "x", &content{size: size, bytes: io.LimitReader(zeros{}, size)})
	r := b.Open(t.Context())
	defer r.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, 32<<10))
	runtime.ReadMemStats(&after)
	if err != nil || n != b.Size() {
		t.Errorf("got %d bytes of %d, %v", n, b.Size(), err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
		t.Errorf("allocated %d bytes", got)
	}
}

// zeros is an endless reader.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
