package providers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
)

// Body is the body of a request, or a part of one. It is JSON in which the base64 of images is
// streamed and never held in memory as a whole. A Body is immutable and safe for concurrent use.
type Body struct {
	parts []bodyPart
	size  int64
	// watch is called with every reader that Open returns; it may be nil.
	watch func(*bodyReader)
}

// bodyPart is a text followed by an optional image.
type bodyPart struct {
	text  []byte
	image Content
}

// NewBody returns a body that is text only.
func NewBody(text string) *Body {
	return &Body{parts: []bodyPart{{text: []byte(text)}}, size: int64(len(text))}
}

// Size returns the length of the body in bytes.
func (b *Body) Size() int64 { return b.size }

// TextBytes returns the number of bytes of the body that are in memory.
func (b *Body) TextBytes() int64 {
	var n int64
	for _, p := range b.parts {
		n += int64(len(p.text))
	}
	return n
}

// Inner returns the body without its first front and its last back bytes, which must not contain an
// image. It shares memory with b.
func (b *Body) Inner(front, back int) *Body {
	inner := &Body{parts: slices.Clone(b.parts), size: b.size - int64(front) - int64(back)}
	first, last := &inner.parts[0], &inner.parts[len(b.parts)-1]
	first.text = first.text[front:]
	last.text = last.text[:len(last.text)-back]
	return inner
}

// Open returns a reader of the whole body. The caller closes it. The reader opens one image at a time
// when it reaches it, and buffers one piece. The context of the image ends with ctx or on Close. A
// failing image yields an *Error of KindImageUnavailable or KindImageUnreadable. A content with the
// wrong size fails before its last piece is read. Close may be called during a Read.
func (b *Body) Open(ctx context.Context) io.ReadCloser {
	r := b.open(ctx)
	if b.watch != nil {
		b.watch(r)
	}
	return r
}

func (b *Body) open(ctx context.Context) *bodyReader {
	ctx, cancel := context.WithCancel(ctx)
	return &bodyReader{ctx: ctx, cancel: cancel, parts: b.parts}
}

// BodyEncoder builds the Body of one request from values for encoding/json. The zero value is ready to
// use. It belongs to one goroutine.
type BodyEncoder struct {
	// mark is random, so that placeholders cannot occur in the texts of the request.
	mark   string
	places []place
}

// place is the content of a placeholder: an image or bodies.
type place struct {
	image  Content
	bodies []*Body
}

// placeDigits is the length of the number after the mark.
const placeDigits = 8

// Base64 returns a placeholder for the base64 of i, for use in the values given to Encode. It may be
// part of a longer string.
func (e *BodyEncoder) Base64(i Image) string {
	if i.Content == nil || i.Content.Size() <= 0 {
		return ""
	}
	return e.place(place{image: i.Content})
}

// Place returns a placeholder value for the concatenation of bodies, for use in the values given to
// Encode. The concatenation must be one JSON value.
func (e *BodyEncoder) Place(bodies ...*Body) json.RawMessage {
	return json.RawMessage(`"` + e.place(place{bodies: bodies}) + `"`)
}

func (e *BodyEncoder) place(p place) string {
	if e.mark == "" {
		e.mark = rand.Text()
	}
	e.places = append(e.places, p)
	return fmt.Sprintf("%s%0*d", e.mark, placeDigits, len(e.places)-1)
}

// Encode encodes v as JSON without HTML escapes.
func (e *BodyEncoder) Encode(v any) (*Body, error) {
	var encoded bytes.Buffer
	enc := json.NewEncoder(&encoded)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	b, rest := &Body{}, encoded.Bytes()
	for e.mark != "" {
		at := bytes.Index(rest, []byte(e.mark))
		if at < 0 {
			break
		}
		text, number := rest[:at], rest[at+len(e.mark):]
		i, err := strconv.Atoi(string(number[:min(len(number), placeDigits)]))
		if err != nil || i >= len(e.places) {
			return nil, errors.New("encode request: placeholder of an image is truncated")
		}
		rest = number[placeDigits:]
		if p := e.places[i]; p.image != nil {
			b.add(bodyPart{text: text, image: p.image})
			continue
		}
		// Place has put its mark in quotes.
		b.add(bodyPart{text: text[:len(text)-1]})
		rest = rest[1:]
		for _, inner := range e.places[i].bodies {
			b.parts = append(b.parts, inner.parts...)
			b.size += inner.size
		}
	}
	b.add(bodyPart{text: rest})
	return b, nil
}

