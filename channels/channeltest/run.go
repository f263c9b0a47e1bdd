package channeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// Run verifies that a channel keeps the guarantees of package channels.
func Run(t *testing.T, s Subject) {
	t.Run("media type", s.mediaTypes)
	t.Run("limit", s.limits)
	t.Run("proof", s.proofs)
	t.Run("broken bodies", s.brokenBodies)
	t.Run("order of checks", s.orderOfChecks)
	t.Run("results", s.results)
	t.Run("failures", s.failures)
	t.Run("panics", s.panics)
	t.Run("no id", s.noID)
	t.Run("unavailable", s.unavailable)
	t.Run("error handler", s.errorHandler)
	t.Run("slow sender", s.slowSender)
	t.Run("slow callback", s.slowCallback)
	t.Run("routing", s.routing)
	t.Run("ignored", s.ignored)
}

func (s Subject) mediaTypes(t *testing.T) {
	with := func(values ...string) func() *request {
		return func() *request {
			r := s.request(s.Body)
			r.header["Content-Type"] = values
			return r
		}
	}
	for _, accepted := range []string{s.MediaType, strings.ToUpper(s.MediaType) + " ; charset=utf-8", s.MediaType + ";", " " + s.MediaType} {
		s.taken(t, with(accepted))
	}
	for _, refused := range [][]string{nil, {""}, {"text/plain"}, {s.MediaType + "x"}, {"application/vnd+json"}, {s.MediaType, s.MediaType},
		{s.MediaType + "; charset=utf-8", "text/plain"}} {
		s.refused(t, http.StatusUnsupportedMediaType, with(refused...))
	}
	encoded := func(values ...string) func() *request {
		return func() *request {
			r := s.request(s.Body)
			r.header["Content-Encoding"] = values
			return r
		}
	}
	for _, accepted := range [][]string{{""}, {"identity"}, {"Identity", ""}} {
		s.taken(t, encoded(accepted...))
	}
	for _, refused := range [][]string{{"gzip"}, {"GZIP"}, {"identity, br"}, {"identity", "deflate"}} {
		s.refused(t, http.StatusUnsupportedMediaType, encoded(refused...))
	}
}

func (s Subject) limits(t *testing.T) {
	padded := s.Pad(s.Body, limit-len(s.Body))
	long := padded + " "
	if len(padded) != limit {
		t.Fatalf("the padded body has %d bytes, want %d", len(padded), limit)
	}
	s.taken(t, func() *request { return s.request(padded) })
	s.taken(t, func() *request { r := s.request(padded); r.streamed = true; return r })
	s.refused(t, http.StatusRequestEntityTooLarge, func() *request { return s.request(long) })
	s.refused(t, http.StatusRequestEntityTooLarge, func() *request { r := s.request(long); r.streamed = true; return r })
	s.refused(t, http.StatusRequestEntityTooLarge, func() *request { r := s.request(s.Body); r.declared = limit + 1; return r })

	byDefault := func(size int) int {
		a := record(t, explicit(s.New(t, nothing, 0)), s.request(s.Pad(s.Body, size-len(s.Body))))
		return a.status
	}
	if a, b := byDefault(channels.DefaultBodyLimit), byDefault(channels.DefaultBodyLimit+1); a != s.nothing() || b != http.StatusRequestEntityTooLarge {
		t.Errorf("default limit: got %d for 1 MiB and %d for a byte more", a, b)
	}
}

func (s Subject) proofs(t *testing.T) {
	proven := s.request(s.Body) // Sign once, since the signature may cover a timestamp in another header.
	with := func(values ...string) func() *request {
		return func() *request {
			r := *proven
			r.header = proven.header.Clone()
			r.header[http.CanonicalHeaderKey(s.Header)] = values
			return &r
		}
	}
	proof := proven.header.Get(s.Header)
	s.taken(t, with(proof))
	s.refused(t, s.unproven(), with())
	s.refused(t, s.unproven(), with(""))
	s.refused(t, s.unproven(), with(proof, proof)) // joined by a comma
	for _, value := range slices.Concat(s.Malformed, s.Forged, []string{proof + "x", proof + ", " + proof}) {
		s.refused(t, s.unproven(), with(value))
	}
	if s.Unsigned {
		return
	}
	for _, changed := range []string{s.Body + " ", "\ufeff" + s.Body, s.Body[1:]} {
		s.refused(t, s.unproven(), func() *request {
			r := s.request(s.Body)
			r.body = []byte(changed)
			return r
		})
	}
}

