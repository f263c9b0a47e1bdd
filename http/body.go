package http

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

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

// readBody spools the request body. The caller closes the spool.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) (*spool, error) {
	limit := h.opts.MaxBodyBytes
	const tooLong = "The request body is longer than the limit of %d bytes."
	if r.ContentLength > limit {
		return nil, invalid(tooLong, limit)
	}
	memory := h.opts.MemoryBytes
	if r.ContentLength > int64(memory) {
		memory = 0 // it goes to a file in any case
	}
	s := newSpool(h.opts.TempDir, memory)
	src := &source{r: http.MaxBytesReader(w, r.Body, limit)}
	err := s.readAll(src, r.ContentLength)
	if err == nil {
		return s, nil
	}
	closeErr := s.Close()
	switch tooBig := (*http.MaxBytesError)(nil); {
	case errors.As(src.err, &tooBig):
		return nil, invalid(tooLong, limit)
	case src.err != nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case src.err != nil:
		return nil, &conversation.Error{
			Code: conversation.CodeInvalidRequest, Details: "The request body could not be read to its end.", Err: src.err,
		}
	}
	return nil, fmt.Errorf("spool request body: %w", errors.Join(err, closeErr))
}

// source tells an error of the client's body from one of our disk.
type source struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// fields are the places of a request's members, by name. Of a repeated member the
// last one counts.
type fields map[string]span

// isPromptField lists the members that mean something. Others are ignored.
func isPromptField(name string) bool {
	switch name {
	case "kind", "body", "attachments", "type", "attributes", "tagName", "initialData", "uid", "idempotencyKey", "message":
		return true
	}
	return false
}

// locate checks that the whole body is one JSON text and finds the members of
// its object.
func locate(body *spool) (fields, error) {
	from, err := afterBOM(body)
	if err != nil {
		return nil, err
	}
	s := newScanner(body, span{from, body.size})
	first, err := s.next()
	if errors.Is(err, io.EOF) {
		return nil, conversation.Errorf(conversation.CodeInvalidJSON, "The body is empty. Send a JSON object.")
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
		return nil, invalid("The body must be a JSON object with kind and body, not another JSON value.")
	}
	return found, nil
}

// afterBOM is where the text begins.
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
