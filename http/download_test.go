package http_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// bytesOf returns n random bytes, the same on each call.
func bytesOf(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// attach creates the conversation c1 with the attachment att_1.
func (h *harness) attach(content []byte, mime string) {
	h.t.Helper()
	part := `{"type":"image","mimeType":` + strconv.Quote(mime) + `,"data":"` + base64.StdEncoding.EncodeToString(content) + `"}`
	wantStatus(h.t, h.post("/c1", withAttachments("", part)), http.StatusAccepted)
}

// closed fails if a content was not closed.
func (h *harness) closed() {
	h.t.Helper()
	h.rt.mu.Lock()
	defer h.rt.mu.Unlock()
	if h.rt.unclosed != 0 {
		h.t.Errorf("got %d open contents", h.rt.unclosed)
	}
}

// covers: protocol/140, protocol/141, protocol/142, protocol/143, protocol/144
func TestAttachmentHeaders(t *testing.T) {
	for mime, disposition := range map[string]string{
		"image/png": "inline", "IMAGE/JPEG": "inline", "image/gif; a=b": "inline", "image/webp": "inline",
		"text/html": "attachment", "image/svg+xml; charset=utf-8": "attachment", "application/xhtml+xml": "attachment", "text/xml": "attachment",
		"application/pdf": "attachment", "Image/X-Y;  Q=\"A b\"": "attachment",
	} {
		h := newHarness(t, nil)
		h.attach([]byte(png), mime)
		// The query is ignored, and there are neither ranges nor conditions.
		r := httptest.NewRequest("GET", "/agents/assistant/c1/attachments/att_1?view=bogus", nil)
		r.Header.Set("Range", "bytes=0-1")
		r.Header.Set("If-None-Match", "*")
		res := h.serve(r)
		wantStatus(t, res, http.StatusOK)
		want := http.Header{
			"Content-Type": {mime}, "Content-Length": {"8"}, "Content-Disposition": {disposition},
			"Cache-Control": {"private, max-age=31536000, immutable"}, "Content-Security-Policy": {"sandbox"},
			"X-Content-Type-Options": {"nosniff"}, "Cross-Origin-Resource-Policy": {"cross-origin"},
		}
		if d := cmp.Diff(want, res.Header); d != "" {
			t.Errorf("%s (-want +got):\n%s", mime, d)
		}
		if got := readAll(t, res); got != png {
			t.Errorf("got body %q", got)
		}
		h.closed()
	}
}

// TestAttachmentSizes covers sizes around the piece size, from readers that return much, little, or
// EOF with the last bytes.
// covers: protocol/139, protocol/141
func TestAttachmentSizes(t *testing.T) {
	const piece = 64 << 10
	for _, size := range []int{1, 8, piece - 1, piece, piece + 1, 2*piece - 1, 2 * piece, 2*piece + 1, 5*piece + 7} {
		for name, content := range map[string]func(io.Reader) io.Reader{
			"whole": nil, "half": iotest.HalfReader, "data_with_the_end": iotest.DataErrReader,
		} {
			h := newHarness(t, nil)
			want := bytesOf(size)
			h.attach(want, "image/png")
			h.rt.content = content
			res := h.do("GET", "/c1/attachments/att_1")
			wantStatus(t, res, http.StatusOK)
			if got := readAll(t, res); got != string(want) || res.ContentLength != int64(size) {
				t.Errorf("%s: got %d bytes that differ from the stored %d", name, len(got), size)
			}
			h.closed()
		}
	}
}

// covers: protocol/136, protocol/137, protocol/138
func TestAttachmentID(t *testing.T) {
	h := newHarness(t, nil)
	h.attach([]byte(png), "image/png")
	wantStatus(t, h.post("/c2", hello), http.StatusAccepted)
	wantStatus(t, h.do("GET", "/c1/attachments/%61tt%5F1"), http.StatusOK) // decoded once
	for _, id := range []string{"%2561tt_1", "att_9", "ATT_1", "%20", "a%2Fb", "..", "%FF", strings.Repeat("a", 4<<10)} {
		wantError(t, h.do("GET", "/c1/attachments/"+id), 404, conversation.CodeAttachmentNotFound)
		wantError(t, h.do("GET", "/c3/attachments/"+id), 404, conversation.CodeStreamNotFound)
	}
	wantError(t, h.do("GET", "/c2/attachments/att_1"), 404, conversation.CodeAttachmentNotFound)
	wantError(t, h.do("GET", "/c3/attachments/att_1"), 404, conversation.CodeStreamNotFound)
	wantError(t, h.do("GET", "/c1/attachments/"), 404, conversation.CodeRouteNotFound)
	wantError(t, h.do("GET", "/%20/attachments/att_1"), 400, conversation.CodeInvalidRequest)
	h.closed()
}

// covers: protocol/145
func TestAttachmentMethods(t *testing.T) {
	for _, method := range []string{"HEAD", "OPTIONS", "POST", "PUT", "DELETE"} {
		h := newHarness(t, nil)
		h.attach([]byte(png), "image/png")
		before := len(h.rt.calls)
		for _, path := range []string{"/c1/attachments/att_1", "/%20/attachments/att_1", "/none/attachments/x"} {
			res := h.do(method, path)
			wantStatus(t, res, http.StatusMethodNotAllowed)
			if got := res.Header.Values("Allow"); len(got) != 1 || got[0] != "GET" {
				t.Errorf("%s: got Allow %q", method, got)
			}
			if method != "HEAD" {
				wantError(t, res, 405, conversation.CodeMethodNotAllowed)
			} else if got := readAll(t, res); got != "" {
				t.Errorf("got body %q for HEAD, want none", got)
			}
		}
		if len(h.rt.calls) != before {
			t.Errorf("%s: calls %v", method, h.rt.calls)
		}
	}
}

// flaws are corrupt contents. Each is detected after a certain size.
func flaws() map[string]func(io.Reader) io.Reader {
	digest := iotest.ErrReader(errors.New("secret digest"))
	return map[string]func(io.Reader) io.Reader{
		// All bytes are present; only the digest at the end shows the corruption.
		"wrong_digest": func(r io.Reader) io.Reader { return io.MultiReader(r, digest) },
		"wrong_digest_with_the_last_bytes": func(r io.Reader) io.Reader {
			return iotest.DataErrReader(io.MultiReader(r, digest))
		},
		"cut": func(r io.Reader) io.Reader {
			b, _ := io.ReadAll(r)
			return io.MultiReader(bytes.NewReader(b[:len(b)-1]), iotest.ErrReader(io.ErrUnexpectedEOF))
		},
		"too_short": func(r io.Reader) io.Reader {
			b, _ := io.ReadAll(r)
			return bytes.NewReader(b[:len(b)-1])
		},
		"too_long": func(r io.Reader) io.Reader { return io.MultiReader(r, strings.NewReader("x")) },
	}
}

// TestAttachmentFlawBeforeTheFirstByte has contents of one and two pieces: the failure is an error
// response.
func TestAttachmentFlawBeforeTheFirstByte(t *testing.T) {
	for name, flaw := range flaws() {
		for _, size := range []int{8, 100 << 10} {
			t.Run(name, func(t *testing.T) {
				var log bytes.Buffer
				h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = newLog(&log) })
				h.attach(bytesOf(size), "image/png")
				h.rt.content = flaw
				res := h.do("GET", "/c1/attachments/att_1")
				e := wantError(t, res, 500, conversation.CodeInternal)
				for _, header := range []string{"Content-Disposition", "Content-Security-Policy"} {
					if got := res.Header.Get(header); got != "" {
						t.Errorf("error response has %s: %s", header, got)
					}
				}
				if res.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("got Cache-Control %q", res.Header.Get("Cache-Control"))
				}
				if got := log.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "ref="+e.Ref) || !strings.Contains(got, "att_1") {
					t.Errorf("got log %q", got)
				}
				h.closed()
			})
		}
	}
}