func (b *Body) add(p bodyPart) {
	b.size += int64(len(p.text))
	if p.image != nil {
		size := p.image.Size()
		b.size += (size + 2) / 3 * 4
	}
	b.parts = append(b.parts, p)
}

type bodyReader struct {
	ctx    context.Context // ends when the reader is closed
	cancel context.CancelFunc

	mu    sync.Mutex
	parts []bodyPart // not started
	ready []byte     // read next
	next  Content    // the image after ready
	image *imageText // the current image
	err   error      // final error of the reader
}

var errBodyClosed = errors.New("read closed body")

// Read implements io.Reader.
func (r *bodyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(p) && r.err == nil {
		if len(r.ready) == 0 {
			if n > 0 && (r.image != nil || r.next != nil) {
				break // return available bytes without waiting for an image
			}
			r.err = r.fill()
			continue
		}
		took := copy(p[n:], r.ready)
		r.ready = r.ready[took:]
		n += took
	}
	if n == 0 {
		return 0, r.err
	}
	return n, nil
}

// fill makes bytes available in ready, or advances to the next part.
func (r *bodyReader) fill() (err error) {
	switch {
	case r.image != nil:
		r.ready, err = r.image.next()
		if err == io.EOF {
			// The content is complete; an error of Close does not matter.
			_ = r.image.content.Close()
			err, r.image = nil, nil
		}
	case r.next != nil:
		r.image, err = openImage(r.ctx, r.next)
		r.next = nil
	case len(r.parts) > 0:
		r.ready, r.next = r.parts[0].text, r.parts[0].image
		r.parts = r.parts[1:]
		return nil
	default:
		return io.EOF
	}
	if err == nil {
		return nil
	}
	if r.ctx.Err() != nil {
		return r.ctx.Err() // the reader was closed; the image did not fail
	}
	kind := KindImageUnreadable
	if errors.Is(err, ErrUnavailable) {
		kind = KindImageUnavailable
	}
	return &Error{Kind: kind, Err: fmt.Errorf("read image: %w", err)}
}

// Close implements io.Closer. It cancels the context of a concurrent Read and waits for it.
func (r *bodyReader) Close() error {
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = errBodyClosed
	}
	r.ready = nil
	if r.image == nil {
		return nil
	}
	image := r.image
	r.image = nil
	return image.content.Close()
}

// failure returns the error of an image, or nil.
func (r *bodyReader) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e *Error
	if errors.As(r.err, &e) {
		return e
	}
	return nil
}

// imagePiece is the amount of an image in memory at a time, in bytes. It is a multiple of 3, so that
// the encoded pieces concatenate.
const imagePiece = 24 << 10

// imageText streams the base64 text of an image.
type imageText struct {
	content io.ReadCloser
	left    int64
	raw     []byte
	text    []byte
}

func openImage(ctx context.Context, c Content) (*imageText, error) {
	content, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &imageText{content: content, left: c.Size(), raw: make([]byte, min(c.Size(), imagePiece))}, nil
}

// next returns the next piece, which is valid until the next call, or io.EOF. It returns the last
// piece only after the content has ended without an error.
func (t *imageText) next() ([]byte, error) {
	if t.left == 0 {
		return nil, io.EOF
	}
	raw := t.raw[:min(int64(len(t.raw)), t.left)]
	n, err := io.ReadFull(t.content, raw)
	t.left -= int64(n)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("content ends %d bytes early", t.left)
	}
	if err != nil {
		return nil, err
	}
	if t.left == 0 {
		var more [1]byte
		switch n, err := io.ReadFull(t.content, more[:]); {
		case n > 0:
			return nil, errors.New("content is longer than its size")
		case err != io.EOF:
			return nil, err
		}
	}
	t.text = base64.StdEncoding.AppendEncode(t.text[:0], raw)
	return t.text, nil
}
