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

// Subject is one route of a channel, and how its platform calls it.
type Subject struct {
	// New makes the channel. Its callback is to be called for every verified delivery, and its
	// result returned. A limit of 0 is left to the channel.
	New func(t testing.TB, callback channels.Call, limit int64) channels.Channel
	// Path is that of the route, such as /webhook.
	Path string
	// MediaType is that of bodies.
	MediaType string
	// Body is one that the callback is called for, and Pad makes it so many bytes longer.
	Body string
	Pad  func(body string, by int) string
	// Prove sets the headers that prove a body, of which Header may be wrong.
	Prove  func(h http.Header, body []byte)
	Header string
	// Malformed are values of Header that have the wrong form, Forged such as have the right
	// one and prove nothing.
	Malformed, Forged []string
	// Unsigned is set where the proof does not depend on the body.
	Unsigned bool
	// Unproven is the status of what is not proven, 401 if 0.
	Unproven int
	// ResponsesOnly says that of the callback's results only responses are answers.
	ResponsesOnly bool
	// Broken are bodies that are proven and not what the platform sends, and BrokenStatus what
	// they are answered with, 400 if 0.
	Broken       map[string]string
	BrokenStatus int
	// Silent says that the platform is told of failures by a status alone.
	Silent bool
	// Nothing is the status of a callback's nil, 200 if 0, with the body NothingBody.
	Nothing     int
	NothingBody string
	// Query proves a request with a query, where that is signed as well. Nil: it is not.
	Query func(query url.Values, h http.Header, body []byte)
	// Order lists the faults of a request by which one is answered first.
	Order []Fault
}

// Fault is something wrong with a request.
type Fault string

// The faults that a request may have.
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

// limit is the body limit of channels whose limit is tested.
const limit = 4096

// request is what a platform sends.
type request struct {
	method, path string
	header       http.Header
	body         []byte
	streamed     bool  // without a length
	declared     int64 // in place of the true length, if not 0
}

// request returns a proven delivery of a body.
func (s *Subject) request(body string) *request {
	r := &request{method: http.MethodPost, path: s.Path, header: http.Header{}, body: []byte(body)}
	r.header.Set("Content-Type", s.MediaType)
	s.Prove(r.header, r.body)
	return r
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	called int
}

// way is one of the ways to a channel.
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

// prefix is where every channel is mounted.
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

// unread is a body that must not be read.
type unread struct{ t testing.TB }

// Read implements io.Reader.
func (u unread) Read([]byte) (int, error) {
	u.t.Error("a body that is declared too long was read")
	return 0, errors.New("not to be read")
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
		body = io.MultiReader(body) // of no known length
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

// each sends a request every way, to a channel whose callback returns result.
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
			continue // a server refuses it before any handler
		}
		a := way.send(t, c, r)
		a.called = called
		t.Run(way.name, func(t *testing.T) { check(t, a) })
	}
}

// refused wants a status, no body, and no call of the callback.
func (s *Subject) refused(t *testing.T, status int, make func() *request) {
	t.Helper()
	s.each(t, nothing, make, func(t *testing.T, a answer) {
		if a.status != status || a.body != "" || a.called != 0 {
			t.Errorf("status %d, body %q, %d calls; want %d, nothing, none", a.status, a.body, a.called, status)
		}
	})
}

// taken wants the callback to be called, and its nothing to be the answer.
func (s *Subject) taken(t *testing.T, make func() *request) {
	t.Helper()
	s.each(t, nothing, make, func(t *testing.T, a answer) {
		if a.status != s.nothing() || a.called != 1 || a.body != s.NothingBody {
			t.Errorf("status %d, body %q, %d calls; want %d, %q, one", a.status, a.body, a.called, s.nothing(), s.NothingBody)
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
