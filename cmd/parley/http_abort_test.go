package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
)

// slowPace makes "long 10000" last longer than any test waits.
const slowPace = 10 * time.Millisecond

// awaitMessage long-polls until the agent has written text.
func (s *stack) awaitMessage(path string, after conversation.Offset) {
	s.t.Helper()
	next := after.String()
	for {
		a := s.do("GET", path+"?view=updates&live=long-poll&offset="+next)
		if a.status != http.StatusOK {
			s.t.Fatalf("long-poll: %d %s", a.status, a.body)
		}
		for _, c := range clitest.Into[[]conversation.Chunk](s.t, a.body) {
			if c.Type == conversation.ChunkDelta {
				return
			}
		}
		next = a.header.Get("Stream-Next-Offset")
	}
}

// aborted posts an abort and checks the whole response.
func (s *stack) aborted(path string, want bool) {
	s.t.Helper()
	a := s.do("POST", path+"/abort")
	a.header.Del("Date")
	body := fmt.Sprintf(`{"aborted":%t}`, want)
	header := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {fmt.Sprint(len(body))},
		"X-Content-Type-Options": {"nosniff"}, "Cross-Origin-Resource-Policy": {"cross-origin"},
	}
	if d := cmp.Diff(header, a.header); a.status != http.StatusOK || a.body != body || d != "" {
		s.t.Errorf("abort: %d %s, want %s\n%s", a.status, a.body, body, d)
	}
}

