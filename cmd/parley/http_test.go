package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/providers/sse"
	"github.com/parleyrun/parley/storage"
)

// covers: protocol/6, protocol/41, protocol/51, protocol/52, protocol/61, protocol/62
func TestHTTPCreateAndContinue(t *testing.T) {
	s := startStack(t, newBucket(t), noon)
	const path = "/assistant/a%2Fb"
	for _, query := range []string{"", "?view=updates&offset=-1", "?view=updates&offset=-1&live=sse"} {
		s.refused(s.do("GET", path+query), 404, conversation.CodeStreamNotFound)
	}
	a := s.post(path+"?x=y", clitest.Hello)
	if a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.body)
	}
	first := clitest.Into[clitest.Receipt](t, a.body)
	url := s.url + "/agents" + path
	if first.StreamURL != url || a.header.Get("Location") != url || first.Offset != 0 ||
		a.header.Get("Stream-Next-Offset") != first.Offset.String() || !strings.HasPrefix(string(first.UID), "inst_") || first.Deduplicated {
		t.Errorf("receipt %+v, header %v", first, a.header)
	}
	if got := s.settle(path, first); got != conversation.OutcomeCompleted {
		t.Errorf("the first message is %s", got)
	}
	second := s.accepted(path, fmt.Sprintf(`{"kind":"user","body":"time","uid":%q}`, first.UID))
	if second.UID != first.UID || second.SubmissionID == first.SubmissionID || second.Offset <= first.Offset {
		t.Errorf("first %+v, second %+v", first, second)
	}
	s.settle(path, second)
	snap := s.snapshot(path)
	if len(snap.Messages) != 4 || len(snap.Settlements) != 2 || !strings.Contains(*snap.Messages[3].Parts[2].Text, "12:00") {
		t.Errorf("snapshot %+v", snap)
	}
	h := s.do("HEAD", path+"?view=bogus")
	if h.status != http.StatusOK || h.header.Get("Stream-Next-Offset") != snap.Offset.String() || h.body != "" {
		t.Errorf("HEAD %d %v, head %s", h.status, h.header, snap.Offset)
	}
}

// Every layer rejects requests without storing a byte.
// covers: protocol/28
func TestHTTPRefusedCreation(t *testing.T) {
	bucket := newBucket(t)
	const image, empty = `{"type":"image","mimeType":"image/png","data":"eA=="}`, `{"type":"image","mimeType":"image/png","data":""}`
	const jsonType = "application/json"
	s := startStack(t, bucket, noon)
	before := s.stored()
	for _, tt := range []struct {
		name, path, media, body string
		status                  int
		code                    conversation.Code
		details                 string
	}{
		{"uid of nobody", "/assistant/c", jsonType, `{"kind":"user","body":"x","uid":"inst_1"}`, 404, conversation.CodeInstanceNotFound, "inst_1"},
		{"uid with an image", "/assistant/c", jsonType, `{"kind":"user","body":"x","uid":"inst_1","attachments":[` + image + `]}`, 404, conversation.CodeInstanceNotFound, "inst_1"},
		{"uid and initialData", "/strict/c", jsonType, `{"kind":"user","body":"x","uid":"u","initialData":{"repo":"r"}}`, 400, conversation.CodeInvalidRequest, "initialData"},
		{"initialData of a wrong type", "/strict/c", jsonType, `{"kind":"user","body":"x","initialData":{"repo":1}}`, 400, conversation.CodeInvalidRequest, "repo"},
		{"initialData missing", "/strict/c", jsonType, clitest.Hello, 400, conversation.CodeInvalidRequest, "initialData"},
		{"initialData with an image", "/strict/c", jsonType, `{"kind":"user","body":"x","initialData":7,"attachments":[` + image + `]}`, 400, conversation.CodeInvalidRequest, "initialData"},
		{"empty attachment", "/assistant/c", jsonType, `{"kind":"user","body":"x","attachments":[` + image + "," + empty + `]}`, 400, conversation.CodeInvalidRequest, "attachments[1].data"},
		{"tagName", "/assistant/c", jsonType, `{"kind":"signal","type":"t","body":"x","tagName":"a b"}`, 400, conversation.CodeInvalidRequest, "tagName"},
		{"nested message", "/assistant/c", jsonType, `{"message":` + clitest.Hello + `}`, 400, conversation.CodeInvalidRequest, "nested"},
		{"wait", "/assistant/c?wait=1", jsonType, clitest.Hello, 400, conversation.CodeInvalidRequest, "wait"},
		{"no JSON", "/assistant/c", jsonType, "{", 400, conversation.CodeInvalidJSON, ""},
		{"no body", "/assistant/c", jsonType, "", 400, conversation.CodeInvalidJSON, "empty"},
		{"no body and no type", "/assistant/c", "", "", 415, conversation.CodeUnsupportedMediaType, "Content-Type"},
		{"other type", "/assistant/c", "text/plain", clitest.Hello, 415, conversation.CodeUnsupportedMediaType, "text/plain"},
		{"blank id", "/assistant/%20", jsonType, clitest.Hello, 400, conversation.CodeInvalidRequest, "blank"},
		{"no id", "/assistant/", jsonType, clitest.Hello, 400, conversation.CodeInvalidRequest, "blank"},
		{"other agent", "/nobody/c", jsonType, clitest.Hello, 404, conversation.CodeRouteNotFound, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			e := s.refused(s.send("POST", tt.path, tt.media, tt.body), tt.status, tt.code)
			if !strings.Contains(e.Details, tt.details) {
				t.Errorf("details %q lack %q", e.Details, tt.details)
			}
			for _, path := range []string{"/assistant/c", "/strict/c"} {
				if a := s.do("HEAD", path); a.status != http.StatusNotFound || a.body != "" {
					t.Errorf("HEAD %s is %d", path, a.status)
				}
			}
			if d := cmp.Diff(before, s.stored()); d != "" {
				t.Errorf("the bucket changed (-before +after):\n%s", d)
			}
		})
	}
	s.accepted("/strict/c", `{"kind":"user","body":"x","initialData":{"repo":"r"},"uid":null}`)
}

