package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/sample"
)

// attempt is a request that must not change the bucket. ID is replaced by the conversation in the
// path. Without a code, the response is not an error envelope.
type attempt struct {
	name, method, path, media, body string
	status                          int
	code                            conversation.Code
}

// posts lists admissions that are rejected whether the conversation exists or not.
func posts(agent string) []attempt {
	const invalid = conversation.CodeInvalidRequest
	message := func(more string) string { return `{"kind":"user","body":"x",` + more + `}` }
	image := func(more string) string { return message(`"attachments":[{"type":"image",` + more + `}]`) }
	bodies := map[string]string{
		"bare string": `"hello"`, "array": `[]`, "null": `null`, "nested": `{"message":` + clitest.Hello + `}`, "no kind": `{"body":"x"}`,
		"other kind": `{"kind":"x","body":"x"}`, "no text": `{"kind":"user"}`, "text of another type": `{"kind":"user","body":1}`,
		"no signal type": `{"kind":"signal","body":"x"}`, "empty signal type": `{"kind":"signal","type":"","body":"x"}`,
		"tagName":    `{"kind":"signal","type":"t","body":"x","tagName":"1"}`,
		"attributes": `{"kind":"signal","type":"t","body":"x","attributes":{"a":1}}`,
		"uid":        message(`"uid":1`), "uid and initialData": message(`"uid":"u","initialData":{"repo":"r"}`), "key": message(`"idempotencyKey":""`),
		"long key": message(`"idempotencyKey":"` + strings.Repeat("k", 257) + `"`), "attachments": message(`"attachments":{}`),
		"attachment type": message(`"attachments":[{"type":"file","mimeType":"a/b","data":"eA=="}]`), "no data": image(`"mimeType":"a/b"`),
		"empty data": image(`"mimeType":"a/b","data":""`), "no mimeType": image(`"data":"eA=="`), "mimeType": image(`"mimeType":"a\n/b","data":"eA=="`),
		"base64": image(`"mimeType":"a/b","data":"e"`), "filename": image(`"mimeType":"a/b","data":"eA==","filename":1`),
		"17 attachments": message(`"attachments":[` + strings.Repeat(`{"type":"image","mimeType":"a/b","data":"eA=="},`, 16) +
			`{"type":"image","mimeType":"a/b","data":"eA=="}]`),
		"long text": `{"kind":"user","body":"` + strings.Repeat("x", 4<<20+1) + `"}`,
		"long data": message(`"initialData":"` + strings.Repeat("x", 4<<20) + `"`),
	}
	path := agent + "/ID"
	list := []attempt{
		{"wait", "POST", path + "?wait", clitest.JSONType, clitest.Hello, 400, invalid},
		{"text/plain", "POST", path, "text/plain", clitest.Hello, 415, conversation.CodeUnsupportedMediaType},
		{"no media type", "POST", path, "", clitest.Hello, 415, conversation.CodeUnsupportedMediaType},
		{"empty body", "POST", path, clitest.JSONType, "", 400, conversation.CodeInvalidJSON},
		{"cut body", "POST", path, clitest.JSONType, strings.TrimSuffix(clitest.Hello, "}"), 400, conversation.CodeInvalidJSON},
		{"two bodies", "POST", path, clitest.JSONType, clitest.Hello + clitest.Hello, 400, conversation.CodeInvalidJSON},
		{"uid of another", "POST", path, clitest.JSONType, message(`"uid":"inst_other"`), 404, conversation.CodeInstanceNotFound},
		{"uid of another with an image", "POST", path, clitest.JSONType, message(`"uid":"inst_other","attachments":[{"type":"image","mimeType":"a/b","data":"eA=="}]`), 404,
			conversation.CodeInstanceNotFound},
		{"blank id", "POST", agent + "/%20", clitest.JSONType, clitest.Hello, 400, invalid},
		{"long id", "POST", agent + "/" + strings.Repeat("a", 513), clitest.JSONType, clitest.Hello, 400, invalid},
		{"other agent", "POST", "/nobody/ID", clitest.JSONType, clitest.Hello, 404, conversation.CodeRouteNotFound},
		{"trailing slash", "POST", path + "/", clitest.JSONType, clitest.Hello, 404, conversation.CodeRouteNotFound},
		{"below", "POST", path + "/none", clitest.JSONType, clitest.Hello, 404, conversation.CodeRouteNotFound},
	}
	for name, body := range bodies {
		list = append(list, attempt{name, "POST", path, clitest.JSONType, body, 400, invalid})
	}
	return list
}