func (s Subject) brokenStatus() int {
	if s.BrokenStatus == 0 {
		return http.StatusBadRequest
	}
	return s.BrokenStatus
}

func (s Subject) brokenBodies(t *testing.T) {
	for name, body := range s.Broken {
		t.Run(name, func(t *testing.T) {
			s.refused(t, s.brokenStatus(), func() *request { return s.request(body) })
		})
	}
}

// status returns the expected status of a single fault.
func (s Subject) status(f Fault) int {
	switch f {
	case MediaType:
		return http.StatusUnsupportedMediaType
	case MalformedLength:
		if slices.Contains(s.Order[:1], MalformedLength) {
			return http.StatusUnsupportedMediaType
		}
		return http.StatusBadRequest
	case Declared, Streamed:
		return http.StatusRequestEntityTooLarge
	case Broken:
		return s.brokenStatus()
	}
	return s.unproven()
}

func (s Subject) unproven() int {
	if s.Unproven == 0 {
		return http.StatusUnauthorized
	}
	return s.Unproven
}

// do injects a fault into a request. Faults of the body must precede those of the headers.
func (s Subject) do(r *request, f Fault) {
	switch f {
	case MediaType:
		r.header.Set("Content-Type", "text/plain")
	case MalformedLength:
		r.header.Set("Content-Length", "12x")
	case Declared:
		r.declared = limit + 1
	case Streamed:
		r.streamed = true
		r.body = append(r.body, strings.Repeat(" ", limit)...)
		s.Prove(r.header, r.body)
	case Broken:
		r.body = []byte("}" + string(r.body))
		s.Prove(r.header, r.body)
	case Missing:
		r.header.Del(s.Header)
	case Malformed:
		r.header.Set(s.Header, s.Malformed[0])
	case Forged:
		r.header.Set(s.Header, s.Forged[0])
	}
}

func (s Subject) orderOfChecks(t *testing.T) {
	pairs := 0
	for i, first := range s.Order {
		t.Run(string(first), func(t *testing.T) {
			s.refused(t, s.status(first), func() *request { r := s.request(s.Body); s.do(r, first); return r })
		})
		for _, second := range s.Order[i+1:] {
			if s.status(first) == s.status(second) {
				continue
			}
			pairs++
			t.Run(string(first)+" before "+string(second), func(t *testing.T) {
				s.refused(t, s.status(first), func() *request {
					r := s.request(s.Body)
					for _, f := range []Fault{Streamed, Broken, Declared, MediaType, MalformedLength, Missing, Malformed, Forged} {
						if f == first || f == second {
							s.do(r, f)
						}
					}
					return r
				})
			})
		}
	}
	if pairs < 8 {
		t.Errorf("got %d pairs of faults with distinct statuses", pairs)
	}
}

func (s Subject) results(t *testing.T) {
	returns := func(v any) channels.Call { return func(context.Context) (any, error) { return v, nil } }
	later := func(v any) any { return channels.Later(func(context.Context) (any, error) { return v, nil }) }
	s.taken(t, func() *request { return s.request(s.Body) })
	s.each(t, returns(nil), func() *request { return s.request(s.Body) }, func(t *testing.T, a answer) {
		if s.NothingBody == "" && a.header.Get("Content-Type") != "" {
			t.Errorf("nil result: got media type %q", a.header.Get("Content-Type"))
		}
	})
	for name, tt := range map[string]struct {
		result any
		want   string
	}{
		"null": {json.RawMessage("null"), "null"}, "boolean": {true, "true"}, "number": {1.5, "1.5"}, "string": {"a<b", `"a<b"`},
		"array": {[]any{1, "two"}, `[1,"two"]`}, "object": {map[string]any{"a": nil}, `{"a":null}`},
		"later": {later(map[string]int{"n": 1}), `{"n":1}`}, "later than later": {later(later("x")), `"x"`},
	} {
		t.Run(name, func(t *testing.T) {
			s.each(t, returns(tt.result), func() *request { return s.request(s.Body) }, func(t *testing.T, a answer) {
				if s.ResponsesOnly {
					s.failed(t, a, http.StatusInternalServerError)
					return
				}
				if a.status != http.StatusOK || a.body != tt.want || a.header.Get("Content-Type") != "application/json" {
					t.Errorf("got status %d, %q as %q, want %q", a.status, a.body, a.header.Get("Content-Type"), tt.want)
				}
			})
		})
	}
	t.Run("response", func(t *testing.T) {
		respond := func(context.Context) (any, error) {
			res := channels.Respond(http.StatusTeapot, "text/plain", "as it is")
			res.Header["X-Of-The-Application"] = []string{"1", "2"}
			return res, nil
		}
		s.each(t, respond, func() *request { return s.request(s.Body) }, func(t *testing.T, a answer) {
			if a.status != http.StatusTeapot || a.body != "as it is" || a.header.Get("Content-Type") != "text/plain" ||
				!slices.Equal(a.header.Values("X-Of-The-Application"), []string{"1", "2"}) {
				t.Errorf("got response %+v", a)
			}
		})
	})
}

