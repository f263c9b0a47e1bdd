package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
)

// Message is a user's message, or a signal of a system. The zero value is an empty user's message.
type Message struct {
	// Body is the text, in UTF-8.
	Body string
	// Attachments are allowed in users' messages only.
	Attachments []Attachment
	// Signal makes the message a signal.
	Signal *Signal

	// IfAbsent requires that the conversation does not exist yet. IfUID, unless it is empty, requires
	// this incarnation. At most one of them is set.
	IfAbsent bool
	IfUID    conversation.UID
	// InitialData is the initial data of a conversation that this message creates. It is encoded as
	// JSON; nil sends none, json.RawMessage("null") sends null.
	InitialData any

	// Notify is the target that receives the settlement: a name or a URL that the agent allows its
	// callers. Empty is none.
	Notify string

	// Key is the idempotency key, 1 to 256 characters. Empty means a new one.
	Key string
}

// Signal has the properties of a signal other than its body.
type Signal struct {
	// Type is the kind of event; it must not be empty.
	Type string
	// Attributes and TagName shape what the model sees. Both may be empty.
	Attributes map[string]string
	TagName    string
}

// SignalFor returns the message that resolves a tool's wait of a name with a value: a string as it is,
// anything else as JSON.
func SignalFor(name string, value any) (Message, error) {
	d, err := conversation.SignalFor(name, value)
	return Message{Body: d.Body, Signal: &Signal{Type: d.Type, Attributes: d.Attributes}}, err
}

// PostAgain returns a message that resends a post from its dead letter: the post, and the batch of the
// log with its body. It is refused with invalid_request if that batch has no such post.
func PostAgain(post conversation.PostID, batch int64) Message {
	return Message{Signal: &Signal{
		Type: conversation.SignalOutbox, Attributes: map[string]string{"post": string(post), "batch": strconv.FormatInt(batch, 10)},
	}}
}

// Attachment is an image of a message.
type Attachment struct {
	// MimeType is the media type, such as image/png.
	MimeType string
	// Filename is for people; empty sends none.
	Filename string
	// Data is the content, unless Open is set. It must not change until Send returns, and is not
	// copied.
	Data []byte
	// Open returns the content from its start. It is called for every attempt and must return the same
	// bytes; its result is closed. Send does not return during a Read of it.
	Open func() (io.ReadCloser, error)
}

// prompt is the flat object on the wire, without attachments.
type prompt struct {
	Kind        conversation.Kind `json:"kind"`
	Type        string            `json:"type,omitempty"`
	TagName     string            `json:"tagName,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"`
	UID         json.RawMessage   `json:"uid,omitempty"`
	InitialData json.RawMessage   `json:"initialData,omitempty"`
	Key         string            `json:"idempotencyKey"`
	Body        string            `json:"body"`
}

// payload is the encoded message without the content of its attachments.
type payload struct {
	// pieces has one element more than contents; contents go between them.
	pieces   [][]byte
	contents []Attachment
	length   int64 // in bytes; -1 if the length of a content is unknown
}

// encode validates the parts that the server cannot report well, and encodes the rest.
func (m *Message) encode(key string) (*payload, error) {
	switch {
	case m.Signal != nil && len(m.Attachments) > 0:
		return nil, errors.New("a signal has no attachments")
	case m.IfAbsent && m.IfUID != "":
		return nil, errors.New("IfAbsent and IfUID contradict each other")
	case !utf8.ValidString(m.Body):
		return nil, errors.New("the body is not UTF-8")
	}
	p := prompt{Kind: conversation.KindUser, Body: m.Body, Key: key}
	if m.Signal != nil {
		p.Kind, p.Type, p.TagName, p.Attributes = conversation.KindSignal, m.Signal.Type, m.Signal.TagName, m.Signal.Attributes
	}
	var err error
	switch {
	case m.IfAbsent:
		p.UID = json.RawMessage("null")
	case m.IfUID != "":
		if p.UID, err = conversation.EncodeJSON(m.IfUID); err != nil {
			return nil, fmt.Errorf("encode uid: %w", err)
		}
	}
	if m.InitialData != nil {
		if p.InitialData, err = conversation.EncodeJSON(m.InitialData); err != nil {
			return nil, fmt.Errorf("encode initial data: %w", err)
		}
	}
	head, err := conversation.EncodeJSON(p)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return compose(head, m.Attachments)
}

