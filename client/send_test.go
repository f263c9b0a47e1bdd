package client_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

const accepted = `{"streamUrl":"http://h/a/x","offset":"0000000000000000_0000000000000003","submissionId":"sub_1","uid":"inst_1"}`

// reply returns a response of a fake server.
func reply(r *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for pair := range slices.Chunk(header, 2) {
		h.Set(pair[0], pair[1])
	}
	return &http.Response{
		StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

func envelope(code conversation.Code) string {
	return `{"error":{"type":"` + string(code) + `","message":"M.","details":"D.","ref":"err_1","meta":{"n":1}}}`
}

func TestSendWritesTheWire(t *testing.T) {
	data := bytes.Repeat([]byte{0, 255, 7}, 20_000)
	for name, tt := range map[string]struct {
		m    client.Message
		want string
	}{
		"empty":   {client.Message{Key: "k"}, `{"kind":"user","body":"","idempotencyKey":"k"}`},
		"text":    {client.Message{Key: "k", Body: "a<b \u2028\"}"}, `{"kind":"user","body":"a<b \u2028\"}","idempotencyKey":"k"}`},
		"absent":  {client.Message{Key: "k", IfAbsent: true}, `{"kind":"user","body":"","uid":null,"idempotencyKey":"k"}`},
		"uid":     {client.Message{Key: "k", IfUID: "inst_1"}, `{"kind":"user","body":"","uid":"inst_1","idempotencyKey":"k"}`},
		"initial": {client.Message{Key: "k", InitialData: map[string]int{"n": 1}}, `{"kind":"user","body":"","initialData":{"n":1},"idempotencyKey":"k"}`},
		"null":    {client.Message{Key: "k", InitialData: json.RawMessage("null")}, `{"kind":"user","body":"","initialData":null,"idempotencyKey":"k"}`},
		"signal": {
			client.Message{Key: "k", Body: "b", Signal: &client.Signal{Type: "build.done", Attributes: map[string]string{"a": "1"}, TagName: "build"}},
			`{"kind":"signal","type":"build.done","body":"b","attributes":{"a":"1"},"tagName":"build","idempotencyKey":"k"}`,
		},
		"images": {
			client.Message{Key: "k", Attachments: []client.Attachment{
				{MimeType: "image/png", Filename: `a"b.png`, Data: data}, {MimeType: "image/gif", Data: []byte("x")},
				{MimeType: "image/gif", Open: func() (io.ReadCloser, error) {
					return io.NopCloser(iotest.OneByteReader(bytes.NewReader(data[:1001]))), nil
				}},
			}},
			`{"kind":"user","body":"","attachments":[{"type":"image","mimeType":"image/png","filename":"a\"b.png","data":"` +
				base64.StdEncoding.EncodeToString(data) + `"},{"type":"image","mimeType":"image/gif","data":"eA=="},` +
				`{"type":"image","mimeType":"image/gif","data":"` + base64.StdEncoding.EncodeToString(data[:1001]) + `"}],"idempotencyKey":"k"}`,
		},
	} {
		var body []byte
		c := open(t, "http://h/a/x", &client.Options{HTTPClient: over(func(r *http.Request) (*http.Response, error) {
			body = must(io.ReadAll(r.Body))
			if r.ContentLength >= 0 && r.ContentLength != int64(len(body)) {
				t.Errorf("%s: got %d bytes, Content-Length %d", name, len(body), r.ContentLength)
			}
			if r.Method != "POST" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s of %s", name, r.Method, r.Header)
			}
			return reply(r, 202, accepted), nil
		})})
		got := send(t, c, tt.m)
		want := client.Receipt{StreamURL: "http://h/a/x", Key: "k", Receipt: conversation.Receipt{Offset: 3, SubmissionID: "sub_1", UID: "inst_1"}}
		if got != want {
			t.Errorf("%s: got receipt %+v", name, got)
		}
		var have, wanted any
		if err := errors.Join(json.Unmarshal(body, &have), json.Unmarshal([]byte(tt.want), &wanted)); err != nil {
			t.Errorf("%s: %v in %.200s", name, err, body)
		}
		if diff := cmp.Diff(wanted, have); diff != "" {
			t.Errorf("%s (-want +got):\n%.1000s", name, diff)
		}
	}
}

func TestSendRejectsInvalidMessages(t *testing.T) {
	c := open(t, "http://h/a/x", &client.Options{HTTPClient: over(func(*http.Request) (*http.Response, error) {
		t.Error("invalid message was sent")
		return nil, io.EOF
	})})
	for _, m := range []client.Message{
		{Body: "\xff"}, {IfAbsent: true, IfUID: "inst_1"}, {InitialData: func() {}},
		{Signal: &client.Signal{Type: "a"}, Attachments: []client.Attachment{{}}},
	} {
		var uncertain *client.UncertainError
		if _, err := c.Send(withPatience(t), m); err == nil || errors.As(err, &uncertain) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var uncertain *client.UncertainError
	if _, err := c.Send(ctx, client.Message{}); !errors.Is(err, context.Canceled) || errors.As(err, &uncertain) {
		t.Errorf("ended context: got %v", err)
	}
}

func TestConditions(t *testing.T) {
	c := newServer(t).open("hello", nil)
	var rejected *client.Error
	if _, err := c.Send(withPatience(t), client.Message{IfUID: "inst_none"}); !errors.As(err, &rejected) ||
		rejected.Status != 404 || rejected.Type != conversation.CodeInstanceNotFound {
		t.Errorf("unknown uid: got %v", err)
	}
	first := send(t, c, client.Message{Body: "a", IfAbsent: true, Key: "order-17"})
	if again := send(t, c, client.Message{Body: "a", IfAbsent: true, Key: "order-17"}); !again.Deduplicated || again.SubmissionID != first.SubmissionID || again.Offset != first.Offset {
		t.Errorf("repeated: got %+v", again)
	}
	if _, err := c.Send(withPatience(t), client.Message{Body: "b", Key: "order-17"}); !errors.As(err, &rejected) ||
		rejected.Status != 409 || rejected.Type != conversation.CodeSubmissionConflict || rejected.Meta["submissionId"] != string(first.SubmissionID) {
		t.Errorf("another message under the key: got %v", err)
	}
	if _, err := c.Send(withPatience(t), client.Message{Body: "b", IfAbsent: true}); !errors.As(err, &rejected) ||
		rejected.Status != 409 || rejected.Type != conversation.CodeInstanceExists || rejected.Meta["uid"] != string(first.UID) {
		t.Errorf("created twice: got %v", err)
	}
	if next := send(t, c, client.Message{Body: "b", IfUID: first.UID}); next.Deduplicated || next.UID != first.UID {
		t.Errorf("next: %+v", next)
	}
	if reply := ask(t, c, client.Message{Body: "b", Signal: &client.Signal{Type: "build.done", TagName: "build"}}); reply.Text == "" {
		t.Errorf("signal got no reply: %+v", reply)
	}
}

// TestLostAnswer loses the responses of successful admissions.
func TestLostAnswer(t *testing.T) {
	s := newServer(t)
	lost, retries := 0, 0
	o := &client.Options{Retrying: func(error) { retries++ }, HTTPClient: over(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || r.Method != "POST" || lost == 3 {
			return resp, err
		}
		lost++
		defer resp.Body.Close()
		switch lost {
		case 1: // lost completely
			return nil, io.ErrUnexpectedEOF
		case 2: // cut in the middle
			resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(strings.NewReader(accepted), 20), iotest.ErrReader(io.ErrUnexpectedEOF)))
		case 3: // replaced by a proxy
			return reply(r, http.StatusBadGateway, "<html>bad gateway"), nil
		}
		return resp, nil
	})}
	c := s.open("hello", o)
	receipt := send(t, c, client.Message{Body: "hello", IfAbsent: true})
	if !receipt.Deduplicated || lost != 3 || retries != 3 {
		t.Errorf("got receipt %+v after %d lost responses, %d Retrying calls", receipt, lost, retries)
	}
	if _, err := c.Wait(withPatience(t), receipt); err != nil {
		t.Fatal(err)
	}
	if snap, err := c.History(withPatience(t)); err != nil || len(snap.Messages) != 2 || len(snap.Settlements) != 1 {
		t.Errorf("got snapshot %+v, %v", snap, err)
	}
}

