package providers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// plainCodec sends the images of a request and reads any response as text.
type plainCodec struct{}

// Encode implements providers.Codec.
func (plainCodec) Encode(_ providers.Model, req providers.Request, _ providers.Options) (*providers.Call, error) {
	var e providers.BodyEncoder
	v := letter{Text: "x"}
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			v.Images = append(v.Images, "data:image/png;base64,"+e.Base64(p.(providers.Image)))
		}
	}
	b, err := e.Encode(v)
	return &providers.Call{Path: "/", Body: b}, err
}

// Decode implements providers.Codec.
func (plainCodec) Decode(body io.Reader, a *providers.Assembler) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	a.Text(string(text))
	a.Finish(providers.Done{StopReason: providers.StopStop})
	return nil
}

// showing starts a vendor and returns a function that sends it images.
func showing(t *testing.T, h http.HandlerFunc) func(...providers.Content) ([]providers.Event, *providers.Error) {
	server := httptest.NewServer(h)
	protocol := providers.NewHTTP(plainCodec{}, nil)
	t.Cleanup(func() {
		protocol.Close()
		server.Close()
	})
	m := providers.Model{Provider: "p", ID: "m", BaseURL: server.URL, Input: []string{providers.InputImage}}
	return func(images ...providers.Content) ([]providers.Event, *providers.Error) {
		t.Helper()
		msg := providers.Message{Role: providers.RoleUser}
		for _, c := range images {
			msg.Parts = append(msg.Parts, providers.Image{MimeType: "image/png", Content: c})
		}
		req := providers.Request{Messages: []providers.Message{msg}}
		events, failure, broken := providertest.Collect(protocol.Stream(t.Context(), m, req, providers.Options{}))
		if broken != nil {
			t.Fatal(broken)
		}
		return events, failure
	}
}

func TestImagesOnTheWire(t *testing.T) {
	type request struct {
		body     string
		length   int64
		encoding []string
	}
	got := make(chan request, 1)
	show := showing(t, func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- request{string(b), r.ContentLength, r.TransferEncoding}
	})
	data := bytes.Repeat([]byte{0, 1, 2, 0xff}, 100_000)
	image := &content{size: int64(len(data)), bytes: bytes.NewReader(data)}
	if _, failure := show(image, providers.Bytes("two")); failure != nil {
		t.Fatal(failure)
	}
	want := whole(t, "x", data, []byte("two"))
	if r := <-got; r.body != want || r.length != int64(len(want)) || r.encoding != nil {
		t.Errorf("got %d bytes with length %d and encoding %v, want the same %d bytes", len(r.body), r.length, r.encoding, len(want))
	}
	if !image.closed() {
		t.Error("got an open image, want it closed")
	}
}

// TestImageErrorOutranksVendorError: an image error is returned whatever the vendor replies to the
// incomplete request.
func TestImageErrorOutranksVendorError(t *testing.T) {
	broken := errors.New("broken")
	for name, answer := range map[string]http.HandlerFunc{
		"waits for the rest": func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) },
		"says bad request": func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusBadRequest)
		},
	} {
		for kind, err := range map[providers.ErrorKind]error{
			providers.KindImageUnreadable:  broken,
			providers.KindImageUnavailable: fmt.Errorf("%w: %w", providers.ErrUnavailable, broken),
		} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				show := showing(t, answer)
				image := &content{size: 1 << 20, bytes: io.MultiReader(io.LimitReader(zeros{}, 1<<19), iotest.ErrReader(err))}
				events, failure := show(image)
				if failure == nil || failure.Kind != kind || failure.Provider != "p" || failure.Status != 0 || !errors.Is(failure, broken) || len(events) > 0 {
					t.Errorf("got %v after %d events, want kind %s", failure, len(events), kind)
				}
				if want := kind == providers.KindImageUnavailable; failure.Retryable() != want {
					t.Errorf("got retryable %v, want %v", failure.Retryable(), want)
				}
				if !image.closed() {
					t.Error("got an open image, want it closed")
				}
			})
		}
	}
}

// TestVendorRespondsEarly: a vendor may respond without reading the images. Image errors are then
// ignored, and the open image is closed.
func TestVendorRespondsEarly(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		kind   providers.ErrorKind
	}{"refusal": {http.StatusUnauthorized, providers.KindAuth}, "answer": {http.StatusOK, ""}} {
		t.Run(name, func(t *testing.T) {
			show := showing(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "close")
				w.WriteHeader(tt.status)
				io.WriteString(w, "early")
			})
			image := &content{size: 10} // blocks until closed
			events, failure := show(image)
			switch {
			case tt.kind == "" && (failure != nil || len(events) != 2):
				t.Errorf("got %v after %d events, want an answer", failure, len(events))
			case tt.kind != "" && (failure == nil || failure.Kind != tt.kind):
				t.Errorf("got %v, want kind %s", failure, tt.kind)
			}
			if image.opened != nil && !image.closed() {
				t.Error("got an open image, want it closed")
			}
		})
	}
}

// TestImageReopenedOnNewConnection sends an image again after the vendor has closed an idle
// connection.
func TestImageReopenedOnNewConnection(t *testing.T) {
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b))
	}))
	defer server.Close()
	broken := &breaking{next: http.DefaultTransport}
	protocol := providers.NewHTTP(plainCodec{}, &providers.HTTPOptions{Client: &http.Client{Transport: broken}})
	m := providers.Model{Provider: "p", ID: "m", BaseURL: server.URL, Input: []string{providers.InputImage}}
	req := providers.Request{Messages: []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{
		providers.Image{Content: providers.Bytes("image")},
	}}}}
	if _, failure, _ := providertest.Collect(protocol.Stream(t.Context(), m, req, providers.Options{})); failure != nil {
		t.Fatal(failure)
	}
	if want := whole(t, "x", []byte("image")); len(bodies) != 1 || bodies[0] != want || !broken.again {
		t.Errorf("vendor got %q, want %q from a second body", bodies, want)
	}
}

