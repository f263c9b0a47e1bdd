package channeltest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	parleyhttp "github.com/parleyrun/parley/http"
)

// Subject is one route of a channel, and the requests that its platform sends.
type Subject struct {
	// New makes the channel. It must call callback for each verified delivery and return its result.
	// If limit is 0, the channel uses its default.
	New func(t testing.TB, callback channels.Call, limit int64) channels.Channel
	// Path is the path of the route, such as /webhook.
	Path string
	// MediaType is the media type of bodies.
	MediaType string
	// Body is a valid body. Pad lengthens it by so many bytes.
	Body string
	Pad  func(body string, by int) string
	// Prove sets the headers that sign a body. Tests falsify Header.
	Prove  func(h http.Header, body []byte)
	Header string
	// Malformed lists malformed values of Header, Forged well-formed ones that verify nothing.
	Malformed, Forged []string
	// Unsigned reports that the signature does not cover the body.
	Unsigned bool
	// Unproven is the status of an unverified request. If 0, it is 401.
	Unproven int
	// ResponsesOnly reports that the callback's result must be a response or nil.
	ResponsesOnly bool
	// Broken lists signed bodies that the platform does not send. BrokenStatus is their status; if 0,
	// it is 400.
	Broken       map[string]string
	BrokenStatus int
	// Silent reports that failures are reported to the platform by the status alone.
	Silent bool
	// Nothing and NothingBody are the status and body for a nil result. If Nothing is 0, it is 200.
	Nothing     int
	NothingBody string
	// Query signs a request with a query. It is nil if the signature does not cover the query.
	Query func(query url.Values, h http.Header, body []byte)
	// Order lists faults by precedence: of several in a request, the first determines the response.
	Order []Fault
}

// Fault is a defect of a request.
type Fault string

// Faults of a request.
const (
	MediaType       Fault = "media type"
	MalformedLength Fault = "malformed length"
	Declared        Fault = "declared too long"
	Streamed        Fault = "streamed too long"
	Missing         Fault = "missing proof"
	Malformed       Fault = "malformed proof"
	Forged          Fault = "forged proof"
	Broken          Fault = "broken body"
)

// limit is the body limit in tests of limits.
const limit = 4096

type request struct {
	method, path string
	header       http.Header
	body         []byte
	streamed     bool  // without a Content-Length
	declared     int64 // Content-Length instead of the true length, if not 0
}

// request returns a signed delivery of a body.
func (s *Subject) request(body string) *request {
	r := &request{method: http.MethodPost, path: s.Path, header: http.Header{}, body: []byte(body)}
	r.header.Set("Content-Type", s.MediaType)
	s.Prove(r.header, r.body)
	return r
}

type answer struct {
	status int
	header http.Header
	body   string
	called int
}

// way is a way to send a request to a channel.
type way struct {
	name string
	send func(t *testing.T, c channels.Channel, r *request) answer
}

func ways() []way {
	return []way{
		{"in process explicit", func(t *testing.T, c channels.Channel, r *request) answer { return record(t, explicit(c), r) }},
		{"in process listed", func(t *testing.T, c channels.Channel, r *request) answer { return record(t, listed(t, c), r) }},
		{"over HTTP explicit", func(t *testing.T, c channels.Channel, r *request) answer { return overHTTP(t, explicit(c), r) }},
		{"over HTTP listed", func(t *testing.T, c channels.Channel, r *request) answer { return overHTTP(t, listed(t, c), r) }},
	}
}

const prefix = "/channels/subject"

func explicit(c channels.Channel) http.Handler {
	mux := http.NewServeMux()
	channels.Handle(mux, prefix, c)
	return mux
}

func listed(t testing.TB, c channels.Channel) http.Handler {
	t.Helper()
	h, err := parleyhttp.New(nil, nil, nil, &parleyhttp.Options{Channels: map[string]channels.Channel{"subject": c}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// unread is a body that fails the test if it is read.
type unread struct{ t testing.TB }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("a body with a declared length above the limit was read")
	return 0, errors.New("must not be read")
}

func record(t *testing.T, h http.Handler, r *request) answer {
	t.Helper()
	req := httptest.NewRequest(r.method, prefix+r.path, bytes.NewReader(r.body))
	req.Header = r.header.Clone()
	switch {
	case r.declared != 0:
		req.ContentLength, req.Body = r.declared, io.NopCloser(unread{t})
		if req.Header.Get("Content-Length") == "" {
			req.Header.Set("Content-Length", strconv.FormatInt(r.declared, 10))
		}
	case r.streamed:
		req.ContentLength, req.Body = -1, io.NopCloser(bytes.NewReader(r.body))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return answer{status: w.Code, header: w.Header(), body: w.Body.String()}
}

func overHTTP(t *testing.T, h http.Handler, r *request) answer {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	var body io.Reader = bytes.NewReader(r.body)
	if r.streamed {
		body = io.MultiReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, srv.URL+prefix+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = r.header.Clone()
	if r.declared != 0 {
		req.ContentLength = r.declared
		req.Body = io.NopCloser(bytes.NewReader(make([]byte, r.declared)))
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: string(text)}
}

// each sends a request in every way to a channel with the given callback.
func (s *Subject) each(t *testing.T, callback channels.Call, make func() *request, check func(t *testing.T, a answer)) {
	t.Helper()
	for _, way := range ways() {
		called := 0
		c := s.New(t, func(ctx context.Context) (any, error) {
			called++
			return callback(ctx)
		}, limit)
		r := make()
		if strings.HasPrefix(way.name, "over HTTP") && r.header.Get("Content-Length") != "" {
			continue // the server rejects it before any handler runs
		}
		a := way.send(t, c, r)
		a.called = called
		t.Run(way.name, func(t *testing.T) { check(t, a) })
	}
}

// refused expects a status without a body, and no call of the callback.
func (s *Subject) refused(t *testing.T, status int, make func() *request) {
	t.Helper()
	s.each(t, nothing, make, func(t *testing.T, a answer) {
		if a.status != status || a.body != "" || a.called != 0 {
			t.Errorf("got status %d, body %q, %d calls; want %d, no body, no call", a.status, a.body, a.called, status)
		}
	})
}

// taken expects a call of the callback, and the response for a nil result.
func (s *Subject) taken(t *testing.T, make func() *request) {
	t.Helper()
	s.each(t, nothing, make, func(t *testing.T, a answer) {
		if a.status != s.nothing() || a.called != 1 || a.body != s.NothingBody {
			t.Errorf("got status %d, body %q, %d calls; want %d, %q, one call", a.status, a.body, a.called, s.nothing(), s.NothingBody)
		}
	})
}

func (s *Subject) nothing() int {
	if s.Nothing == 0 {
		return http.StatusOK
	}
	return s.Nothing
}

func nothing(context.Context) (any, error) { return nil, nil }