func TestSendRetriesAreBounded(t *testing.T) {
	keys, tries := map[string]bool{}, 0
	var answer func(*http.Request) (*http.Response, error)
	c := open(t, "http://h/a/x", &client.Options{Tries: 4, HTTPClient: over(func(r *http.Request) (*http.Response, error) {
		var p struct{ IdempotencyKey string }
		_ = json.NewDecoder(r.Body).Decode(&p)
		keys[p.IdempotencyKey] = true
		tries++
		return answer(r)
	})})
	for name, tt := range map[string]struct {
		status    int
		body      string
		tries     int
		uncertain bool
	}{
		"unavailable":   {503, envelope(conversation.CodeUnavailable), 4, true},
		"unknown":       {503, envelope(conversation.CodeAdmissionUnknown), 4, true},
		"internal":      {500, envelope(conversation.CodeInternal), 4, true},
		"bad gateway":   {502, "<html>", 4, true},
		"busy":          {429, "", 4, true},
		"not a receipt": {202, "{}", 4, true},
		"html":          {200, "<html>", 4, true},
		"invalid":       {400, envelope(conversation.CodeInvalidRequest), 1, false},
		"conflict":      {409, envelope(conversation.CodeSubmissionConflict), 1, false},
		"integrity":     {500, envelope(conversation.CodeAttachmentConflict), 1, false},
		"not modified":  {304, "", 1, false},
	} {
		keys, tries = map[string]bool{}, 0
		answer = func(r *http.Request) (*http.Response, error) { return reply(r, tt.status, tt.body), nil }
		_, err := c.Send(withPatience(t), client.Message{Body: "x"})
		var uncertain *client.UncertainError
		var rejected *client.Error
		if errors.As(err, &uncertain) != tt.uncertain || tries != tt.tries || len(keys) != 1 {
			t.Errorf("%s: %d tries under %d keys: %v", name, tries, len(keys), err)
		}
		if tt.uncertain && !keys[uncertain.Key] {
			t.Errorf("%s: got key %q", name, uncertain.Key)
		}
		if tt.status >= 300 && (!errors.As(err, &rejected) || rejected.Status != tt.status) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasPrefix(tt.body, `{"error"`) && (rejected.Type == "" || rejected.Message != "M." || rejected.Details != "D." || rejected.Ref != "err_1" || rejected.Meta["n"] != 1.0) {
			t.Errorf("%s: %+v", name, rejected)
		}
	}
}

