package clusterrun_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

// forgedNodes returns a client of nodes that give the answers of a test in order, regardless of the
// node.
func forgedNodes(t *testing.T, answers ...http.HandlerFunc) *client {
	t.Helper()
	next := make(chan http.HandlerFunc, len(answers))
	for _, a := range answers {
		next <- a
	}
	close(next)
	c := &client{&cluster{Fleet: &noderun.Fleet{Client: noderun.NewClient(answerWithin)}}}
	for i := range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if a, ok := <-next; ok {
				a(w, r)
				return
			}
			t.Errorf("unexpected request %s %s", r.Method, r.URL)
		}))
		t.Cleanup(s.Close)
		c.nodes = append(c.nodes, &node{Node: &noderun.Node{NodeOptions: noderun.NodeOptions{Number: i, HTTP: s.Listener.Addr().String()}}})
	}
	t.Cleanup(c.Client.Close)
	return c
}

func answers(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func hangsUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

const (
	offsetFive = "0000000000000000_0000000000000005"
	offsetNine = "0000000000000000_0000000000000009"
)

func TestSend(t *testing.T) {
	receipt := func(offset, more string) http.HandlerFunc {
		return answers(202, `{"offset":"`+offsetFive+`","submissionId":"sub_1","uid":"inst_1"`+more+`}`, "Stream-Next-Offset", offset)
	}
	busy := answers(503, "{}", "Retry-After", "2")
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		tries   int
		want    string
	}{
		"at once":                    {[]http.HandlerFunc{receipt(offsetFive, "")}, 1, ""},
		"after trouble":              {[]http.HandlerFunc{busy, hangsUp, busy, receipt(offsetFive, `,"deduplicated":true`)}, 4, ""},
		"the header differs":         {[]http.HandlerFunc{receipt(offsetNine, "")}, 1, "but header has"},
		"busy without a time":        {[]http.HandlerFunc{answers(503, "{}")}, 1, "without Retry-After"},
		"another error than 503":     {[]http.HandlerFunc{busy, answers(500, `{"error":{}}`)}, 2, "status 500"},
		"a conflict with itself":     {[]http.HandlerFunc{answers(409, `{"error":{}}`)}, 1, "status 409"},
		"an answer that is not JSON": {[]http.HandlerFunc{answers(202, `<html>`)}, 1, "receipt"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSent("k", "tokens=1")
			err := forgedNodes(t, c.answers...).send(t.Context(), rand.New(rand.NewPCG(1, 2)), "x", m)
			switch {
			case c.want == "" && (err != nil || m.Receipt == nil || m.Tries != c.tries):
				t.Errorf("error %v, receipt %v, %d tries", err, m.Receipt, m.Tries)
			case c.want != "" && (!noderun.Broken(err) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want a violation with %q", err, c.want)
			}
		})
	}
}

