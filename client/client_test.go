package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

func TestNewRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"":                               "not http or https",
		"hello":                          "not http or https",
		"ftp://h/agents/a/x":             "not http or https",
		"http:///agents/a/x":             "no host",
		"http://h":                       "no id",
		"http://h/":                      "no id",
		"http://h//":                     "no id",
		"http://h/a/x?view=history":      "query",
		"http://h/a/x?":                  "query",
		"http://h/a/x#top":               "fragment",
		"http://h/a/%zz":                 "escape",
		"http://user:secret@h/a/x?a=b":   "query",
		"http://user:secret@h:port/a/x":  "port",
		"http://user:secret@h\x7f/a/x":   "control",
		"https://user:secret@h/a/x#here": "fragment",
	} {
		_, err := client.New(url, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "looks like http") {
			t.Errorf("%q: error %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error leaks the password: %v", url, err)
		}
	}
	for _, o := range []client.Options{
		{Live: "websocket"}, {Tries: -1}, {MaxAnswerBytes: -1}, {Quiet: -1}, {FirstPause: -1}, {LastPause: -1},
		{AnswerWithin: -1}, {SSEAgain: -1},
	} {
		if _, err := client.New("http://h/a/x", &o); err == nil {
			t.Errorf("invalid %+v was accepted", o)
		}
	}
}

