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

// Body is the body of a request, or a part of one: JSON in which the base64 of
// images is not in memory but read while the body is. It does not change and is safe
// for concurrent use.
type Body struct {
	parts []bodyPart
	size  int64
	// watch sees every reader that Open makes; it may be nil.
	watch func(*bodyReader)
}

// bodyPart is some text and the image after it, if there is one.
type bodyPart struct {
	text  []byte
	image Content
}

// NewBody returns a body of text alone.
func NewBody(text string) *Body {
	return &Body{parts: []bodyPart{{text: []byte(text)}}, size: int64(len(text))}
}

// Size is the length of the body in bytes.
func (b *Body) Size() int64 { return b.size }

// TextBytes is how many bytes of the body are in memory.
func (b *Body) TextBytes() int64 {
	var n int64
	for _, p := range b.parts {
		n += int64(len(p.text))
	}
	return n
}

// Inner returns the body without its first front and its last back bytes, in which
// no image may be. It shares the memory of b.
func (b *Body) Inner(front, back int) *Body {
	inner := &Body{parts: slices.Clone(b.parts), size: b.size - int64(front) - int64(back)}
	first, last := &inner.parts[0], &inner.parts[len(b.parts)-1]
	first.text = first.text[front:]
	last.text = last.text[:len(last.text)-back]
	return inner
}

// Open returns a reader of the whole body, which the caller closes. It opens the
// images one by one as it comes to them, with a context that ends with ctx or when
// it is closed, and holds a piece of one at a time. An error of an image is an
// *Error of KindImageUnavailable or KindImageUnreadable; an image that is not what
// it was shows before its last piece is read. Close may be called during a Read.
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

// BodyEncoder makes the Body of one request out of values for encoding/json. The
// zero value is ready. It belongs to one goroutine.
type BodyEncoder struct {
	// mark tells places from all text: nobody can have written what did not exist yet.
	mark   string
	places []place
}

// place is what stands where a mark is: an image, or bodies.
type place struct {
	image  Content
	bodies []*Body
}

// placeDigits is the length of a place's number behind the mark.
const placeDigits = 8

// Base64 returns a text that stands for the base64 of i in the values given to
// Encode. It may be part of a longer string.
func (e *BodyEncoder) Base64(i Image) string {
	if i.Content == nil || i.Content.Size() <= 0 {
		return ""
	}
	return e.place(place{image: i.Content})
}

// Place returns a value that stands for bodies, one after the other, in the values
// given to Encode. Together they must be one JSON value.
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

// Encode renders v as JSON, without escapes for HTML.
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
			return nil, errors.New("encode request: the place of an image is cut")
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

// bodyReader reads a Body.
type bodyReader struct {
	ctx    context.Context // ends when the reader is closed
	cancel context.CancelFunc

	mu    sync.Mutex
	parts []bodyPart // not begun
	ready []byte     // to be read next
	next  Content    // the image after ready
	image *imageText // the image being read
	err   error      // what the reader ended with
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
				break // what is there need not wait for an image
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

// fill makes something ready, or moves on to where there is something.
func (r *bodyReader) fill() (err error) {
	switch {
	case r.image != nil:
		r.ready, err = r.image.next()
		if err == io.EOF {
			// It has proved whole: nothing that Close could say changes that.
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
		return r.ctx.Err() // nobody reads on; the image is not to blame
	}
	kind := KindImageUnreadable
	if errors.Is(err, ErrUnavailable) {
		kind = KindImageUnavailable
	}
	return &Error{Kind: kind, Err: fmt.Errorf("read image: %w", err)}
}

// Close implements io.Closer. It waits for a Read under way, whose context it ends.
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

// failure returns what kept an image from being read, nil if nothing did.
func (r *bodyReader) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e *Error
	if errors.As(r.err, &e) {
		return e
	}
	return nil
}

// imagePiece is how much of an image is in memory at a time, in bytes: a multiple
// of 3, so that pieces encode as the whole does.
const imagePiece = 24 << 10

// imageText is the base64 text of an image, piece by piece.
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

// next returns the next piece, which is good until the next call, or io.EOF. The
// last one comes only when the content has ended well.
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