// TestDoubtStays checks that a later failure keeps the outcome unknown, unless the server rejects the
// message under its key.
func TestDoubtStays(t *testing.T) {
	broken := errors.New("broken disk")
	for name, tt := range map[string]struct {
		status    int
		body      string
		uncertain bool
	}{
		"by a proxy":    {403, "<html>", true},
		"by the server": {409, envelope(conversation.CodeInstanceExists), false},
		"content":       {0, "", true},
	} {
		tries, opened := 0, 0
		c := open(t, "http://h/a/x", &client.Options{HTTPClient: over(func(r *http.Request) (*http.Response, error) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return nil, err
			}
			if tries++; tries == 1 {
				return nil, io.ErrUnexpectedEOF
			}
			return reply(r, tt.status, tt.body), nil
		})})
		_, err := c.Send(withPatience(t), client.Message{Attachments: []client.Attachment{{Open: func() (io.ReadCloser, error) {
			if opened++; opened == 2 && tt.status == 0 {
				return nil, broken
			}
			return io.NopCloser(strings.NewReader("png")), nil
		}}}})
		var uncertain *client.UncertainError
		if errors.As(err, &uncertain) != tt.uncertain || opened != 2 || errors.Is(err, broken) != (tt.status == 0) {
			t.Errorf("%s: opened %d times: %v", name, opened, err)
		}
	}
}

