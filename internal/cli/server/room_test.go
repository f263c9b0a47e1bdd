package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// sent posts a body and returns the response.
func sent(t *testing.T, at *url.URL, body string) (*http.Response, string) {
	t.Helper()
	resp, err := http.Post(at.String(), clitest.JSONType, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// The volume fills up while a message is answered. New work is rejected before any of it is stored,
// repeated messages are answered, and work in progress is settled.
func TestNoRoomForNewWork(t *testing.T) {
	conf := named("echo")
	conf.Bucket.Dir = t.TempDir()
	n, err := newConfigured(t.Context(), conf, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, manner{program: &cli.Program{}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	<-n.runtime.Ready()
	var short atomic.Bool
	allow := func(int64) error {
		if short.Load() {
			return &local.NoRoomError{Folder: conf.Bucket.Dir}
		}
		return nil
	}
	handler, err := parleyhttp.New(&admitting{n.runtime, allow}, n.runtime.Reader(), []parleyhttp.Mount{{Path: "/echo", Agent: "echo"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	at, err := url.Parse(server.URL + "/echo/x")
	if err != nil {
		t.Fatal(err)
	}
	first := clitest.Admitted(t, at, "k1", "long 20")
	short.Store(true)
	image := base64.StdEncoding.EncodeToString([]byte("image"))
	for name, body := range map[string]string{
		"message":    `{"kind":"user","body":"x","idempotencyKey":"k2"}`,
		"attachment": `{"kind":"user","body":"x","idempotencyKey":"k3","attachments":[{"type":"image","mimeType":"image/png","data":"` + image + `"}]}`,
		"long":       `{"kind":"user","body":"` + strings.Repeat("x", 1<<19) + `","idempotencyKey":"k4"}`,
	} {
		resp, text := sent(t, at, body)
		e := clitest.Into[struct{ Error clitest.Refusal }](t, text).Error
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "30" ||
			e.Type != string(conversation.CodeUnavailable) || !strings.Contains(e.Details, "disk space") {
			t.Errorf("%s: %d %v %s", name, resp.StatusCode, resp.Header, text)
		}
	}
	if again := clitest.Admitted(t, at, "k1", "long 20"); again.SubmissionID != first.SubmissionID {
		t.Errorf("repeated as %+v, was %+v", again, first)
	}
	client := clitest.NewReader(t, first.Offset)
	client.Until(at, first.Offset, clitest.Settled(first.SubmissionID))
	if got := clitest.Settlements(clitest.History(t, at), first.SubmissionID); !cmp.Equal(got, []conversation.Outcome{conversation.OutcomeCompleted}) {
		t.Errorf("settlements are %v", got)
	}
	page, err := n.bucket.List(t.Context(), storage.ListQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range page.Keys {
		if strings.Contains(k.Key, "/blob/") {
			t.Errorf("%s was stored", k.Key)
		}
	}
	short.Store(false)
	clitest.Admitted(t, at, "k2", "x")
	server.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
}

// The reserve is larger than the volume.
func TestServeKeepsAReserve(t *testing.T) {
	dir, at := t.TempDir(), noderun.Refusing(t)
	file := clitest.EchoConfig(t, dir, clitest.DirBucket(dir), fmt.Sprintf("admin: {listen: %q}", at), "limits: {reserveBytes: 9_000_000_000_000_000_000}")
	n := program.Start(t, "serve", "--quiet", "--config", file)
	if resp, text := sent(t, n.URL(t, "x"), clitest.Hello); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	_, text := fetch(t, "http://"+at+"/metrics")
	for _, want := range []string{
		`parley_volume_refusals_total{folder="data"} 1`, `parley_volume_reserve_bytes{folder="data"} 9e+18`,
		`parley_volume_free_bytes{folder="spool"} `, "\nparley_spool_bytes 0\n", "\nparley_ready 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
	if logs := n.Logs.String(); !strings.Contains(logs, "volume reserve reached") || !strings.Contains(logs, filepath.Join(dir, "data")) {
		t.Error(logs)
	}
}

// After the data folder of a running node is deleted, no message is acknowledged, and the process ends
// with an error.
func TestDeletedFolderEndsTheNode(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	n := program.StartDev(t, data)
	at := n.URL(t, "x")
	clitest.Admitted(t, at, "k1", "hello")
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Post(at.String(), clitest.JSONType, strings.NewReader(clitest.Hello)); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusAccepted {
			t.Error("a message was acknowledged after the folder was deleted")
		}
	}
	err := n.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(n.Logs.String(), "restore it from a backup") {
		t.Errorf("ended with %v\n%s", err, n.Logs)
	}
}