// failed verifies that a response contains nothing of the failure.
func (s Subject) failed(t *testing.T, a answer, status int) {
	t.Helper()
	if a.status != status || strings.Contains(a.body, "confidential") {
		t.Errorf("got status %d, body %q, want %d and nothing confidential", a.status, a.body, status)
	}
	if s.Silent && a.body != "" {
		t.Errorf("silent channel: got body %q, want none", a.body)
	}
}

func (s Subject) failures(t *testing.T) {
	type circle struct{ Itself *circle }
	round := &circle{}
	round.Itself = round
	for name, call := range map[string]channels.Call{
		"error": func(context.Context) (any, error) { return nil, errors.New("confidential") },
		"error later": func(context.Context) (any, error) {
			return channels.Later(func(context.Context) (any, error) { return nil, errors.New("confidential") }), nil
		},
		"function":         func(context.Context) (any, error) { return func() {}, nil },
		"channel":          func(context.Context) (any, error) { return make(chan int), nil },
		"not a number":     func(context.Context) (any, error) { return math.NaN(), nil },
		"circular":         func(context.Context) (any, error) { return round, nil },
		"unsupported part": func(context.Context) (any, error) { return map[string]any{"a": func() {}}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			s.each(t, call, func() *request { return s.request(s.Body) }, func(t *testing.T, a answer) { s.failed(t, a, http.StatusInternalServerError) })
		})
	}
}

// keys is a dispatcher that records the keys of admissions.
type keys struct {
	conversation.Dispatcher
	noted []string
}

func (k *keys) Admit(_ context.Context, a conversation.Admission) (conversation.Receipt, error) {
	k.noted = append(k.noted, a.Key)
	return conversation.Receipt{}, nil
}