func TestURLs(t *testing.T) {
	for given, want := range map[string]string{
		"http://h/agents/a/hello":            "http://h/agents/a/hello",
		"http://h:81/agents/a/hello/":        "http://h:81/agents/a/hello",
		"https://h/a%2Fb":                    "https://h/a%2Fb",
		"http://h/x/a%2fb%20c":               "http://h/x/a%2fb%20c",
		"http://h/x/%E6%9D%B1":               "http://h/x/%E6%9D%B1",
		"http://h/x/東":                       "http://h/x/%E6%9D%B1",
		"http://h/x/%2E%2E":                  "http://h/x/%2E%2E",
		client.JoinID("http://h/x", "a/b"):   "http://h/x/a%2Fb",
		client.JoinID("http://h/x/", "東/ ?"): "http://h/x/%E6%9D%B1%2F%20%3F",
		client.JoinID("http://h/x", ".."):    "http://h/x/%2E%2E",
		client.JoinID("http://h/x", "..."):   "http://h/x/...",
	} {
		c, err := client.New(given, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := c.URL(); got != want {
			t.Errorf("%q: url %q, want %q", given, got, want)
		}
		if got := c.AttachmentURL("att_1/x"); got != want+"/attachments/att_1%2Fx" {
			t.Errorf("%q: attachment url %q", given, got)
		}
	}
}

// TestOddIDs uses every route with ids that need escaping.
func TestOddIDs(t *testing.T) {
	s := newServer(t)
	seen := map[conversation.UID]string{}
	for _, id := range []string{"a/b", "a%2Fb", "東京/😀", " ", "../..", "...", "a?b#c", "e\u0301", "\u00e9", "a b+c", "abort", "x/abort"} {
		if id == " " {
			id = " a " // blank ids are rejected
		}
		c := s.open(id, nil)
		receipt := send(t, c, client.Message{
			Body: "hello", IfAbsent: true, Attachments: []client.Attachment{{MimeType: "image/png", Data: []byte("png")}},
		})
		if other, ok := seen[receipt.UID]; ok {
			t.Errorf("%q and %q name the same conversation", id, other)
		}
		seen[receipt.UID] = id
		if receipt.StreamURL != c.URL() {
			t.Errorf("%q: got server URL %s, client URL %s", id, receipt.StreamURL, c.URL())
		}
		if _, err := c.Wait(withPatience(t), receipt); err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		snap, err := c.History(withPatience(t))
		if err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		content, err := c.Attachment(withPatience(t), snap.Messages[0].Parts[1].ID)
		if err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		content.Close()
		if _, err := c.Abort(withPatience(t)); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		if head, err := c.Head(withPatience(t)); err != nil || head != snap.Offset {
			t.Errorf("%q: head %v, %v", id, head, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	s := newServer(t)
	got := make(chan string, 10)
	s.watch(func(r *http.Request) {
		got <- r.Method + " " + r.Header.Get("Authorization") + " " + r.Header.Get("Traceparent")
	})
	calls := 0
	c := s.open("hello", &client.Options{Token: "first"})
	_, _ = c.History(withPatience(t))
	c = s.open("hello", &client.Options{Token: "first", Header: func(context.Context) (http.Header, error) {
		calls++
		if calls == 2 {
			return nil, errors.New("no token today")
		}
		return http.Header{"authorization": {"Bearer second"}, "Traceparent": {"00-1"}}, nil
	}})
	receipt := send(t, c, client.Message{Body: "hello"})
	if _, err := c.Wait(withPatience(t), receipt); err == nil || !strings.Contains(err.Error(), "no token today") {
		t.Errorf("got error %v", err)
	}
	for _, want := range []string{"GET Bearer first ", "POST Bearer second 00-1"} {
		if have := <-got; have != want {
			t.Errorf("request %q, want %q", have, want)
		}
	}
}

func TestHistoryAndHeadOfAbsent(t *testing.T) {
	c := newServer(t).open("nobody", nil)
	var rejected *client.Error
	if _, err := c.History(withPatience(t)); !errors.As(err, &rejected) || rejected.Status != 404 ||
		rejected.Type != conversation.CodeStreamNotFound || rejected.Message == "" || rejected.Details == "" {
		t.Errorf("history: %v", err)
	}
	rejected = nil
	if _, err := c.Head(withPatience(t)); !errors.As(err, &rejected) || rejected.Status != 404 || rejected.Type != "" {
		t.Errorf("head: %v", err)
	}
	if aborted, err := c.Abort(withPatience(t)); err != nil || aborted {
		t.Errorf("abort: %v, %v", aborted, err)
	}
}

// TestReadsAreRepeated reads while the server is down and comes back.
func TestReadsAreRepeated(t *testing.T) {
	s := newServer(t)
	away := make(chan struct{}, 100)
	o := &client.Options{Tries: 1 << 20, Retrying: func(error) {
		select {
		case away <- struct{}{}:
		default:
		}
	}}
	c := s.open("hello", o)
	ask(t, c, client.Message{Body: "hello"})
	for name, read := range map[string]func() error{
		"history": func() error { _, err := c.History(withPatience(t)); return err },
		"head":    func() error { _, err := c.Head(withPatience(t)); return err },
	} {
		s.halt()
		done := make(chan error, 1)
		go func() { done <- read() }()
		select {
		case <-away:
		case err := <-done:
			t.Fatalf("%s ended while the server was down: %v", name, err)
		case <-time.After(patience):
			t.Fatal("Retrying was not called")
		}
		s.start()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAbortIsNotRepeated loses the response of an abort.
func TestAbortIsNotRepeated(t *testing.T) {
	tries := 0
	lost := errors.New("lost")
	c := open(t, "http://127.0.0.1/a/x", &client.Options{HTTPClient: over(func(r *http.Request) (*http.Response, error) {
		tries++
		return nil, lost
	})})
	if _, err := c.Abort(withPatience(t)); !errors.Is(err, lost) || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

// TestAbortTree checks the request header and the decoded result.
func TestAbortTree(t *testing.T) {
	part := conversation.TreeRef{Root: conversation.Address{Agent: "desk", ID: "1"}, Submission: "sub_9"}
	for body, want := range map[string]conversation.TreeAborted{
		`{"aborted":true,"conversations":2,"partOf":[{"root":{"agent":"desk","id":"1"},"submission":"sub_9"}]}`: {Aborted: true, Conversations: 2, PartOf: []conversation.TreeRef{part}},
		`{"aborted":false,"conversations":0}`: {},
		`{"conversations":1}`:                 {},
	} {
		extent := ""
		c := open(t, "http://127.0.0.1/a/x", &client.Options{HTTPClient: over(func(r *http.Request) (*http.Response, error) {
			extent = r.Header.Get("Parley-Abort")
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})})
		got, err := c.AbortTree(withPatience(t))
		if d := cmp.Diff(want, got); d != "" || extent != "tree" || (err != nil) != !strings.Contains(body, `"aborted"`) {
			t.Errorf("%s: %v, header %q\n%s", body, err, extent, d)
		}
	}
}