// breaking is a transport whose connection breaks after a part of the body. It requests the body
// again, like net/http.
type breaking struct {
	next  http.RoundTripper
	again bool
}

// RoundTrip implements http.RoundTripper.
func (b *breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.ReadFull(r.Body, make([]byte, 5)); err != nil {
		return nil, err
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	b.again = true
	r = r.Clone(r.Context())
	r.Body = body
	return b.next.RoundTrip(r)
}

// TestAbortClosesTheImage aborts a call while the vendor does not read.
func TestAbortClosesTheImage(t *testing.T) {
	begun, over := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(begun)
		<-over
	}))
	defer server.Close()
	defer close(over)
	protocol := providers.NewHTTP(plainCodec{}, nil)
	defer protocol.Close()
	image := &content{size: 64 << 20, bytes: zeros{}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	m := providers.Model{Provider: "p", ID: "m", BaseURL: server.URL, Input: []string{providers.InputImage}}
	req := providers.Request{Messages: []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Image{Content: image}}}}}
	_, failure, broken := providertest.Collect(protocol.Stream(ctx, m, req, providers.Options{}))
	if broken != nil || failure == nil || failure.Kind != providers.KindAborted {
		t.Errorf("got %v, %v, want kind %s", failure, broken, providers.KindAborted)
	}
	if image.opened != nil && !image.closed() {
		t.Error("got an open image, want it closed")
	}
}

// untilFull ends the answer after four bytes.
type untilFull struct{ plainCodec }

// Decode implements providers.Codec.
func (untilFull) Decode(body io.Reader, a *providers.Assembler) error {
	var text [4]byte
	if _, err := io.ReadFull(body, text[:]); err != nil {
		return err
	}
	a.Text(string(text[:]))
	a.Finish(providers.Done{StopReason: providers.StopStop})
	return nil
}

// calling starts a vendor in a synctest bubble. It returns a function that calls the vendor, and the
// network. In real time a slow writer would lose its connection.
func calling(t *testing.T, h http.HandlerFunc) (call func(), network *pipes) {
	network = &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- server.Serve(network) }()
	protocol := providers.NewHTTP(untilFull{}, nil)
	providers.DialBy(protocol, network.dial)
	t.Cleanup(func() {
		protocol.Close()
		server.Close()
		<-served
	})
	m := providers.Model{Provider: "p", ID: "m", BaseURL: "http://pipes"}
	return func() {
		t.Helper()
		events, failure, broken := providertest.Collect(protocol.Stream(t.Context(), m, providers.Request{}, providers.Options{}))
		if broken != nil || failure != nil || len(events) != 2 {
			t.Errorf("got %v, %v, %v", events, failure, broken)
		}
	}, network
}

// pipes is an in-memory network, usable with fake time.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	dialed atomic.Int32
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	p.dialed.Add(1)
	ours, theirs := net.Pipe()
	p.accept <- theirs
	return ours, nil
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// TestConnectionReuse: a codec stops at the vendor's terminal marker, before the response ends. The
// connection is reused if the response ends within the drain time.
func TestConnectionReuse(t *testing.T) {
	for late, want := range map[time.Duration]int32{10 * time.Millisecond: 1, time.Minute: 20} {
		synctest.Test(t, func(t *testing.T) {
			call, network := calling(t, func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "full")
				http.NewResponseController(w).Flush()
				select {
				case <-time.After(late):
				case <-r.Context().Done():
				}
			})
			for range 20 {
				call()
			}
			if got := network.dialed.Load(); got != want {
				t.Errorf("20 calls, each ending after %v, made %d connections, want %d", late, got, want)
			}
		})
	}
}

// TestParallelConnectionReuse checks that parallel calls open only as many connections as run in
// parallel.
func TestParallelConnectionReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parallel = 100
		var arrived sync.WaitGroup
		call, network := calling(t, func(w http.ResponseWriter, _ *http.Request) {
			arrived.Done()
			arrived.Wait() // all calls are active at once
			io.WriteString(w, "full")
		})
		for range 3 {
			arrived.Add(parallel)
			var calls sync.WaitGroup
			for range parallel {
				calls.Go(call)
			}
			calls.Wait()
		}
		if n := network.dialed.Load(); n > parallel {
			t.Errorf("3 times %d calls: got %d connections", parallel, n)
		}
	})
}

// TestEmptyRefusal covers a vendor that sends no error code for a prompt that is too long.
func TestEmptyRefusal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer server.Close()
	p := providers.NewHTTP(plainCodec{}, nil)
	defer p.Close()
	for provider, want := range map[string]providers.ErrorKind{"cerebras": providers.KindContextOverflow, "other": providers.KindInvalidRequest} {
		m := providers.Model{Provider: provider, ID: "m", BaseURL: server.URL}
		_, failure, broken := providertest.Collect(p.Stream(t.Context(), m, providers.Request{}, providers.Options{}))
		if broken != nil || failure == nil || failure.Kind != want {
			t.Errorf("%s: got %v, %v", provider, failure, broken)
		}
	}
}