// noID verifies that a delivery without a platform id is identified by its body, and by its number
// within it.
func (s Subject) noID(t *testing.T) {
	for name, handler := range mounts() {
		to := &keys{}
		h := handler(t, s.New(t, func(ctx context.Context) (any, error) {
			for range 2 {
				if _, err := channels.Deliver(ctx, to, channels.Delivery{Channel: "c", Agent: "a", InstanceID: "i", Text: "t"}); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}, limit))
		for range 2 {
			if a := record(t, h, s.request(s.Body)); a.status != s.nothing() {
				t.Errorf("%s: got %d %s, want %d", name, a.status, a.body, s.nothing())
			}
		}
		if k := to.noted; len(k) != 4 || k[0] == k[1] || k[0] != k[2] || k[1] != k[3] {
			t.Errorf("%s: two deliveries, sent twice: got keys %q, want two distinct keys, twice", name, k)
		}
	}
}

// brokenError is an error whose methods panic on a nil receiver.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

func (e *brokenError) Unwrap() error { return errors.New(e.text) }

type brokenValue struct{}

func (brokenValue) MarshalJSON() ([]byte, error) { panic("confidential") }

// panics verifies that a panicking callback, or a result that panics in use, is handled like an error,
// and that the connection stays open.
func (s Subject) panics(t *testing.T) {
	for name, call := range map[string]channels.Call{
		"text":  func(context.Context) (any, error) { panic("confidential") },
		"error": func(context.Context) (any, error) { panic(errors.New("confidential")) },
		"nil pointer": func(context.Context) (any, error) {
			var e *brokenError
			return e.text, nil
		},
		"later": func(context.Context) (any, error) {
			return channels.Later(func(context.Context) (any, error) { panic("confidential") }), nil
		},
		"end of the goroutine": func(context.Context) (any, error) {
			runtime.Goexit()
			return nil, nil
		},
		"typed nil error": func(context.Context) (any, error) {
			var e *brokenError
			return nil, e
		},
		"JSON": func(context.Context) (any, error) { return brokenValue{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			s.each(t, call, func() *request { return s.request(s.Body) }, func(t *testing.T, a answer) { s.failed(t, a, http.StatusInternalServerError) })
			if !s.Silent {
				a, got := s.withHandler(t, call)
				if got == nil || a.status != http.StatusTeapot {
					t.Errorf("error handler got %v, response is %d, want an error and %d", got, a.status, http.StatusTeapot)
				}
			}
		})
	}
}

// unavailable verifies that an unavailable dispatcher makes the platform send again.
func (s Subject) unavailable(t *testing.T) {
	call := func(context.Context) (any, error) {
		return nil, fmt.Errorf("deliver: %w", conversation.Unavailable(time.Second, errors.New("confidential")))
	}
	s.each(t, call, func() *request { return s.request(s.Body) }, func(t *testing.T, a answer) {
		s.failed(t, a, http.StatusServiceUnavailable)
		if a.header.Get("Retry-After") == "" {
			t.Error("got no Retry-After")
		}
	})
}

// errorHandler verifies that a callback's error reaches the handler of an explicit mount unchanged,
// unless the channel is Silent.
func (s Subject) errorHandler(t *testing.T) {
	cause := errors.New("the callback's")
	a, got := s.withHandler(t, func(context.Context) (any, error) { return nil, cause })
	if s.Silent && (got != nil || a.status != http.StatusInternalServerError || a.body != "") ||
		!s.Silent && (!errors.Is(got, cause) || a.status != http.StatusTeapot) {
		t.Errorf("error handler got %v, response is %d %q", got, a.status, a.body)
	}
}

// withHandler sends a request to an explicit mount whose error handler responds 418, and returns the
// handler's error.
func (s Subject) withHandler(t *testing.T, callback channels.Call) (a answer, got error) {
	t.Helper()
	for _, rt := range s.New(t, callback, 0).Routes() {
		if rt.Path != s.Path || rt.Method != http.MethodPost {
			continue
		}
		rt.Fail = func(w http.ResponseWriter, _ *http.Request, err error) {
			got = err
			w.WriteHeader(http.StatusTeapot)
		}
		return record(t, rt, s.request(s.Body)), got
	}
	t.Fatalf("the channel has no route POST %s", s.Path)
	return a, nil
}

func mounts() map[string]func(testing.TB, channels.Channel) http.Handler {
	return map[string]func(testing.TB, channels.Channel) http.Handler{
		"explicit": func(_ testing.TB, c channels.Channel) http.Handler { return explicit(c) }, "listed": listed,
	}
}

// pace is the speed of a body: so many bytes per pause. If bytes is 0, none are sent.
type pace struct {
	bytes int
	pause time.Duration
}

// slowSender verifies that a body times out after 10 s, and that a rejected request does not wait for
// its body.
func (s Subject) slowSender(t *testing.T) {
	for name, handler := range mounts() {
		for pacing, p := range map[string]pace{"silent": {}, "drop by drop": {1, 3 * time.Second}, "steadily": {16 << 10, 4 * time.Second}} {
			t.Run(name+" "+pacing, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := s.request(s.Pad(s.Body, 500<<10))
					status, took := sendSlowly(t, handler(t, s.New(t, nothing, 0)), r, p)
					if status != "400" || took < 9*time.Second || took > 15*time.Second {
						t.Errorf("got %q after %v, want 400 after 10 s", status, took)
					}
				})
			})
		}
		t.Run(name+" refused", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := s.request(s.Body)
				r.header.Set("Content-Type", "text/plain")
				status, took := sendSlowly(t, handler(t, s.New(t, nothing, 0)), r, pace{})
				if status != "415" || took > time.Second {
					t.Errorf("got %q after %v, want 415 at once", status, took)
				}
			})
		})
	}
}

