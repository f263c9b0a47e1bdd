package http_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// TestTranscripts replays testdata/http: whole requests and responses.
//
//	request    the input is a request; its body is one line
//	turn       the agent answers in c1
//	fail       every call fails as the input names: unknown, unavailable
//
// covers: protocol/5, upgrade/24
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/http", func(t *testing.T, path string) {
		h := newHarness(t, func(o *parleyhttp.Options) { o.Dev = strings.HasSuffix(path, "_dev") })
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "request":
				return h.transcript(d.Input)
			case "turn":
				h.turn(c1)
			case "fail":
				var err error = conversation.Unavailable(1500*time.Millisecond, errors.New("no owner"))
				if strings.TrimSpace(d.Input) == "unknown" {
					err = errors.New("password is hunter2")
				}
				h.rt.fail = func(string) error { return err }
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

// transcript sends a request as written and dumps the answer.
func (h *harness) transcript(input string) string {
	h.t.Helper()
	head, body, _ := strings.Cut(input, "\n~\n")
	line, header, _ := strings.Cut(strings.TrimSpace(head), "\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(
		line + " HTTP/1.1\nHost: example.com\n" + header + "\n\n")))
	if err != nil {
		h.t.Fatal(err)
	}
	body = strings.TrimSpace(body)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	dump, err := httputil.DumpResponse(h.serve(r), true)
	if err != nil {
		h.t.Fatal(err)
	}
	out := strings.ReplaceAll(string(dump), "\r\n", "\n")
	return strings.Replace(out, "\n\n", "\n~\n", 1)
}