// wantAborted checks the end of submissions in a snapshot: one settlement and one advisory each, and
// no open part.
func wantAborted(t *testing.T, snap conversation.Snapshot, want ...conversation.SubmissionID) {
	t.Helper()
	var settled, advised []conversation.SubmissionID
	for _, x := range snap.Settlements {
		if x.Outcome == conversation.OutcomeAborted && x.Error != nil && x.Error.Type == conversation.CodeAborted {
			settled = append(settled, x.SubmissionID)
		}
	}
	for _, m := range snap.Messages {
		if m.Purpose == conversation.PurposeAdvisory && m.Display == conversation.DisplayDiagnostic && m.Role == conversation.RoleSystem {
			advised = append(advised, m.SubmissionID)
		}
		for _, p := range m.Parts {
			if p.State == conversation.StateStreaming || p.State == conversation.StateInputAvailable {
				t.Errorf("message %s has an open part %+v", m.ID, p)
			}
		}
	}
	if d := cmp.Diff(want, settled); d != "" {
		t.Errorf("settled as aborted (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, advised); d != "" {
		t.Errorf("advisories (-want +got):\n%s", d)
	}
}

// TestHTTPAbort aborts a running submission and two queued ones.
// covers: protocol/3, protocol/51, protocol/64, protocol/92, protocol/131, protocol/132, protocol/134, protocol/169
// covers: protocol/171
func TestHTTPAbort(t *testing.T) {
	bucket := newBucket(t)
	s := startPaced(t, bucket, noon, slowPace)
	const path = "/assistant/a%2Fb"
	s.aborted(path, false)
	if got := s.objects("assistant", "a/b"); len(got) != 0 {
		t.Errorf("the abort of nothing left %v", got)
	}
	running := s.accepted(path, `{"kind":"user","body":"long 10000"}`)
	s.awaitMessage(path, running.Offset)
	queued := []clitest.Receipt{s.accepted(path, clitest.Hello), s.accepted(path, `{"kind":"signal","type":"t","body":"x"}`)}
	s.aborted(path, true)
	for _, r := range append(queued, running) {
		if got := s.settle(path, r); got != conversation.OutcomeAborted {
			t.Errorf("submission %s is %s", r.SubmissionID, got)
		}
	}
	head := s.snapshot(path).Offset
	s.aborted(path, false)
	raw := s.do("GET", path).body
	snap := clitest.Into[conversation.Snapshot](t, raw)
	if snap.Offset != head {
		t.Errorf("the abort of nothing moved the head from %s to %s", head, snap.Offset)
	}
	wantAborted(t, snap, running.SubmissionID, queued[0].SubmissionID, queued[1].SubmissionID)
	var kept []string
	for _, m := range snap.Messages {
		if m.Purpose == conversation.PurposeAssistant {
			kept = append(kept, *m.Parts[0].Text)
		}
	}
	if len(kept) != 1 || !strings.HasPrefix(kept[0]+" ", "1 ") {
		t.Errorf("got text %q, want the text before the abort", kept)
	}
	s.halt()
	s = startStack(t, bucket, noon)
	if d := cmp.Diff(raw, s.do("GET", path).body); d != "" {
		t.Errorf("another node shows something else:\n%s", d)
	}
	s.aborted(path, false)
	if got := s.settle(path, s.accepted(path, clitest.Hello)); got != conversation.OutcomeCompleted {
		t.Errorf("the next message is %s", got)
	}
}

// TestHTTPAbortInTool aborts while a tool runs: its part becomes an error.
// covers: protocol/3
func TestHTTPAbortInTool(t *testing.T) {
	running := make(chan struct{})
	s := startStack(t, newBucket(t), func(ctx context.Context, _ clockInput) (clockOutput, error) {
		close(running)
		<-ctx.Done()
		return clockOutput{}, ctx.Err()
	})
	const path = "/assistant/c"
	r := s.accepted(path, `{"kind":"user","body":"time"}`)
	waiting.For(t, running, "the work to run")
	s.aborted(path, true)
	if got := s.settle(path, r); got != conversation.OutcomeAborted {
		t.Errorf("the submission is %s", got)
	}
	snap := s.snapshot(path)
	wantAborted(t, snap, r.SubmissionID)
	last := snap.Messages[1].Parts[len(snap.Messages[1].Parts)-1]
	if last.Type != conversation.PartTypeTool || last.State != conversation.StateOutputError || *last.ErrorText == "" {
		t.Errorf("the tool's part is %+v", last)
	}
}

// A draining node does not accept aborts.
func TestHTTPAbortWhileDraining(t *testing.T) {
	s := startStack(t, newBucket(t), noon)
	const path = "/assistant/c"
	s.settle(path, s.accepted(path, clitest.Hello))
	s.halt()
	a := s.do("POST", path+"/abort")
	s.refused(a, 503, conversation.CodeUnavailable)
	if a.header.Get("Retry-After") == "" {
		t.Error("got no Retry-After")
	}
}

// attach sends attachments and returns their ids.
func (s *stack) attach(path string, contents ...[]byte) []conversation.AttachmentID {
	s.t.Helper()
	var parts []string
	for _, c := range contents {
		parts = append(parts, fmt.Sprintf(`{"type":"image","mimeType":"image/png","filename":"a.png","data":%q}`, base64.StdEncoding.EncodeToString(c)))
	}
	s.settle(path, s.accepted(path, `{"kind":"user","body":"look","attachments":[`+strings.Join(parts, ",")+`]}`))
	var ids []conversation.AttachmentID
	for _, p := range s.snapshot(path).Messages[0].Parts {
		if p.Type == conversation.PartTypeFile {
			ids = append(ids, p.ID)
		}
	}
	if len(ids) != len(contents) {
		s.t.Fatalf("ids %v of %d attachments", ids, len(contents))
	}
	return ids
}

// Attachments are downloaded unchanged, also from a node that never wrote the conversation.
// covers: protocol/77, protocol/136, protocol/137, protocol/139
func TestHTTPDownload(t *testing.T) {
	bucket := newBucket(t)
	writing, other := startStack(t, bucket, noon), startStack(t, bucket, noon)
	const path = "/assistant/a%2Fb"
	contents := [][]byte{clitest.Photo(1), clitest.Photo(64 << 10), clitest.Photo(3<<20 + 1), clitest.Photo(1)}
	ids := writing.attach(path, contents...)
	foreign := writing.attach("/assistant/d", clitest.Photo(2))[0]
	for _, s := range []*stack{writing, other} {
		for i, id := range ids {
			a := s.do("GET", fmt.Sprintf("%s/attachments/%s?x=y", path, id))
			a.header.Del("Date")
			want := http.Header{
				"Content-Type": {"image/png"}, "Content-Length": {fmt.Sprint(len(contents[i]))}, "Content-Disposition": {"inline"},
				"Cache-Control": {"private, max-age=31536000, immutable"}, "Content-Security-Policy": {"sandbox"},
				"X-Content-Type-Options": {"nosniff"}, "Cross-Origin-Resource-Policy": {"cross-origin"},
			}
			if d := cmp.Diff(want, a.header); a.status != http.StatusOK || d != "" {
				t.Errorf("%d, header (-want +got):\n%s", a.status, d)
			}
			if a.body != string(contents[i]) {
				t.Errorf("attachment %d: %d bytes are not the %d that were sent", i, len(a.body), len(contents[i]))
			}
		}
		for _, id := range []string{string(foreign), "att_none", "%20", "%FF", "a%2Fb", ".."} {
			s.refused(s.do("GET", path+"/attachments/"+id), 404, conversation.CodeAttachmentNotFound)
		}
		for _, conv := range []string{"/assistant/nobody", "/strict/a%2Fb"} {
			s.refused(s.do("GET", conv+"/attachments/"+string(ids[0])), 404, conversation.CodeStreamNotFound)
		}
	}
}

// Bytes that do not match their digest never arrive as a complete response.
// covers: protocol/196
func TestHTTPCorruptAttachment(t *testing.T) {
	bucket := newBucket(t)
	s := startStack(t, bucket, noon)
	const path = "/assistant/c"
	small, large := clitest.Photo(10), clitest.Photo(1<<20)
	ids := s.attach(path, small, large)
	key := conversation.Address{Agent: "assistant", ID: "c"}.Key()
	for _, content := range [][]byte{small, large} {
		name := storage.BlobKey(key, storage.Bytes(content).SHA256)
		corrupt := append([]byte("x"), content[1:]...)
		if err := s.bucket.Put(t.Context(), name, storage.Bytes(corrupt)); err != nil {
			t.Fatal(err)
		}
	}
	s = startStack(t, bucket, noon)
	e := s.refused(s.do("GET", path+"/attachments/"+string(ids[0])), 500, conversation.CodeAttachmentIntegrity)
	if s.logs.With("level=ERROR", "ref="+e.Ref) == "" {
		t.Errorf("no line of the log has ref %s", e.Ref)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/agents"+path+"/attachments/"+string(ids[1]), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	// A reader may detect the corruption before the first byte or after it.
	n, err := io.Copy(io.Discard, resp.Body)
	if resp.StatusCode == http.StatusOK && (!errors.Is(err, io.ErrUnexpectedEOF) || n >= int64(len(large))) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if s.logs.With("level=ERROR", "ref=err_", string(ids[1])) == "" {
		t.Error("the log lacks the large attachment")
	}
}
