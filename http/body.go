package http

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// checkMediaType accepts application/json in any case and with any parameters.
func checkMediaType(r *http.Request) error {
	value := r.Header.Get("Content-Type")
	got, _, err := mime.ParseMediaType(value)
	if got == "application/json" && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) {
		return nil
	}
	if value == "" {
		return conversation.Errorf(conversation.CodeUnsupportedMediaType,
			"The request names no Content-Type. Send application/json.")
	}
	return conversation.Errorf(conversation.CodeUnsupportedMediaType,
		"The Content-Type %.100q is not supported. Send application/json.", value)
}

// checkCoding rejects compressed bodies.
func checkCoding(r *http.Request) error {
	for _, value := range r.Header.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(value, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return conversation.Errorf(conversation.CodeUnsupportedMediaType,
					"The Content-Encoding %.100q is not supported. Send the body without it.", coding)
			}
		}
	}
	return nil
}

const (
	// senderBytes is the minimum progress of a body within one time limit.
	senderBytes = 16 << 10
	// leaveBytes and leaveWithin bound the discarded part of an unread body.
	leaveBytes  = 256 << 10
	leaveWithin = 500 * time.Millisecond
)

// LeaveBody declares that the request body will not be read. Middleware calls it before its own
// response, which then does not wait for the body and closes the connection. Otherwise a slow sender
// holds the connection.
func LeaveBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		leaveBody(http.NewResponseController(w), w.Header(), r.ProtoMajor)
	}
}

// leaveBody bounds the discarding of a body after the response. It returns false for a writer without
// deadlines, such as a recorder.
func leaveBody(rc *http.ResponseController, h http.Header, proto int) bool {
	if proto != 1 || rc.SetReadDeadline(time.Now().Add(leaveWithin)) != nil {
		return false
	}
	h.Set("Connection", "close")
	return true
}

// requestBody is a body with a minimum rate.
type requestBody struct {
	io.ReadCloser
	request *http.Request
	rc      *http.ResponseController
	within  time.Duration // limit for senderBytes

	left int           // of senderBytes
	rest time.Duration // of within, excluding the server's own time
	err  error
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.left, b.rest = senderBytes, b.within
	}
	began := time.Now()
	_ = b.rc.SetReadDeadline(began.Add(b.rest)) // a writer without deadlines does not block
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	b.rest -= time.Since(began)
	if b.err = err; errors.Is(err, io.EOF) {
		_ = b.rc.SetReadDeadline(noDeadline())
	}
	return n, err
}

// leave disposes of a body before the response begins. It discards a short rest, so that the
// connection can be reused.
func (b *requestBody) leave(h http.Header) {
	if b == nil || errors.Is(b.err, io.EOF) {
		return
	}
	stays := b.err == nil && h.Get("Connection") == "" && b.request.ContentLength <= leaveBytes && b.request.Header.Get("Expect") == ""
	if !leaveBody(b.rc, h, b.request.ProtoMajor) || !stays {
		return
	}
	if _, err := io.CopyN(io.Discard, b.ReadCloser, leaveBytes); errors.Is(err, io.EOF) {
		h.Del("Connection")
		_ = b.rc.SetReadDeadline(noDeadline())
	}
}

// readBody spools the request body. The caller closes the spool.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) (*spool, error) {
	if err := checkCoding(r); err != nil {
		return nil, err
	}
	limit := h.opts.MaxBodyBytes
	const tooLong = "The request body is longer than the limit of %d bytes."
	if r.ContentLength > limit {
		return nil, invalid(tooLong, limit)
	}
	memory := h.opts.MemoryBytes
	if r.ContentLength > int64(memory) {
		memory = 0 // it exceeds the memory bound in any case
		if err := h.spools.room(r.ContentLength); err != nil {
			return nil, err
		}
	}
	s := h.spools.open(memory)
	src := &source{r: http.MaxBytesReader(w, r.Body, limit)}
	err := s.readAll(src, r.ContentLength)
	wrong, isWrong := src.text.end()
	if err == nil && !isWrong {
		return s, nil
	}
	closeErr := s.Close()
	switch tooBig := (*http.MaxBytesError)(nil); {
	case errors.As(src.err, &tooBig):
		return nil, invalid(tooLong, limit)
	case errors.Is(src.err, os.ErrDeadlineExceeded):
		return nil, invalid("The request body arrived too slowly: %d bytes may take %v.", senderBytes, h.opts.SlowSender)
	case src.err != nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case src.err != nil:
		return nil, &conversation.Error{
			Code: conversation.CodeInvalidRequest, Details: "The request body could not be read to its end.", Err: src.err,
		}
	}
	if err == nil && closeErr == nil {
		return nil, conversation.Errorf(conversation.CodeInvalidJSON, "The body is not valid UTF-8 at byte %d. Send JSON in UTF-8.", wrong)
	}
	return nil, fmt.Errorf("spool request body: %w", errors.Join(err, closeErr))
}

// source distinguishes errors of the client's body from errors of the local disk.
type source struct {
	r    io.Reader
	err  error
	text utf8Checker
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.text.add(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// fields are the positions of a request's members, by name. The last one of a repeated member counts.
type fields map[string]span

// isPromptField reports whether a member is used. Others are ignored. Images belongs to the beta line.
func isPromptField(name string) bool {
	switch name {
	case "kind", "body", "attachments", "type", "attributes", "tagName", "initialData", "uid", "idempotencyKey", "message", "images":
		return true
	}
	return false
}

// errEmptyBody reports a blank body.
var errEmptyBody = conversation.Errorf(conversation.CodeInvalidJSON, "The body is empty. Send a JSON object.")

// locate validates that the body is one JSON text and locates the members of its object. wanted
// describes the object in errors.
func locate(body *spool, wanted string) (fields, error) {
	from, err := afterBOM(body)
	if err != nil {
		return nil, err
	}
	s := newScanner(body, span{from, body.size})
	first, err := s.next()
	if errors.Is(err, io.EOF) {
		return nil, errEmptyBody
	}
	if err != nil {
		return nil, fmt.Errorf("read spooled body: %w", err)
	}
	found := fields{}
	if first == '{' {
		err = s.object(func(name string) error {
			v, err := s.span()
			if isPromptField(name) {
				found[name] = v
			}
			return err
		})
	} else {
		err = s.value()
	}
	if err == nil {
		err = s.end()
	}
	var syntax *syntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, conversation.Errorf(conversation.CodeInvalidJSON, "The body cannot be parsed as JSON: %v.", syntax)
	case err != nil:
		return nil, fmt.Errorf("read spooled body: %w", err)
	case first != '{':
		return nil, invalid("The body must be a JSON object with %s, not another JSON value.", wanted)
	}
	return found, nil
}

// afterBOM returns the offset of the text after a byte order mark.
func afterBOM(body *spool) (int64, error) {
	const bom = "\xef\xbb\xbf"
	var head [len(bom)]byte
	n, err := body.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read spooled body: %w", err)
	}
	if string(head[:n]) == bom {
		return int64(len(bom)), nil
	}
	return 0, nil
}
