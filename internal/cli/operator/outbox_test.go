package operator

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
)

// receiver receives and verifies webhooks.
type receiver struct {
	wh   *standardwebhooks.Webhook
	mu   sync.Mutex
	gone bool
	got  []string // ids of verified webhooks
	fail error
	came chan struct{}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = r.wh.Verify(body, req.Header)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail = err; err != nil || !strings.Contains(string(body), `"type":"submission.settled"`) {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	if r.gone {
		w.WriteHeader(http.StatusGone)
		return
	}
	r.got = append(r.got, req.Header.Get("webhook-id"))
	select {
	case r.came <- struct{}{}:
	default:
	}
}

// takes makes the receiver accept webhooks.
func (r *receiver) takes() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = false
}

// In JSON the key of a conversation has the same name everywhere.
func TestConversationInJSON(t *testing.T) {
	var deadLetters, quarantine strings.Builder
	cfg := &outboxConfig{logConfig: logConfig{json: true}}
	if err := cfg.list(&deadLetters, []storage.DeadLetter{{Conv: "c0ffee"}}); err != nil {
		t.Fatal(err)
	}
	(&findingPrinter{out: &quarantine, json: true}).quarantined(storage.Quarantine{Conv: "c0ffee"})
	for command, out := range map[string]string{"outbox list": deadLetters.String(), "log quarantine": quarantine.String()} {
		if !strings.Contains(out, `"conversation":"c0ffee"`) || strings.Contains(out, `"conv"`) {
			t.Errorf("%s --json: got %s, want the key as conversation", command, out)
		}
	}
}

// A server notifies a webhook of settlements. Posts that the webhook rejects are listed, resent and
// dropped while the server runs.
func TestOutbox(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{wh: wh, gone: true, came: make(chan struct{}, 1)}
	hook := httptest.NewServer(r)
	t.Cleanup(hook.Close)
	store := clitest.NewStore(t)
	endpoint := httptest.NewServer(s3front.New(store))
	t.Cleanup(endpoint.Close)
	file := clitest.Write(t, t.TempDir()+"/parley.yaml", fmt.Sprintf(`
listen: 127.0.0.1:0
bucket: {endpoint: %q, name: parley, secure: false}
webhooks: {targets: {ledger: {urlEnv: HOOK_URL, secretEnv: HOOK_SECRET, private: true}}}
agents: {echo: {mounts: [/agents/echo], model: demo/parrot, notify: [ledger]}}
`, endpoint.Listener.Addr().String()))
	n := program.With("HOOK_URL="+hook.URL+"/in/secret-path", "HOOK_SECRET="+secret).Start(t, "serve", "--quiet", "--config", file)
	for _, id := range []string{"a", "b%2Fc"} {
		sent := clitest.Admitted(t, n.URL(t, id), "k", "hello")
		clitest.NewReader(t, sent.Offset).Until(n.URL(t, id), sent.Offset, clitest.Settled(sent.SubmissionID))
	}
	keys := func() []string { return clitest.Keys(t, store, "deadletter/") }
	await := func(old string) {
		for deadline := time.Now().Add(clitest.Timeout); len(keys()) < 2 || slices.Contains(keys(), old); <-time.After(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("got dead letters %q and receiver error %v\n%s", keys(), r.fail, n.Logs.With("post"))
			}
		}
	}
	await("")
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, errOut := program.Output(t, append(args, "--config", file)...)
		if code != want {
			t.Fatalf("%q: exit %d, %s%s", args, code, out, errOut)
		}
		return out + errOut
	}
	list := run(0, "outbox", "list")
	for _, want := range []string{" to ledger, dead letter since ", "after 1 attempt\n", `"a" of agent "echo", batch `, "target returned status 410", "2 dead letters\n"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	waiting.Until(t, "the log line of the dead letter", func() bool { return n.Logs.With("dead letter stored", "agent=echo id=a", "batch=") != "" })
	if leak := n.Logs.With("secret-path"); leak != "" || strings.Contains(list, "secret-path") {
		t.Errorf("the log has %q", leak)
	}
	if out := run(0, "log", "verify"); !strings.Contains(out, "resend or drop it with parley outbox") {
		t.Errorf("verify prints\n%s", out)
	}
	deadLetters := clitest.Into[storage.DeadLetter](t, strings.SplitN(run(0, "outbox", "list", "--json", "--agent", "echo", "--id", "b/c"), "\n", 2)[0])
	server := "http://" + strings.Split(strings.TrimPrefix(n.Base, "http://"), "/")[0]
	old := storage.DeadLetterKey(deadLetters)
	run(0, "outbox", "resend", "--server", server, string(deadLetters.Post)) // It fails again and leaves another dead letter.
	await(old)
	r.takes()
	if out := run(0, "outbox", "resend", "--server", server, string(deadLetters.Post)); out != "resent "+string(deadLetters.Post)+"\n" {
		t.Errorf("resend prints %q", out)
	}
	waiting.For(t, r.came, "a post")
	r.mu.Lock()
	if len(r.got) != 1 || r.got[0] != string(deadLetters.Post) {
		t.Errorf("the receiver has %q, want %s", r.got, deadLetters.Post)
	}
	r.mu.Unlock()
	if out := run(1, "outbox", "drop", string(deadLetters.Post)); !strings.Contains(out, "has no dead letter") {
		t.Errorf("drop of a resent post prints %q", out)
	}
	if out := run(0, "outbox", "drop", "--all") + run(0, "outbox", "drop", "--all"); !strings.HasPrefix(out, "dropped post_") || !strings.HasSuffix(out, "\n0 dead letters\n") || len(keys()) != 0 {
		t.Errorf("drop prints %q, %q are left", out, keys())
	}
	for _, wrong := range wrongOutbox(server) {
		run(1, wrong...)
	}
}

// wrongOutbox returns invalid command lines.
func wrongOutbox(server string) [][]string {
	one := func(more ...string) []string {
		return append([]string{"outbox", "resend", "--agent", "echo", "--id", "a", "--post", "x"}, more...)
	}
	return [][]string{
		{"outbox", "drop"}, {"outbox", "resend"}, {"outbox", "drop", "post_x"}, {"outbox", "resend", "post_x", "--agent", "echo", "--id", "nobody"}, {"outbox", "resend", "--all", "x"}, {"outbox", "resend", "--post", "x", "--batch", "1"},
		one("--server", "ftp://x", "--batch", "1"), one("--server", server, "--batch", "99"), one("--server", server, "--batch", "1", "--all"),
	}
}
