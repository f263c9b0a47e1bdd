package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
)

func request(t *testing.T, method, url, token, body string) (int, []byte, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Token", token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b, resp.Header
}

// start runs the program and returns the URL of its conversations.
func start(t *testing.T) (base string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var logs bytes.Buffer
	ended := make(chan int, 1)
	data := t.TempDir() // create it first, so that it is removed last
	go func() {
		ended <- newProgram().Run(ctx, []string{"dev", "--quiet", "--listen", "127.0.0.1:0", "--data", data}, w, &logs)
		w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("got exit %d, %s", code, &logs)
		}
	})
	line := make([]byte, 1024)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(line[:n])) + "/"
}

func TestQuickstart(t *testing.T) {
	base := start(t)
	at := base + "room%2F7"
	const hello = `{"kind":"user","body":"time","initialData":{"name":"Ada"}}`
	if status, body, _ := request(t, "POST", at, "wrong", hello); status != http.StatusUnauthorized {
		t.Errorf("without the token: got %d %s", status, body)
	}
	if status, body, _ := request(t, "POST", at, "open-sesame", `{"kind":"user","body":"x","initialData":{"age":7}}`); status != http.StatusBadRequest {
		t.Errorf("invalid initial data: got %d %s", status, body)
	}
	hours, _ := url.JoinPath(base, "../../../hours")
	if status, body, _ := request(t, "GET", hours, "open-sesame", ""); status != http.StatusOK || !strings.Contains(string(body), "6 to 23") {
		t.Errorf("additional handler: got %d %s", status, body)
	}
	status, body, header := request(t, "POST", at, "open-sesame", hello)
	if status != http.StatusAccepted || header.Get("Location") != at {
		t.Fatalf("admission: got %d %s at %s", status, body, header.Get("Location"))
	}
	next := header.Get("Stream-Next-Offset")
	deadline := time.Now().Add(time.Minute)
	for settled := false; !settled && time.Now().Before(deadline); {
		status, body, header := request(t, "GET", at+"?view=updates&live=long-poll&offset="+next, "open-sesame", "")
		if status != http.StatusOK {
			t.Fatalf("updates: got %d %s", status, body)
		}
		next, settled = header.Get("Stream-Next-Offset"), bytes.Contains(body, []byte(`"submission-settled"`))
	}
	_, body, _ = request(t, "GET", at, "open-sesame", "")
	var snap conversation.Snapshot
	if err := json.Unmarshal(body, &snap); err != nil {
		t.Fatal(err)
	}
	reply := snap.Messages[len(snap.Messages)-1]
	var types []string
	for _, p := range reply.Parts {
		types = append(types, p.Type)
	}
	if got := strings.Join(types, " "); got != "text dynamic-tool data-clock text" {
		t.Errorf("got parts %s", got)
	}
}