func TestLooks(t *testing.T) {
	sends := func(key string) string {
		return `{"id":"m","role":"user","parts":[{"type":"text","text":"` + secret + key + ` tokens=1","state":"done"}]}`
	}
	chunk := func(batch int, rest string) string {
		return fmt.Sprintf(`{"conversationId":"c","position":{"batch":%d,"index":0},%s}`, batch, rest)
	}
	appended := chunk(7, `"type":"message-appended","message":`+sends("k2"))
	reset := chunk(8, `"type":"conversation-reset","snapshot":{"v":1,"offset":"`+offsetFive+`","messages":[`+sends("k1")+`,`+sends("k2")+`]}`)
	later := chunk(9, `"type":"message-appended","message":`+sends("k3"))
	for name, c := range map[string]struct {
		list  string
		keys  string
		whole bool
		want  string
	}{
		"nothing":           {"[]", "[]", false, ""},
		"a message":         {"[" + appended + "]", "[k2]", false, ""},
		"a reset begins it": {"[" + appended + "," + reset + "," + later + "]", "[k1 k2 k3]", true, ""},
		"out of order":      {"[" + reset + "," + appended + "]", "", false, "comes after"},
		"before the offset": {"[" + chunk(5, `"type":"message-completed"`) + "]", "", false, "comes after"},
	} {
		t.Run(name, func(t *testing.T) {
			client := forgedNodes(t, answers(200, c.list, "Stream-Next-Offset", offsetNine, "Stream-Up-To-Date", "true"))
			l, _, err := client.updates(t.Context(), client.nodes[1], "x", 5)
			if c.want != "" {
				if !noderun.Broken(err) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want a violation with %q", err, c.want)
				}
				return
			}
			if err != nil || fmt.Sprint(l.Keys) != c.keys || l.Whole != c.whole || !l.UpToDate || l.Next != 9 || l.After != 5 || !l.At || l.Node != 1 {
				t.Errorf("got %+v, %v; want the keys %s", l, err, c.keys)
			}
		})
	}
	missing := answers(404, `{"error":{"type":"stream_not_found"}}`)
	client := forgedNodes(t, missing, missing, missing)
	if l, err := client.snapshot(t.Context(), client.nodes[0], "x"); err != nil || l.Next != conversation.Start || !l.UpToDate || l.At {
		t.Errorf("snapshot of a missing conversation: %+v, %v", l, err)
	}
	if l, _, err := client.updates(t.Context(), client.nodes[0], "x", conversation.Start); err != nil || l.Next != conversation.Start || l.At {
		t.Errorf("updates of a missing conversation: %+v, %v", l, err)
	}
	if _, _, err := client.updates(t.Context(), client.nodes[0], "x", 5); !noderun.Broken(err) {
		t.Errorf("updates after an offset of a missing conversation: %v", err)
	}
}

// A reader follows over broken connections and checks the chunks.
func TestReader(t *testing.T) {
	chunk := func(batch, index int, text string) string {
		return fmt.Sprintf(`{"type":"message-delta","messageId":"m","kind":"text","delta":%q,"position":{"batch":%d,"index":%d}}`, text, batch, index)
	}
	stream := func(frames ...string) http.HandlerFunc { return answers(200, strings.Join(frames, "")) }
	data := func(chunks ...string) string { return "event: data\ndata:[" + strings.Join(chunks, ",") + "]\n\n" }
	control := func(offset string) string {
		return "event: control\ndata:{\"streamNextOffset\":\"" + offset + "\",\"upToDate\":true}\n\n"
	}
	one, two, three := chunk(5, 0, "a"), chunk(5, 1, "b"), chunk(9, 0, "c")
	end := answers(400, "the test is over")
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		seen    int
		want    string
	}{
		"in one": {[]http.HandlerFunc{stream(data(one, two), control(offsetFive), ": heartbeat\n\n", data(three), control(offsetNine)), end}, 3, "over"},
		"over breaks": {[]http.HandlerFunc{
			answers(503, "{}", "Retry-After", "2"), stream(data(one, two)), hangsUp, stream(data(one, two), control(offsetFive)), stream(data(three), control(offsetNine)), end,
		}, 3, "over"},
		"half a frame does not count": {[]http.HandlerFunc{stream("event: data\ndata:[" + one + "]\n"), stream(data(one, two), control(offsetFive)), end}, 2, "over"},
		"an unknown offset":           {[]http.HandlerFunc{answers(404, "{}")}, 0, "status 404"},
	} {
		t.Run(name, func(t *testing.T) {
			client := forgedNodes(t, c.answers...)
			r := newReader(client, rand.New(rand.NewPCG(1, 1)), "x", 2)
			ctx, cancel := context.WithTimeout(t.Context(), liveness)
			defer cancel()
			r.follow(ctx)
			flaws := strings.Join(client.All(), "\n")
			s := r.Sight("")
			if len(s.Chunks) != c.seen || !strings.Contains(flaws, c.want) {
				t.Errorf("got %d chunks and %q, want %d and %q", len(s.Chunks), flaws, c.seen, c.want)
			}
			if c.seen == 3 && (len(s.Marks) != 2 || s.Marks[1].Offset != 9 || s.To != 9) {
				t.Errorf("the marks are %v", s.Marks)
			}
		})
	}
}