// slowCallback verifies that channels have no timeout for callbacks.
func (s Subject) slowCallback(t *testing.T) {
	for name, handler := range mounts() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := s.New(t, func(ctx context.Context) (any, error) {
					time.Sleep(time.Minute)
					return nil, ctx.Err()
				}, 0)
				if a := record(t, handler(t, c), s.request(s.Body)); a.status != s.nothing() {
					t.Errorf("callback of a minute: got %d %q", a.status, a.body)
				}
			})
		})
	}
}

// sendSlowly sends the head of a request at once, and its body at a pace.
func sendSlowly(t *testing.T, h http.Handler, r *request, p pace) (status string, took time.Duration) {
	client, server := net.Pipe()
	closed := make(chan struct{})
	srv := &http.Server{Handler: h, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			close(closed)
		}
	}}
	l := &oneConnection{conn: server, done: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	began := time.Now()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = fmt.Fprintf(client, "POST %s%s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n", prefix, r.path, len(r.body))
		_ = r.header.Write(client)
		_, _ = io.WriteString(client, "\r\n")
		for i := 0; p.bytes > 0 && i < len(r.body); i += p.bytes {
			time.Sleep(p.pause)
			if _, err := client.Write(r.body[i:min(len(r.body), i+p.bytes)]); err != nil {
				return
			}
		}
	}()
	head := make([]byte, 12)
	if _, err := io.ReadFull(client, head); err != nil {
		t.Errorf("read response: %v", err)
	}
	took = time.Since(began)
	_ = client.Close()
	<-closed
	_ = srv.Close()
	<-sent
	<-served
	return string(head[9:]), took
}

type oneConnection struct {
	conn net.Conn
	done chan struct{}
}

func (l *oneConnection) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *oneConnection) Close() error {
	close(l.done)
	return nil
}

func (l *oneConnection) Addr() net.Addr { return &net.TCPAddr{} }

func (s Subject) routing(t *testing.T) {
	c := s.New(t, nothing, 0)
	if _, err := channels.RoutesOf(c); err != nil {
		t.Fatal(err)
	}
	h := listed(t, c)
	for _, path := range []string{"", "/", s.Path + "/", s.Path + "/more", "/nothing", s.Path + "x"} {
		r := s.request(s.Body)
		r.path = path
		if a := record(t, h, r); a.status != http.StatusNotFound || !strings.Contains(a.body, `"route_not_found"`) {
			t.Errorf("POST %q: got %d %s", path, a.status, a.body)
		}
	}
	var allow []string
	for _, rt := range c.Routes() {
		if rt.Path == s.Path {
			allow = append(allow, rt.Method)
		}
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"} {
		if slices.Contains(allow, method) {
			continue
		}
		r := s.request(s.Body)
		r.method = method
		a := record(t, h, r)
		if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != strings.Join(allow, ", ") {
			t.Errorf("%s: got %d, Allow %q", method, a.status, a.header.Get("Allow"))
		}
		if (method == "HEAD") != (a.body == "") {
			t.Errorf("%s: got body %q", method, a.body)
		}
	}
	if _, err := parleyhttp.New(nil, nil, []parleyhttp.Mount{{Path: prefix, Agent: "a"}}, &parleyhttp.Options{Channels: map[string]channels.Channel{"subject": c}}); err == nil {
		t.Error("agent named channels: got no error, want one")
	}
	// A custom pattern may have any prefix.
	mux := http.NewServeMux()
	for _, rt := range c.Routes() {
		mux.Handle(rt.Method+" /elsewhere"+rt.Path, rt)
	}
	r, w := s.request(s.Body), httptest.NewRecorder()
	req := httptest.NewRequest(r.method, "/elsewhere"+s.Path, strings.NewReader(s.Body))
	req.Header = r.header
	if mux.ServeHTTP(w, req); w.Code != s.nothing() {
		t.Errorf("mounted elsewhere: got %d", w.Code)
	}
}

// ignored verifies that additions of the platform have no effect.
func (s Subject) ignored(t *testing.T) {
	s.taken(t, func() *request {
		r := s.request(s.Body)
		query := url.Values{"any": {"thing", "more"}}
		r.path += "?" + query.Encode()
		if s.Query != nil {
			s.Query(query, r.header, r.body)
		}
		r.header.Set("X-More", "anything")
		return r
	})
}