// TestAttachmentFlawInMidStream: the client gets a status and a part, never the last byte, and a
// broken connection.
func TestAttachmentFlawInMidStream(t *testing.T) {
	const piece = 64 << 10
	for name, flaw := range flaws() {
		// At three pieces, the flaw is at the end of a piece.
		for _, size := range []int{3 * piece, 3*piece + 1, 4*piece - 1} {
			t.Run(name, func(t *testing.T) {
				var log bytes.Buffer
				h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = newLog(&log) })
				want := bytesOf(size)
				h.attach(want, "image/png")
				h.rt.content = flaw
				srv := httptest.NewServer(h.h)
				res, err := srv.Client().Get(srv.URL + "/agents/assistant/c1/attachments/att_1")
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) >= size || !bytes.HasPrefix(want, got) || res.StatusCode != http.StatusOK {
					t.Errorf("got status %d, %d of %d bytes, %v", res.StatusCode, len(got), size, err)
				}
				if err := res.Body.Close(); err != nil {
					t.Error(err)
				}
				srv.Close()
				if got := log.String(); !strings.HasPrefix(got, "level=ERROR msg=\"response aborted\"") ||
					!strings.Contains(got, "ref=err_1") || !strings.Contains(got, "path=/agents/assistant/c1/attachments/att_1") || strings.Count(got, "\n") != 1 {
					t.Errorf("got log %q", got)
				}
				h.closed()
			})
		}
	}
}

