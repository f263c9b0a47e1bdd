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
	// bodyWithin is how long a body may take altogether.
	bodyWithin = 10 * time.Second
	// leaveWithin is how long the rest of a body is waited for that nobody reads.
	leaveWithin = 500 * time.Millisecond
)

// Header is the value of a header as the web has it: of several they are one, joined.
func Header(h http.Header, name string) string { return strings.Join(h.Values(name), ", ") }

// mediaType reports whether a body is of one of some media types, whatever its parameters. Two headers say of none.
func mediaType(h http.Header, accepted []string) bool {
	said := h.Values("Content-Type")
	if len(said) != 1 {
		return false
	}
	got, _, _ := strings.Cut(said[0], ";")
	return slices.Contains(accepted, strings.ToLower(strings.Trim(got, " \t")))
}

// declaredLength is the length that a request says its body has, -1 if it says nothing. A
// server refuses what is no number before; a request that was made otherwise is checked here.
func declaredLength(r *http.Request) (int64, error) {
	value := Header(r.Header, "Content-Length")
	if value == "" {
		return r.ContentLength, nil
	}
	if strings.Trim(value, "0123456789") != "" {
		return 0, errors.New("length is no number")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil { // digits alone: more than there is memory for
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

// readBody reads a body of at most limit bytes, within bodyWithin.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	began, rc := time.Now(), http.NewResponseController(w)
	_ = rc.SetReadDeadline(began.Add(bodyWithin)) // who has none does not block
	body, err := io.ReadAll(io.LimitReader(&punctual{r.Body, began.Add(bodyWithin)}, limit+1))
	switch {
	case int64(len(body)) > limit:
		err = tooLong()
	case retryable(err): // there is no room for it
	case err != nil:
		err = &Refusal{Status: http.StatusBadRequest, Reason: "broken body", Err: err}
	default:
		_ = rc.SetReadDeadline(time.Time{})
		r.Body = http.NoBody
		return body, nil
	}
	leaveBody(w, r)
	return nil, err
}

// punctual fails once it is late: below a server that lets bodies make progress, none of its
// reads does.
type punctual struct {
	io.Reader
	until time.Time
}

// Read implements io.Reader.
func (p *punctual) Read(b []byte) (int, error) {
	if time.Now().After(p.until) {
		return 0, errors.New("the body came too slowly")
	}
	return p.Reader.Read(b)
}

// leaveBody has an answer not wait for a body that is not read. The connection ends.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || r.ProtoMajor != 1 {
		return
	}
	if http.NewResponseController(w).SetReadDeadline(time.Now().Add(leaveWithin)) == nil {
		w.Header().Set("Connection", "close")
	}
}
