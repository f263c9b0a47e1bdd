package http

import (
	"net/http"
	"strconv"

	"github.com/parleyrun/parley/conversation"
)

// Headers of the protocol.
const (
	headerNextOffset = "Stream-Next-Offset"
	headerUpToDate   = "Stream-Up-To-Date"
	headerErrorRef   = "Parley-Error-Ref"
)

// statusClientGone answers a held long-poll whose client left; nobody receives it.
const statusClientGone = 499

// response remembers whether an answer has begun.
type response struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// secure sets the headers of every read and error response.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
}

// coordinate sets the headers that say where a read ended.
func coordinate(h http.Header, next conversation.Offset, upToDate bool) {
	h.Set(headerNextOffset, next.String())
	if upToDate {
		h.Set(headerUpToDate, "true")
	}
}

// writePage answers a read with the page's bytes as they are. That the client
// may be gone is no news to anybody, so write errors end here.
func writePage(w http.ResponseWriter, p conversation.Page) {
	pageHeaders(w.Header(), p)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(p.JSON)
}

func pageHeaders(h http.Header, p conversation.Page) {
	readHeaders(h, p.Next, p.UpToDate)
	h.Set("Content-Length", strconv.Itoa(len(p.JSON)))
}

func readHeaders(h http.Header, next conversation.Offset, upToDate bool) {
	secure(h)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	coordinate(h, next, upToDate)
}