// others lists requests of other routes that are always rejected.
func others(agent string) []attempt {
	path := agent + "/ID"
	var list []attempt
	for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS"} {
		for _, below := range []string{"", "/abort", "/attachments/x"} {
			list = append(list, attempt{method + below, method, path + below, clitest.JSONType, clitest.Hello, 405, conversation.CodeMethodNotAllowed})
		}
	}
	list = append(list,
		attempt{"GET abort", "GET", path + "/abort", "", "", 405, conversation.CodeMethodNotAllowed},
		attempt{"HEAD abort", "HEAD", path + "/abort", "", "", 405, ""},
		attempt{"POST attachment", "POST", path + "/attachments/x", clitest.JSONType, clitest.Hello, 405, conversation.CodeMethodNotAllowed},
		attempt{"HEAD attachment", "HEAD", path + "/attachments/x", "", "", 405, ""},
		attempt{"abort of a blank id", "POST", agent + "/%20/abort", "", "", 400, conversation.CodeInvalidRequest},
	)
	for _, query := range []string{
		"view=", "view=x", "tail", "live=sse", "offset=-1", "view=updates", "view=updates&offset=x", "view=updates&offset=-1&offset=-1",
		"view=updates&offset=-1&tail=1", "view=updates&offset=-1&live=x",
	} {
		list = append(list, attempt{"GET " + query, "GET", path + "?" + query, "", "", 400, conversation.CodeInvalidRequest})
	}
	return list
}

// large lists requests that are rejected late: in or after a large image.
func large(agent, photo string) []attempt {
	const invalid, absent = conversation.CodeInvalidRequest, conversation.CodeInstanceNotFound
	with := func(data, more string) string {
		return `{"kind":"user","body":"look","attachments":[{"type":"image","mimeType":"image/png","data":"` + data + `"}]` + more + `}`
	}
	path, whole := agent+"/ID", with(photo, "")
	return []attempt{
		{"image, uid of another", "POST", path, clitest.JSONType, with(photo, `,"uid":"inst_other"`), 404, absent},
		{"image, uid and initialData", "POST", path, clitest.JSONType, with(photo, `,"uid":"u","initialData":1`), 400, invalid},
		{"image, base64 wrong at its end", "POST", path, clitest.JSONType, with(photo[:len(photo)-8]+"*"+photo[len(photo)-7:], ""), 400, invalid},
		{"image, then a wrong one", "POST", path, clitest.JSONType, strings.Replace(whole, `}]`, `},{"type":"image","mimeType":"image/png","data":"e"}]`, 1), 400, invalid},
		{"image, JSON cut", "POST", path, clitest.JSONType, strings.TrimSuffix(whole, "}"), 400, conversation.CodeInvalidJSON},
		{"image over the limit", "POST", path, clitest.JSONType, with(strings.Repeat("A", 14_680_068), ""), 400, invalid},
	}
}

// leavesNothing makes every attempt at a conversation and compares the bucket.
func (s *stack) leavesNothing(t *testing.T, id string, list []attempt) {
	t.Helper()
	for _, a := range list {
		t.Run(a.name, func(t *testing.T) {
			s := *s
			s.t = t
			before := s.stored()
			got := s.send(a.method, strings.Replace(a.path, "ID", id, 1), a.media, a.body)
			if a.code != "" {
				s.refused(got, a.status, a.code)
			} else if got.status != a.status {
				t.Errorf("status %d, want %d: %s", got.status, a.status, got.body)
			}
			if d := cmp.Diff(before, s.stored()); d != "" {
				t.Errorf("the bucket changed (-before +after):\n%s", d)
			}
		})
	}
}

// All rejected requests without a conversation store nothing but the format stamp.
// covers: protocol/33, protocol/43, protocol/83, protocol/190
func TestHTTPRejectionsCreateNoConversation(t *testing.T) {
	bucket := newBucket(t)
	s := startStack(t, bucket, noon)
	const id, agent = "new", "/strict"
	before := s.stored()
	if len(before) != 1 {
		t.Fatalf("a new bucket has %v", before)
	}
	photo := base64.StdEncoding.EncodeToString(clitest.Photo(sample.Of(10<<20, 1<<20)))
	s.leavesNothing(t, id, posts(agent))
	s.leavesNothing(t, id, others(agent))
	s.leavesNothing(t, id, large(agent, photo))
	path := agent + "/ID"
	list := []attempt{
		{"no initialData", "POST", path, clitest.JSONType, clitest.Hello, 400, conversation.CodeInvalidRequest},
		{"initialData", "POST", path, clitest.JSONType, `{"kind":"user","body":"x","initialData":{"repo":1}}`, 400, conversation.CodeInvalidRequest},
		{"initialData of an image", "POST", path, clitest.JSONType, `{"kind":"user","body":"x","initialData":7,"attachments":[{"type":"image","mimeType":"image/png","data":"` +
			photo + `"}]}`, 400, conversation.CodeInvalidRequest},
		{"initialData, must not exist", "POST", path, clitest.JSONType, `{"kind":"user","body":"x","uid":null}`, 400, conversation.CodeInvalidRequest},
		{"HEAD", "HEAD", path, "", "", 404, ""},
		{"abort", "POST", path + "/abort", "", "", 200, ""},
	}
	for _, below := range []string{
		"", "?view=updates&offset=-1", "?view=updates&offset=-1&live=long-poll", "?view=updates&offset=-1&live=sse", "/attachments/att_x",
		"?view=updates&offset=0000000000000000_0000000000000000",
	} {
		list = append(list, attempt{"GET " + below, "GET", path + below, "", "", 404, conversation.CodeStreamNotFound})
	}
	s.leavesNothing(t, id, list)
	s.tooLong(agent + "/" + id)
	if d := cmp.Diff(before, s.stored()); d != "" {
		t.Errorf("all in all, the bucket changed (-before +after):\n%s", d)
	}
}

