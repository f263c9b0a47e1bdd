package channels

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// bodyTimeout is the timeout for a whole body.
	bodyTimeout = 10 * time.Second
	// drainTimeout is the timeout for draining an unread body.
	drainTimeout = 500 * time.Millisecond
)

// Header returns the values of a header joined by ", ", as HTTP defines it.
func Header(h http.Header, name string) string { return strings.Join(h.Values(name), ", ") }

// mediaType reports whether the body has one of the accepted media types, ignoring parameters. A
// repeated header matches none.
func mediaType(h http.Header, accepted []string) bool {
	contentType := h.Values("Content-Type")
	if len(contentType) != 1 {
		return false
	}
	got, _, _ := strings.Cut(contentType[0], ";")
	return slices.Contains(accepted, strings.ToLower(strings.Trim(got, " \t")))
}

// declaredLength returns the declared length of the body, or -1 if there is none. It also validates
// the header of requests that did not pass through a server.
func declaredLength(r *http.Request) (int64, error) {
	value := Header(r.Header, "Content-Length")
	if value == "" {
		return r.ContentLength, nil
	}
	if strings.Trim(value, "0123456789") != "" {
		return 0, errors.New("Content-Length is not a number")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil { // the digits overflow an int64
		return 1<<63 - 1, nil
	}
	return n, nil
}

// isCompressed reports whether a Content-Encoding is declared: the signatures of platforms cover the plain body.
func isCompressed(h http.Header) bool {
	for coding := range strings.SplitSeq(Header(h, "Content-Encoding"), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
			return true
		}
	}
	return false
}

func tooLong() error { return Refuse(http.StatusRequestEntityTooLarge, "too long") }

// readBody reads a body of at most limit bytes, within bodyTimeout.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	began, rc := time.Now(), http.NewResponseController(w)
	_ = rc.SetReadDeadline(began.Add(bodyTimeout))
	body, err := io.ReadAll(io.LimitReader(&deadlineReader{r.Body, began.Add(bodyTimeout)}, limit+1))
	switch {
	case int64(len(body)) > limit:
		err = tooLong()
	case retryable(err): // no memory is available for the body
	case err != nil:
		err = &Refusal{Status: http.StatusBadRequest, Reason: "broken body", Err: err}
	default:
		_ = rc.SetReadDeadline(time.Time{})
		r.Body = http.NoBody
		return body, nil
	}
	dropBody(w, r)
	return nil, err
}

// deadlineReader is a reader that fails after a deadline. The server's own timeout does not apply to a slow
// body that makes progress.
type deadlineReader struct {
	io.Reader
	until time.Time
}

func (p *deadlineReader) Read(b []byte) (int, error) {
	if time.Now().After(p.until) {
		return 0, errors.New("read body: timeout")
	}
	return p.Reader.Read(b)
}

// dropBody closes the connection after the response, without waiting for an unread body.
func dropBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || r.ProtoMajor != 1 {
		return
	}
	if http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout)) == nil {
		w.Header().Set("Connection", "close")
	}
}