// TestRetryAfter checks that the client waits as requested, but at most a minute.
func TestRetryAfter(t *testing.T) {
	for after, want := range map[string][2]time.Duration{
		"7": {7 * time.Second, 8 * time.Second}, "86400": {time.Minute, time.Minute + time.Second},
		"": {0, time.Second}, "-1": {0, time.Second}, "soon": {0, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, tries := time.Now(), 0
			c := open(t, "http://h/a/x", &client.Options{HTTPClient: over(func(r *http.Request) (*http.Response, error) {
				if tries++; tries == 1 {
					return reply(r, 503, envelope(conversation.CodeUnavailable), "Retry-After", after), nil
				}
				return reply(r, 202, accepted), nil
			})})
			send(t, c, client.Message{})
			if took := time.Since(began); took < want[0] || took > want[1] || tries != 2 {
				t.Errorf("Retry-After %q: got %d tries in %v", after, tries, took)
			}
		})
	}
}

// TestSendEndsWithItsContext ends contexts in a request and in a pause.
func TestSendEndsWithItsContext(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"request": func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		"pause":   func(r *http.Request) (*http.Response, error) { return reply(r, 503, "", "Retry-After", "30"), nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, "http://h/a/x", &client.Options{HTTPClient: over(answer)})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := c.Send(ctx, client.Message{Key: "k"})
			var uncertain *client.UncertainError
			if !errors.As(err, &uncertain) || uncertain.Key != "k" || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestSilentServer checks the timeout of each stalled request.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		c := open(t, "http://h/a/x", &client.Options{Tries: 3, AnswerWithin: time.Minute, HTTPClient: over(func(r *http.Request) (*http.Response, error) {
			if tries++; tries == 2 { // headers arrive, the body does not
				resp := reply(r, 202, "")
				resp.Body = &script{ctx: r.Context()}
				return resp, nil
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		_, err := c.Send(t.Context(), client.Message{})
		if took := time.Since(began); tries != 3 || took < 3*time.Minute || took > 3*time.Minute+time.Second {
			t.Errorf("%d tries in %v", tries, took)
		}
		if err == nil || !strings.Contains(err.Error(), "nothing was heard for 1m0s") {
			t.Errorf("got error %v", err)
		}
	})
}

func TestAttachments(t *testing.T) {
	s := newServer(t)
	lose := true
	c := s.open("hello", &client.Options{HTTPClient: over(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if r.Method == "POST" && lose && err == nil {
			lose = false
			resp.Body.Close()
			return nil, io.ErrUnexpectedEOF
		}
		return resp, err
	})})
	big := bytes.Repeat([]byte("0123456789abcde\x00"), 1<<17) // 2 MiB
	opened, closed := 0, 0
	ask(t, c, client.Message{Body: "look", Attachments: []client.Attachment{
		{MimeType: "image/png", Filename: "big.png", Data: big},
		{MimeType: "image/gif", Open: func() (io.ReadCloser, error) {
			opened++
			return closer{bytes.NewReader(big[:70_001]), func() { closed++ }}, nil
		}},
	}})
	if opened != 2 || closed != 2 {
		t.Errorf("opened %d times, closed %d times", opened, closed)
	}
	snap, err := c.History(withPatience(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]byte{big, big[:70_001]} {
		p := snap.Messages[0].Parts[i+1]
		content, err := c.Attachment(withPatience(t), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(content)
		if err != nil || !bytes.Equal(got, want) || content.Size != int64(len(want)) || content.MimeType != p.MediaType {
			t.Errorf("%s: %d bytes of %d, %s, %v", p.MediaType, len(got), content.Size, content.MimeType, err)
		}
		if err := content.Close(); err != nil {
			t.Error(err)
		}
	}
	var rejected *client.Error
	if _, err := c.Attachment(withPatience(t), "att_none"); !errors.As(err, &rejected) || rejected.Type != conversation.CodeAttachmentNotFound {
		t.Errorf("got error %v", err)
	}
}

type closer struct {
	io.Reader
	close func()
}

func (c closer) Close() error { c.close(); return nil }

// TestContentThatCannotBeRead covers a failure of the caller: it is not retried, and nothing was
// admitted.
func TestContentThatCannotBeRead(t *testing.T) {
	s := newServer(t)
	broken := errors.New("broken disk")
	posts := make(chan struct{}, 10)
	s.watch(func(*http.Request) { posts <- struct{}{} })
	for name, open := range map[string]func() (io.ReadCloser, error){
		"open": func() (io.ReadCloser, error) { return nil, broken },
		"read": func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(broken))), nil
		},
	} {
		c := s.open(name, nil)
		_, err := c.Send(withPatience(t), client.Message{Attachments: []client.Attachment{{MimeType: "image/png", Open: open}}})
		var uncertain *client.UncertainError
		if !errors.Is(err, broken) || errors.As(err, &uncertain) {
			t.Errorf("%s: %v", name, err)
		}
		var rejected *client.Error
		if _, err := c.History(withPatience(t)); !errors.As(err, &rejected) || rejected.Status != 404 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(posts); n > 4 { // at most one POST and one GET each
		t.Errorf("%d requests", n)
	}
}

// TestDataIsNotReadAfterSend: a transport may read a body after the response. It gets no more data
// once Send has returned.
func TestDataIsNotReadAfterSend(t *testing.T) {
	var body io.Reader
	c := open(t, "http://h/a/x", &client.Options{HTTPClient: over(func(r *http.Request) (*http.Response, error) {
		body = r.Body
		_, err := io.CopyN(io.Discard, body, 1000)
		return reply(r, 400, envelope(conversation.CodeInvalidRequest)), err
	})})
	_, err := c.Send(withPatience(t), client.Message{Attachments: []client.Attachment{{Data: make([]byte, 1<<20)}}})
	var rejected *client.Error
	if !errors.As(err, &rejected) || rejected.Status != 400 {
		t.Errorf("got error %v", err)
	}
	if n, err := body.Read(make([]byte, 10)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%d bytes more, %v", n, err)
	}
}

// TestLargeImageIsNotCopied bounds the allocations for 10 MB.
func TestLargeImageIsNotCopied(t *testing.T) {
	image := make([]byte, 10<<20)
	c := open(t, "http://h/a/x", &client.Options{HTTPClient: over(func(r *http.Request) (*http.Response, error) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n != r.ContentLength {
			t.Errorf("%d bytes of %d, %v", n, r.ContentLength, err)
		}
		return reply(r, 202, accepted), nil
	})})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	send(t, c, client.Message{Attachments: []client.Attachment{{MimeType: "image/png", Data: image}}})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("sending %d bytes allocated %d", len(image), took)
	}
}

// TestSendWithoutConnection checks that a message that was never sent is not in doubt.
func TestSendWithoutConnection(t *testing.T) {
	c, err := client.New("http://127.0.0.1:1/x", &client.Options{Tries: 2, FirstPause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(t.Context(), client.Message{Body: "m"})
	var unsent *client.UnsentError
	var uncertain *client.UncertainError
	if !errors.As(err, &unsent) || errors.As(err, &uncertain) {
		t.Errorf("got %v", err)
	}
}
