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

// content is an image that tells how it is used.
type content struct {
	size  int64
	bytes io.Reader
	err   error // of Open
	// opened is non-nil when the image is, and ends when it is closed.
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

// endless waits for bytes that never come.
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

// letter is a message for an encoder.
type letter struct {
	Text   string   `json:"text"`
	Images []string `json:"images"`
}

// body encodes images, each as a data URL, between texts.
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

// TestBodyIsTheSameBytes: what is streamed is what would have been in memory.
func TestBodyIsTheSameBytes(t *testing.T) {
	const piece = 24 << 10
	text := "<b>\u2028\x00\xff \"quoted\" 00000000"
	for _, size := range []int{0, 1, 2, 3, 4, piece - 1, piece, piece + 1, piece + 2, 2 * piece, 3*piece + 7} {
		first, second := bytes.Repeat([]byte{0xfb, 0xff, 7}, size)[:size], []byte("second")
		want := whole(t, text, first, second, first)
		b := body(t, text, providers.Bytes(first), providers.Bytes(second), &content{size: int64(size), bytes: bytes.NewReader(first)})
		if b.Size() != int64(len(want)) {
			t.Errorf("%d bytes: size %d, want %d", size, b.Size(), len(want))
		}
		r := b.Open(t.Context())
		if err := iotest.TestReader(r, []byte(want)); err != nil {
			t.Errorf("%d bytes: %v", size, err)
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

// TestBodyTakesImagesWhereTheyStand: neither the order of the calls nor a place
// that is used twice, or never, matters.
func TestBodyTakesImagesWhereTheyStand(t *testing.T) {
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
		t.Error("a place that is cut is accepted")
	}
	if _, err := e.Encode(func() {}); err == nil {
		t.Error("a value without JSON is accepted")
	}
}

// TestBodyCanBeOpenedAgain, also while it is read.
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
		t.Errorf("the first reader goes on with %s, %v, want %s", rest, err, want)
	}
}

// TestBodyOfABadImage fails before the last piece of that image.
func TestBodyOfABadImage(t *testing.T) {
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
				t.Errorf("the next read says %v, the first %v", again, err)
			}
			if strings.Contains(string(got), encoded) {
				t.Error("the whole image was read")
			}
			r.Close()
			if tt.content.opened != nil && !tt.content.closed() {
				t.Error("the image is still open")
			}
		})
	}
}

// TestBodyIsClosedInMidRead: the Read ends and the image is closed when Close
// returns.
func TestBodyIsClosedInMidRead(t *testing.T) {
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
					t.Errorf("the read ends with %v, which blames the image", err)
				}
				for range 2 {
					if err := r.Close(); err != nil {
						t.Error(err)
					}
				}
				if !image.closed() {
					t.Error("the image is still open")
				}
			})
		})
	}
}

// TestBodyIsNotInMemory counts all that is allocated while a large image is read.
func TestBodyIsNotInMemory(t *testing.T) {
	const size = 16 << 20
	b := body(t, "x", &content{size: size, bytes: io.LimitReader(zeros{}, size)})
	r := b.Open(t.Context())
	defer r.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, 32<<10))
	runtime.ReadMemStats(&after)
	if err != nil || n != b.Size() {
		t.Errorf("read %d bytes of %d, %v", n, b.Size(), err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
		t.Errorf("allocated %d bytes", got)
	}
}

// zeros never ends.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