// TestHTTPRefusedContinuation sends invalid and repeated requests to an existing conversation.
// covers: protocol/27, protocol/38
func TestHTTPRefusedContinuation(t *testing.T) {
	s := startStack(t, newBucket(t), noon)
	const path, keyed = "/strict/c", `{"kind":"user","body":"x","initialData":{"repo":"r"},"idempotencyKey":"k"}`
	raw := s.post(path, keyed)
	first := clitest.Into[clitest.Receipt](t, raw.body)
	s.settle(path, first)
	before, head := s.objects("strict", "c"), s.do("HEAD", path).header.Get("Stream-Next-Offset")
	for _, tt := range []struct {
		name, body string
		status     int
		code       conversation.Code
		meta       map[string]any
	}{
		{"must not exist", `{"kind":"user","body":"x","uid":null}`, 409, conversation.CodeInstanceExists, map[string]any{"uid": string(first.UID)}},
		{"other uid", `{"kind":"user","body":"x","uid":"inst_other"}`, 404, conversation.CodeInstanceNotFound, nil},
		{"empty uid", `{"kind":"user","body":"x","uid":""}`, 404, conversation.CodeInstanceNotFound, nil},
		{"other payload", `{"kind":"user","body":"y","initialData":{"repo":"r"},"idempotencyKey":"k"}`, 409, conversation.CodeSubmissionConflict,
			map[string]any{"submissionId": string(first.SubmissionID)}},
		{"replay", keyed, 202, "", nil},
		{"replay in other words", `{"idempotencyKey":"k", "initialData":{"repo":"r"}, "body":"\u0078", "kind":"user"}`, 202, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			a := s.post(path, tt.body)
			if tt.status == http.StatusAccepted {
				want := strings.TrimSuffix(raw.body, "}") + `,"deduplicated":true}`
				if a.status != tt.status || a.body != want || a.header.Get("Stream-Next-Offset") != first.Offset.String() {
					t.Errorf("%d %s, want %s", a.status, a.body, want)
				}
			} else {
				e := s.refused(a, tt.status, tt.code)
				if d := cmp.Diff(tt.meta, e.Meta); d != "" {
					t.Error(d)
				}
				if uid, ok := tt.meta["uid"].(string); ok && !strings.Contains(e.Details, uid) {
					t.Errorf("details %q do not name the uid", e.Details)
				}
			}
			if d := cmp.Diff(before, s.objects("strict", "c")); d != "" {
				t.Errorf("the conversation changed (-before +after):\n%s", d)
			}
			if got := s.do("HEAD", path).header.Get("Stream-Next-Offset"); got != head {
				t.Errorf("the head is %s, was %s", got, head)
			}
		})
	}
	// The schema applies to creation only.
	s.accepted(path, `{"kind":"user","body":"x","initialData":"other"}`)
}