// compose puts attachments into an encoded object.
func compose(head []byte, attachments []Attachment) (*payload, error) {
	p := &payload{contents: attachments}
	piece := head
	for i, a := range attachments {
		facts, err := conversation.EncodeJSON(struct {
			Type     string `json:"type"`
			MimeType string `json:"mimeType"`
			Filename string `json:"filename,omitempty"`
		}{"image", a.MimeType, a.Filename})
		if err != nil {
			return nil, fmt.Errorf("encode attachment %d: %w", i, err)
		}
		if i == 0 {
			piece = append(bytes.TrimSuffix(piece, []byte("}")), `,"attachments":[`...)
		} else {
			piece = append(piece, ',')
		}
		piece = append(append(piece, bytes.TrimSuffix(facts, []byte("}"))...), `,"data":"`...)
		p.pieces = append(p.pieces, piece)
		piece = []byte(`"}`)
	}
	if len(attachments) > 0 {
		piece = append(piece, `]}`...)
	}
	p.pieces = append(p.pieces, piece)
	for _, piece := range p.pieces {
		p.length += int64(len(piece))
	}
	for _, a := range attachments {
		if a.Open != nil {
			p.length = -1
			break
		}
		p.length += int64(base64.StdEncoding.EncodedLen(len(a.Data)))
	}
	return p, nil
}

// upload is one transmission of the payload.
type upload struct {
	payload *payload
	dog     *watchdog

	mu      sync.Mutex
	stopped bool // Invariant: the payload is not read after it is set.
	failed  error
	open    []io.Closer
}

var errStopped = errors.New("the exchange is over")

// stop ends the upload. No read of the payload is in progress when it returns.
func (u *upload) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	for _, c := range u.open {
		_ = c.Close() // it was only read
	}
	u.open = nil
}

// failure returns the error of the caller's content, if there was one.
func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed == nil {
		return nil
	}
	return &callerError{u.failed}
}

// reader returns the payload from its start. A redirect needs a second one.
func (u *upload) reader() io.ReadCloser {
	var list []io.Reader
	for i, piece := range u.payload.pieces {
		list = append(list, bytes.NewReader(piece))
		if i < len(u.payload.contents) {
			list = append(list, &encoder{up: u, index: i})
		}
	}
	return &uploadReader{u, io.MultiReader(list...)}
}

// uploadReader is an upload as a request's body. Its content is closed by stop.
type uploadReader struct {
	up  *upload
	src io.Reader
}

// Read implements io.Reader.
func (r *uploadReader) Read(p []byte) (int, error) {
	r.up.mu.Lock()
	defer r.up.mu.Unlock()
	if r.up.stopped {
		return 0, errStopped
	}
	r.up.dog.touch()
	return r.src.Read(p)
}

// Close implements io.Closer.
func (r *uploadReader) Close() error { return nil }

// encoder is the content of an attachment in base64. The mutex of its upload is held during reads.
type encoder struct {
	up    *upload
	index int
	src   io.Reader // nil until the first read
	raw   [24 << 10]byte
	text  [32 << 10]byte
	ready []byte // bytes of text
	ended bool
}

// Read implements io.Reader.
func (e *encoder) Read(p []byte) (int, error) {
	if e.src == nil {
		if err := e.start(); err != nil {
			return 0, e.fail("open", err)
		}
	}
	if len(e.ready) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		// Only groups of three bytes encode independently.
		n, err := io.ReadFull(e.src, e.raw[:])
		if e.ended = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil && !e.ended {
			return 0, e.fail("read", err)
		}
		base64.StdEncoding.Encode(e.text[:], e.raw[:n])
		e.ready = e.text[:base64.StdEncoding.EncodedLen(n)]
		if n == 0 {
			return 0, io.EOF
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

func (e *encoder) start() error {
	a := e.up.payload.contents[e.index]
	if a.Open == nil {
		e.src = bytes.NewReader(a.Data)
		return nil
	}
	content, err := a.Open()
	if err != nil {
		return err
	}
	e.src = content
	e.up.open = append(e.up.open, content)
	return nil
}

func (e *encoder) fail(verb string, err error) error {
	e.up.failed = fmt.Errorf("%s attachment %d: %w", verb, e.index, err)
	return e.up.failed
}
