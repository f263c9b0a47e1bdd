package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/config"
)

// saying is a value that says itself what it is.
type saying struct{ text string }

func (s saying) LogValue() slog.Value { return slog.GroupValue(slog.String("text", s.text)) }

func TestLogHidesSecrets(t *testing.T) {
	const secret = `to"ps<ecret`
	for name, tell := range map[string]func(*slog.Logger){
		"message":  func(l *slog.Logger) { l.Info("it is " + secret) },
		"text":     func(l *slog.Logger) { l.Info("it", "is", secret) },
		"error":    func(l *slog.Logger) { l.Info("it", "err", fmt.Errorf("call: %w", errors.New(secret))) },
		"bytes":    func(l *slog.Logger) { l.Info("it", "body", []byte(secret)) },
		"list":     func(l *slog.Logger) { l.Info("it", "all", []string{"a", secret}) },
		"struct":   func(l *slog.Logger) { l.Info("it", "conf", config.Auth{Bearer: secret}) },
		"group":    func(l *slog.Logger) { l.Info("it", slog.Group("g", slog.Group("h", "k", secret))) },
		"valuer":   func(l *slog.Logger) { l.Info("it", "is", saying{secret}) },
		"with":     func(l *slog.Logger) { l.With("k", secret).WithGroup("g").Info("it") },
		"in group": func(l *slog.Logger) { l.WithGroup("g").With("a", 1).Info("it", "k", secret) },
		"key":      func(l *slog.Logger) { l.Info("it", secret, 1) },
	} {
		for _, format := range []string{"text", "json"} {
			t.Run(name+" as "+format, func(t *testing.T) {
				var out bytes.Buffer
				hidden := &secrets{}
				log, err := newLogger(&out, format, false, hidden)
				if err != nil {
					t.Fatal(err)
				}
				hidden.add(secret)
				tell(log)
				if got := out.String(); strings.Contains(got, "ecret<") || strings.Contains(got, "ps") || !strings.Contains(got, "[secret]") {
					t.Errorf("the line is %s", got)
				}
			})
		}
	}
}

func TestSecretsOfConfiguration(t *testing.T) {
	hidden := &secrets{}
	hidden.add(secretsOf(&config.Server{
		Bucket: config.Bucket{AccessKey: "access-key", SecretKey: "bucket-key"}, Auth: config.Auth{Bearer: "bearer-token"},
		Events: config.Events{ClickHouse: &config.ClickHouse{Password: "ch-password"}, OTel: &config.OTel{Headers: map[string]string{"a": "otel-header"}}},
	})...)
	err := errors.New("access-key bucket-key bearer-token ch-password otel-header")
	got := hidden.hidden(fmt.Errorf("serve: %w", err))
	if want := "serve: " + strings.TrimSpace(strings.Repeat("[secret] ", 5)); got.Error() != want || !errors.Is(got, err) {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestVendorEchoIsNotWritten has a vendor repeat all of a request in its error, the key
// and the system prompt with it.
func TestVendorEchoIsNotWritten(t *testing.T) {
	const key, prompt, word = "sk-echoed-secret-key", "You keep a secret recipe.", "marzipan"
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"code":"bad_prompt","message":%q}}`, r.Header.Get("Authorization")+" sent "+string(body))
	}))
	defer vendor.Close()
	t.Setenv("OPENAI_API_KEY", key)
	t.Setenv("OPENAI_BASE_URL", vendor.URL)
	dir := t.TempDir()
	file, events := filepath.Join(dir, "parley.yaml"), filepath.Join(dir, "events.jsonl")
	conf := fmt.Sprintf(`
listen: 127.0.0.1:0
bucket: {dir: %q}
events: {jsonl: {file: %q}}
agents:
  shown: {model: openai/m, mounts: [/shown], instructions: %q, events: {content: true}}
  unshown: {model: openai/m, mounts: [/unshown], instructions: %q}
`, filepath.Join(dir, "data"), events, prompt, prompt)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	written := map[string]string{}
	for _, agent := range []string{"unshown", "shown"} {
		n := startProgram(t, "serve", "--quiet", "--config", file)
		n.base = n.base[:strings.LastIndex(n.base, "/")] + "/" + agent
		at := n.url(t, "c")
		r := admitted(t, at, "1", word)
		newReader(t, r.Offset).until(at, r.Offset, settled(r.SubmissionID))
		written["transcript of "+agent] = fmt.Sprint(history(t, at))
		if err := n.end(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		log := n.logs.String()
		written["log of "+agent] = log
		if shown := strings.Contains(log, word) || strings.Contains(log, "recipe"); shown != (agent == "shown") {
			t.Errorf("whether the log of %s repeats the request is %v: %s", agent, shown, log)
		}
		for _, want := range []string{"model call failed", "status 400", "bad_prompt", "bytes of text"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log of %s is %s, want %q in it", agent, log, want)
			}
		}
	}
	said, err := os.ReadFile(events)
	if err != nil || len(said) == 0 {
		t.Fatalf("events: %s, %v", said, err)
	}
	written["events"] = string(said)
	for where, text := range written {
		if strings.Contains(text, key) {
			t.Errorf("%s has the key: %s", where, text)
		}
	}
}