// covers: protocol/76, protocol/77
func TestHTTPAttachments(t *testing.T) {
	s := startStack(t, newBucket(t), noon)
	const path, png, other = "/assistant/c", "\x89PNG\r\n\x1a\n", "other"
	image := func(content, more string) string {
		return fmt.Sprintf(`{"type":"image","mimeType":"image/png","data":%q%s}`, base64.StdEncoding.EncodeToString([]byte(content)), more)
	}
	body := `{"kind":"user","body":"look","attachments":[` + image(png, `,"filename":"a.png"`) + "," + image(other, "") + "," + image(png, "") + `]}`
	first := s.accepted(path, body)
	if got := s.settle(path, first); got != conversation.OutcomeCompleted {
		t.Errorf("the message is %s", got)
	}
	s.settle(path, s.accepted(path, body))

	want := map[string]int64{}
	key := conversation.Address{Agent: "assistant", ID: "c"}.Key()
	for _, content := range []string{png, other} {
		name := storage.BlobKey(key, storage.Bytes([]byte(content)).SHA256)
		want[name] = int64(len(content))
		if got, err := s.bucket.Get(t.Context(), name); err != nil || string(got) != content {
			t.Errorf("blob %q, %v", got, err)
		}
	}
	got := s.objects("assistant", "c")
	for name := range got {
		if !strings.Contains(name, "/blob/") {
			delete(got, name)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("blobs (-want +got):\n%s", d)
	}
	parts := clitest.Into[struct {
		Messages []struct{ Parts []map[string]any }
	}](t, s.do("GET", path).body).Messages[0].Parts
	ids := map[any]bool{}
	var files []map[string]any
	for _, p := range parts {
		if p["type"] == "file" {
			ids[p["id"]] = strings.HasPrefix(fmt.Sprint(p["id"]), "att_")
			delete(p, "id")
			files = append(files, p)
		}
	}
	wantFiles := []map[string]any{
		{"type": "file", "mediaType": "image/png", "size": 8.0, "filename": "a.png"},
		{"type": "file", "mediaType": "image/png", "size": 5.0},
		{"type": "file", "mediaType": "image/png", "size": 8.0},
	}
	if d := cmp.Diff(wantFiles, files); d != "" || len(ids) != 3 || ids[nil] {
		t.Errorf("ids %v, file parts (-want +got):\n%s", ids, d)
	}
}

// covers: protocol/20, protocol/67, protocol/68, protocol/71
func TestHTTPSignal(t *testing.T) {
	s := startStack(t, newBucket(t), noon)
	const path = "/assistant/c"
	r := s.accepted(path, `{"kind":"signal","type":"ci.failed","body":"{\"job\":7}","tagName":"ci","attributes":{"b":"<2>","a":"1"}}`)
	if got := s.settle(path, r); got != conversation.OutcomeCompleted {
		t.Errorf("the signal is %s", got)
	}
	snap := s.snapshot(path)
	m := snap.Messages[0]
	want := &conversation.Signal{TagName: "ci", Attributes: map[string]string{"a": "1", "b": "<2>"}}
	if m.Role != conversation.RoleSystem || m.Purpose != conversation.PurposeDispatch || len(snap.Messages) != 2 || len(m.Parts) != 1 || *m.Parts[0].Text != `{"job":7}` {
		t.Errorf("messages %+v", snap.Messages)
	}
	if d := cmp.Diff(want, m.Signal); d != "" {
		t.Error(d)
	}
}

// The trace of the caller is recorded with its submission.
// covers: protocol/56
func TestHTTPTrace(t *testing.T) {
	s := startStack(t, newBucket(t), noon)
	const path, parent, state = "/assistant/c", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b,c=d"
	want := map[conversation.SubmissionID]conversation.Trace{}
	for _, trace := range []conversation.Trace{{Parent: parent, State: state}, {}, {Parent: parent}} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/agents"+path, strings.NewReader(clitest.Hello))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("traceparent", trace.Parent)
		r.Header.Set("tracestate", trace.State)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // read only
		if err != nil || resp.StatusCode != http.StatusAccepted {
			t.Fatal(resp.Status, err)
		}
		want[clitest.Into[clitest.Receipt](t, string(b)).SubmissionID] = trace
	}
	got := map[conversation.SubmissionID]conversation.Trace{}
	key := conversation.Address{Agent: "assistant", ID: "c"}.Key()
	for b, err := range storage.NewLogs(s.bucket, nil).Batches(t.Context(), key, storage.Start()) {
		if err != nil {
			t.Fatal(err)
		}
		records, err := conversation.DecodeRecords(b.Lines)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if a, ok := r.(*conversation.SubmissionAdmitted); ok {
				got[a.Submission] = a.Trace
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("recorded traces (-want +got):\n%s", d)
	}
}

// A lagging node is asked for the head of another one. It must list the bucket before it reports an
// offset beyond the end.
// covers: protocol/16, protocol/115, protocol/184
func TestHTTPBeyondHead(t *testing.T) {
	bucket := newBucket(t)
	lagging, writing := startStack(t, bucket, noon), startStack(t, bucket, noon)
	const path = "/assistant/c"
	writing.settle(path, writing.accepted(path, clitest.Hello))
	old := lagging.snapshot(path).Offset
	writing.settle(path, writing.accepted(path, clitest.Hello))
	head := writing.snapshot(path).Offset
	if head <= old {
		t.Fatalf("head %s after %s", head, old)
	}
	a := lagging.do("GET", path+"?view=updates&offset="+head.String())
	if a.status != http.StatusOK || a.body != "[]" || a.header.Get("Stream-Up-To-Date") != "true" {
		t.Errorf("at the head: %d %s", a.status, a.body)
	}
	for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
		e := lagging.refused(lagging.do("GET", path+"?view=updates&offset="+(head+1).String()+live), 500, conversation.CodeStreamStoreFailure)
		if !strings.Contains(e.Details, head.String()) || lagging.logs.With("level=WARN", e.Ref) == "" || lagging.logs.With("level=ERROR", e.Ref) != "" {
			t.Errorf("details %q, logged %q", e.Details, lagging.logs.With(e.Ref))
		}
	}
}