// TestAttachmentReadPanic checks that a panic in mid-stream breaks the connection.
func TestAttachmentReadPanic(t *testing.T) {
	h := newHarness(t, nil)
	h.attach(bytesOf(200<<10), "image/png")
	h.rt.content = func(r io.Reader) io.Reader { return io.MultiReader(io.LimitReader(r, 180<<10), panicking{}) }
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Error("connection was not aborted")
			}
		}()
		h.do("GET", "/c1/attachments/att_1")
	}()
	h.closed()
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("broken") }

// counted counts the bytes read.
type counted struct {
	io.Reader
	n *int
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	*c.n += n
	return n, err
}

// pipe serves the harness in virtual time, with limits shorter than a download.
func (h *harness) pipe(t *testing.T, client func(net.Conn)) {
	t.Helper()
	l := newPipeListener()
	srv := &http.Server{Handler: h.h, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	conn := l.dial()
	if _, err := io.WriteString(conn, "GET /agents/assistant/c1/attachments/att_1 HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	client(conn)
	_ = conn.Close() // it may be closed already
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	<-served
	synctest.Wait()
}

// TestAttachmentSlowClient checks that a slow reader is served despite the server's limits, with at
// most two pieces read ahead.
func TestAttachmentSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, piece = 640 << 10, 64 << 10
		h, read := newHarness(t, nil), 0
		want := bytesOf(size)
		h.attach(want, "image/png")
		h.rt.content = func(r io.Reader) io.Reader { return counted{r, &read} }
		h.pipe(t, func(conn net.Conn) {
			var got []byte
			buf := make([]byte, piece)
			for len(got) < size {
				n, err := io.ReadAtLeast(conn, buf, min(size-len(got), piece))
				if err != nil {
					t.Fatalf("after %d bytes: %v", len(got), err)
				}
				got = append(got, buf[:n]...)
				synctest.Wait()
				if ahead := read - len(got); ahead > 2*piece+piece/2 {
					t.Fatalf("got %d bytes read ahead for a client that took %d", ahead, len(got))
				}
				time.Sleep(9 * time.Second)
			}
			rest, _ := io.ReadAll(iotest.TimeoutReader(io.LimitReader(conn, int64(bytes.Index(got, []byte("\r\n\r\n"))+4))))
			if got = append(got, rest...); !bytes.HasSuffix(got, want) {
				t.Errorf("response of %d bytes does not end with the attachment", len(got))
			}
		})
		h.closed()
	})
}

// TestAttachmentDropsAReaderThatStops checks that a stalled download releases its content.
func TestAttachmentDropsAReaderThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = newLog(&log) })
		h.attach(bytesOf(640<<10), "image/png")
		h.pipe(t, func(conn net.Conn) {
			if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(11 * time.Second)
			synctest.Wait()
			h.closed()
			if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
		const want = "level=INFO msg=\"download by slow reader aborted\" method=GET path=/agents/assistant/c1/attachments/att_1 " +
			"err=\"send attachment att_1: write response: write pipe: i/o timeout\"\n"
		if log.String() != want {
			t.Errorf("got log %q, want %q", &log, want)
		}
	})
}

