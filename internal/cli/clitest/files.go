package clitest

import (
	"embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers/catalog"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// Keys lists a bucket.
func Keys(t *testing.T, b storage.Bucket, prefix string) []string {
	t.Helper()
	page, err := b.List(t.Context(), storage.ListQuery{Prefix: prefix})
	if err != nil || page.More {
		t.Fatal(err, page.More)
	}
	var all []string
	for _, k := range page.Keys {
		all = append(all, k.Key)
	}
	return all
}

// OnFolder opens the bucket of a folder while look runs.
func OnFolder(t *testing.T, dir string, use func(storage.Bucket)) {
	t.Helper()
	store, err := local.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	use(store)
}

// WithoutKeys clears the environment variables that hold keys or base URLs.
func WithoutKeys(t *testing.T) {
	t.Helper()
	t.Setenv("OPENAI_BASE_URL", "")
	t.Setenv("ANTHROPIC_BASE_URL", "")
	for _, file := range []string{"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"} {
		t.Setenv(file, os.DevNull)
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, p := range catalog.Builtin() {
		for _, k := range p.EnvKeys {
			t.Setenv(k.Name, "")
		}
		for _, set := range p.EnvSets {
			for _, name := range set {
				t.Setenv(name, "")
			}
		}
	}
}

// Photo returns n pseudo-random bytes.
func Photo(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b) // never fails
	return b
}

// JSONType is the media type of messages, and Hello is a message.
const (
	JSONType = "application/json"
	Hello    = `{"kind":"user","body":"hello"}`
)

// NewStore returns a backend that outlives the stacks over it.
func NewStore(t *testing.T) *local.Store {
	return waiting.ToClose(t, local.NewMemory())
}

// Into decodes JSON.
func Into[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

//go:embed testdata/events.jsonl
var files embed.FS

// Events returns the events of two submissions: one with a tool, a lost attempt and a retried model
// call, and one that failed.
func Events(t *testing.T) (list []observability.Event) {
	t.Helper()
	lines, err := files.ReadFile("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		list = append(list, Into[observability.Event](t, line))
	}
	return list
}

// Refusal is the member error of a response of the protocol.
type Refusal struct {
	Type, Message, Details, Ref, Dev string
	Meta                             map[string]any
}

// Write creates a file in a temporary folder and returns its name.
func Write(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// EchoConfig writes a configuration with a free port, preceded by more lines.
func EchoConfig(t *testing.T, dir string, more ...string) string {
	t.Helper()
	return Write(t, filepath.Join(dir, "parley.yaml"), strings.Join(more, "\n")+`
listen: 127.0.0.1:0
agents:
  echo:
    mounts: [/agents/echo]
    model: demo/parrot
    instructions: You are terse.
`)
}

// DirBucket returns the bucket line of a configuration for the folder data of dir.
func DirBucket(dir string) string {
	return fmt.Sprintf("bucket: {dir: %q}", filepath.Join(dir, "data"))
}
