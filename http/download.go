package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/gorilla/mux"

	"github.com/parleyrun/parley/conversation"
)

// downloadPiece is the size of one read and write of an attachment. A download holds two pieces.
const downloadPiece = pieceBytes

// attachment answers with the bytes of an attachment. Errors before the first byte become an envelope;
// later errors break the connection.
func (h *Handler) attachment(w *response, r *http.Request, at conversation.Address) error {
	id, err := url.PathUnescape(mux.Vars(r)["attachment"])
	if err != nil {
		return invalid("The attachment id has an invalid percent escape.")
	}
	a, content, err := h.reader.Attachment(r.Context(), at, conversation.AttachmentID(id))
	if err != nil {
		return err
	}
	defer content.Close()
	d := &download{
		w: w, content: content, left: a.Size,
		begin: func() {
			attachmentHeaders(w.Header(), a)
			w.WriteHeader(http.StatusOK)
		},
	}
	if err := d.run(); err != nil {
		err = fmt.Errorf("send attachment %s: %w", id, err)
		if d.begin == nil {
			h.breakOff(r, err)
		}
		return err
	}
	return nil
}

// attachmentHeaders allow permanent caching, since attachments are addressed by their digest. They
// prevent a document from running scripts in this origin.
func attachmentHeaders(h http.Header, a conversation.Attachment) {
	secure(h)
	h.Set("Content-Type", a.MimeType)
	h.Set("Content-Length", strconv.FormatInt(a.Size, 10))
	h.Set("Content-Disposition", disposition(a.MimeType))
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("Content-Security-Policy", "sandbox")
}

// disposition returns "inline" for the four image types in which no browser runs scripts, and
// "attachment" otherwise. An HTML or SVG document opened under this origin could impersonate its
// pages.
func disposition(mimeType string) string {
	t, _, err := mime.ParseMediaType(mimeType)
	if err == nil && slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, t) {
		return "inline"
	}
	return "attachment"
}

// breakOff aborts a partial response. Only a broken connection signals the error.
func (h *Handler) breakOff(r *http.Request, err error) {
	var unwritten *writeError
	log, ctx := h.opts.Logger, r.Context()
	switch {
	case errors.As(err, &unwritten) && isSlow(err):
		log.InfoContext(ctx, "download by slow reader aborted", logRequest(r, err)...)
	case errors.As(err, &unwritten), ctx.Err() != nil && errors.Is(err, context.Canceled):
		log.DebugContext(ctx, "client left", "method", r.Method, "path", r.URL.Path)
	default:
		log.ErrorContext(ctx, "response aborted", append(logRequest(r, err), "ref", h.opts.NewRef())...)
	}
	panic(http.ErrAbortHandler)
}

// download sends content of a known size. It writes a piece only after it has read the next one. So an
// error at the end, such as a wrong digest, leaves the last piece unsent.
type download struct {
	w       *response
	content io.Reader
	begin   func() // sends the headers; nil once done

	next  []byte // read, not yet written
	left  int64  // bytes not yet read
	ended bool   // Invariant: left is 0 once it is set.
}

// run reads and sends the content. A [*writeError] reports a client that does not read.
func (d *download) run() error {
	d.next = d.buffer()
	if err := d.read(); err != nil {
		return err
	}
	var spare []byte
	if !d.ended {
		spare = d.buffer()
	}
	for !d.ended {
		piece := d.next
		d.next = spare
		if err := d.read(); err != nil {
			return err
		}
		if err := d.write(piece); err != nil {
			return err
		}
		spare = piece[:0]
	}
	return d.write(d.next)
}

// buffer returns a buffer for one piece. For a short rest it has one extra byte, so that the same read
// finds the end.
func (d *download) buffer() []byte { return make([]byte, 0, min(d.left+1, downloadPiece)) }

// read fills next, and checks the length of the content.
func (d *download) read() error {
	buf := d.next[:cap(d.next)]
	n, err := 0, error(nil)
	for n < len(buf) && err == nil {
		var k int
		k, err = d.content.Read(buf[n:])
		n += k
	}
	d.next, d.left = buf[:n], d.left-int64(n)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case d.left < 0:
		return fmt.Errorf("content is longer than its size, by %d bytes or more", -d.left)
	case err != nil && d.left > 0:
		return fmt.Errorf("content ends %d bytes before its size", d.left)
	}
	d.ended = err != nil
	return nil
}

func (d *download) write(piece []byte) error {
	if d.begin != nil {
		d.begin()
		d.begin = nil
	}
	_, err := d.w.Write(piece)
	if err == nil {
		err = d.w.flush()
	}
	// The server flushes at the end of a download.
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return &writeError{err}
	}
	return nil
}