// TestAttachmentClientLeaves checks that nothing is logged.
func TestAttachmentClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = newLog(&log) })
		h.attach(bytesOf(640<<10), "image/png")
		h.pipe(t, func(conn net.Conn) {
			if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		})
		if want := "level=DEBUG msg=\"client left\" method=GET path=/agents/assistant/c1/attachments/att_1\n"; log.String() != want {
			t.Errorf("got log %q, want %q", &log, want)
		}
		h.closed()
	})
}

// TestAttachmentLeavesTheConnectionUsable reads the conversation over the connection of a download,
// after a pause longer than any of its limits.
func TestAttachmentLeavesTheConnectionUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := newHarness(t, nil), newPipeListener()
		h.attach(bytesOf(100<<10), "image/png")
		srv := &http.Server{Handler: h.h}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		dials := 0
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials++
			return l.dial(), nil
		}}
		for _, path := range []string{"/attachments/att_1", "", "/attachments/att_1"} {
			res, err := (&http.Client{Transport: transport}).Get("http://h/agents/assistant/c1" + path)
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, res); res.StatusCode != http.StatusOK || path != "" && len(got) != 100<<10 {
				t.Errorf("%s: got status %d, %d bytes", path, res.StatusCode, len(got))
			}
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		}
		if dials != 1 {
			t.Errorf("%d connections", dials)
		}
		transport.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// TestHTTP2OutlivesSilence: on HTTP/2 an expired deadline ends a response even if nothing is being
// written. A late content, a held long-poll, and an idle stream must continue.
func TestHTTP2OutlivesSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := newHarness(t, nil), newPipeListener()
		h.attach(bytesOf(200<<10), "image/png")
		h.rt.content = func(r io.Reader) io.Reader { return io.MultiReader(io.LimitReader(r, 150<<10), late{}, r) }
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		srv := &http.Server{Handler: h.h, Protocols: &protocols, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		transport := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
			return l.dial(), nil
		}}
		for path, enough := range map[string]int64{
			"/attachments/att_1": 200 << 10, "?view=updates&offset=-1&live=sse": 2000, "?view=updates&live=long-poll&offset=" + offset(0): 2,
		} {
			res, err := (&http.Client{Transport: transport}).Get("http://h/agents/assistant/c1" + path)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.CopyN(io.Discard, res.Body, enough); err != nil || res.ProtoMajor != 2 {
				t.Errorf("%s: HTTP/%d, %d bytes, %v", path, res.ProtoMajor, n, err)
			}
			_ = res.Body.Close() // a stream has no end
		}
		transport.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// late is an empty content that returns EOF after a delay.
type late struct{}

func (late) Read([]byte) (int, error) {
	time.Sleep(time.Minute)
	return 0, io.EOF
}

// TestAttachmentWithoutFlush runs behind a middleware that hides the wrapped writer.
func TestAttachmentWithoutFlush(t *testing.T) {
	h := newHarness(t, nil)
	want := bytesOf(200 << 10)
	h.attach(want, "image/png")
	rec := httptest.NewRecorder()
	h.h.ServeHTTP(struct{ http.ResponseWriter }{rec}, httptest.NewRequest("GET", "/agents/assistant/c1/attachments/att_1", nil))
	if !bytes.Equal(rec.Body.Bytes(), want) {
		t.Errorf("%d bytes", rec.Body.Len())
	}
}

// readFunc implements io.Reader.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// TestAttachmentClientLeavesDuringARead checks that the cancelled read is not logged as a failure.
func TestAttachmentClientLeavesDuringARead(t *testing.T) {
	var log bytes.Buffer
	h := newHarness(t, func(o *parleyhttp.Options) { o.Logger = newLog(&log) })
	h.attach(bytesOf(300<<10), "image/png")
	r, cancel := withCancel(httptest.NewRequest("GET", "/agents/assistant/c1/attachments/att_1", nil))
	h.rt.content = func(content io.Reader) io.Reader {
		leave := readFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF })
		return io.MultiReader(io.LimitReader(content, 250<<10), leave, iotest.ErrReader(context.Canceled))
	}
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Error("connection was not aborted")
			}
		}()
		h.serve(r)
	}()
	if want := "level=DEBUG msg=\"client left\" method=GET path=/agents/assistant/c1/attachments/att_1\n"; log.String() != want {
		t.Errorf("got log %q, want %q", &log, want)
	}
	h.closed()
}