// covers: protocol/60, protocol/120
func TestHTTPEventStreamEqualsSnapshot(t *testing.T) {
	s := startStack(t, newBucket(t), noon)
	const path = "/assistant/c"
	s.accepted(path, `{"kind":"user","body":"think"}`)
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/agents"+path+"?view=updates&offset=-1&live=sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff",
		"Cross-Origin-Resource-Policy": "cross-origin", "Stream-Next-Offset": "",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	// The rest happens while the stream is open.
	s.accepted(path, `{"kind":"user","body":"time"}`)
	s.accepted(path, `{"kind":"signal","type":"t","body":"x"}`)
	d := &transcript{t: t, last: conversation.Position{Batch: -1}}
	events := sse.NewReader(resp.Body, nil)
	d.until(events, func(conversation.Offset) bool { return len(d.Settlements) == 3 })
	a := s.do("GET", path)
	want := clitest.Into[conversation.Snapshot](t, a.body)
	if d.Offset < want.Offset {
		d.until(events, func(next conversation.Offset) bool { return next >= want.Offset })
	}
	got, err := conversation.EncodeJSON(d.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(clitest.Into[map[string]any](t, a.body), clitest.Into[map[string]any](t, string(got))); diff != "" {
		t.Errorf("stream and snapshot differ (-snapshot +stream):\n%s", diff)
	}
}

// covers: protocol/49, protocol/117, protocol/160
func TestHTTPLongPollResumes(t *testing.T) {
	s := startStack(t, newBucket(t), noon)
	const path = "/assistant/c"
	s.settle(path, s.accepted(path, clitest.Hello))
	head := s.snapshot(path).Offset
	select { // drains the value of settle
	case <-s.held:
	default:
	}
	answered := make(chan answer, 1)
	go func() { answered <- s.do("GET", path+"?view=updates&live=long-poll&offset="+head.String()) }()
	<-s.held
	r := s.accepted(path, clitest.Hello)
	a := <-answered
	chunks := clitest.Into[[]conversation.Chunk](t, a.body)
	if a.status != http.StatusOK || len(chunks) == 0 || chunks[0].Type != conversation.ChunkAppended ||
		chunks[0].Message.SubmissionID != r.SubmissionID || a.header.Get("Stream-Next-Offset") < r.Offset.String() {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

// TestHTTPDrain sends messages while a tool delays the shutdown of the runtime, and after its end.
// covers: protocol/185, protocol/197
func TestHTTPDrain(t *testing.T) {
	running, notified, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	tool := func(ctx context.Context, _ clockInput) (clockOutput, error) {
		close(running)
		<-ctx.Done()
		close(notified)
		<-release
		return clockOutput{}, ctx.Err()
	}
	s := startStack(t, newBucket(t), tool)
	s.accepted("/assistant/c", `{"kind":"user","body":"time"}`)
	waiting.For(t, running, "the work to run")
	s.stop()
	waiting.For(t, notified, "its end")
	refuse := func() {
		t.Helper()
		for _, path := range []string{"/assistant/c", "/assistant/other"} {
			a := s.post(path, clitest.Hello)
			e := s.refused(a, 503, conversation.CodeUnavailable)
			if a.header.Get("Retry-After") == "" || strings.Contains(e.Details, e.Message) {
				t.Errorf("Retry-After %q, %+v", a.header.Get("Retry-After"), e)
			}
		}
	}
	refuse()
	if len(s.ended) != 0 {
		t.Error("the runtime ended although a tool runs")
	}
	close(release)
	s.halt()
	refuse()
	if got := s.objects("assistant", "other"); len(got) != 0 {
		t.Errorf("a refused message left %v", got)
	}
}

// covers: protocol/174
func TestHTTPCorruptLog(t *testing.T) {
	bucket := newBucket(t)
	const path = "/assistant/c"
	s := startStack(t, bucket, noon)
	s.settle(path, s.accepted(path, clitest.Hello))
	s.halt()
	secret := []byte("not a batch, but a secret")
	if err := s.bucket.Put(t.Context(), storage.LogKey(conversation.Address{Agent: "assistant", ID: "c"}.Key(), 0), storage.Bytes(secret)); err != nil {
		t.Fatal(err)
	}
	before := s.objects("assistant", "c")
	s = startStack(t, bucket, noon)
	for _, tt := range []struct{ method, query string }{
		{"GET", ""}, {"GET", "?view=updates&offset=-1"}, {"GET", "?view=updates&offset=-1&live=long-poll"},
		{"GET", "?view=updates&offset=-1&live=sse"}, {"POST", ""}, {"POST", ""},
	} {
		t.Run(tt.method+tt.query, func(t *testing.T) {
			s := *s
			s.t = t
			a := s.send(tt.method, path+tt.query, "application/json", clitest.Hello)
			e := s.refused(a, 500, conversation.CodeInternal)
			if s.logs.With("level=ERROR", "ref="+e.Ref) == "" || strings.Contains(a.body, "log/") || strings.Contains(a.body, "secret") {
				t.Errorf("%s, logged %q", a.body, s.logs.With(e.Ref))
			}
		})
	}
	if d := cmp.Diff(before, s.objects("assistant", "c")); d != "" {
		t.Errorf("the conversation changed (-before +after):\n%s", d)
	}
	// Other conversations are not affected.
	s.settle("/assistant/d", s.accepted("/assistant/d", clitest.Hello))
}

// net/http rejects such a path before the handler runs.
func TestHTTPBrokenEscape(t *testing.T) {
	s := startStack(t, newBucket(t), noon)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /agents/assistant/%zz HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(b), "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain") {
		t.Errorf("%q", b)
	}
}