// The requests do not change an existing conversation either, on a node that has not written it.
// covers: protocol/43, protocol/190
func TestHTTPRejectionsKeepConversation(t *testing.T) {
	bucket := newBucket(t)
	const id, agent, path = "kept", "/strict", "/strict/ID"
	first := startStack(t, bucket, noon)
	const keyed = `{"kind":"user","body":"x","initialData":{"repo":"r"},"idempotencyKey":"k"}`
	r := first.accepted(agent+"/"+id, keyed)
	if got := first.settle(agent+"/"+id, r); got != conversation.OutcomeCompleted {
		t.Fatalf("the first message is %s", got)
	}
	first.halt()

	s := startStack(t, bucket, noon)
	before := s.do("GET", agent+"/"+id)
	photo := base64.StdEncoding.EncodeToString(clitest.Photo(sample.Of(10<<20, 1<<20)))
	s.leavesNothing(t, id, posts(agent))
	s.leavesNothing(t, id, others(agent))
	image := `"attachments":[{"type":"image","mimeType":"image/png","data":"` + photo + `"}]}`
	beyond := (clitest.Into[conversation.Snapshot](t, before.body).Offset + 1).String()
	s.leavesNothing(t, id, []attempt{
		{"must not exist", "POST", path, clitest.JSONType, `{"kind":"user","body":"x","uid":null}`, 409, conversation.CodeInstanceExists},
		{"image, uid of another", "POST", path, clitest.JSONType, `{"kind":"user","body":"x","uid":"inst_other",` + image, 404, conversation.CodeInstanceNotFound},
		{"image, must not exist", "POST", path, clitest.JSONType, `{"kind":"user","body":"x","uid":null,` + image, 409, conversation.CodeInstanceExists},
		{"other payload", "POST", path, clitest.JSONType, strings.Replace(keyed, `"x"`, `"y"`, 1), 409, conversation.CodeSubmissionConflict},
		{"image, other payload", "POST", path, clitest.JSONType, strings.TrimSuffix(keyed, "}") + "," + image, 409, conversation.CodeSubmissionConflict},
		{"other payload, must not exist", "POST", path, clitest.JSONType, strings.Replace(keyed, `"x"`, `"y","uid":null`, 1), 409, conversation.CodeSubmissionConflict},
		{"replay", "POST", path, clitest.JSONType, keyed, 202, ""},
		{"beyond the head", "GET", path + "?view=updates&offset=" + beyond, "", "", 500, conversation.CodeStreamStoreFailure},
		{"attachment", "GET", path + "/attachments/att_x", "", "", 404, conversation.CodeAttachmentNotFound},
		{"abort", "POST", path + "/abort", "", "", 200, ""},
	})
	s.tooLong(agent + "/" + id)
	if after := s.do("GET", agent+"/"+id); after.body != before.body {
		t.Errorf("the conversation was\n%s\nand is\n%s", before.body, after.body)
	}
}

// tooLong announces a body over the limit of 256 MiB. The response must not wait for it.
func (s *stack) tooLong(path string) {
	s.t.Helper()
	before := s.stored()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(clitest.Timeout)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /agents%s HTTP/1.1\r\nHost: h\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n{", path, clitest.JSONType, 256<<20+1); err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Content-Type") != clitest.JSONType {
		s.t.Errorf("status %d, %v", resp.StatusCode, resp.Header)
	}
	if d := cmp.Diff(before, s.stored()); d != "" {
		s.t.Errorf("the bucket changed (-before +after):\n%s", d)
	}
}
