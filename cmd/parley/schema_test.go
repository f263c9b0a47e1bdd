package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// maxHostilePeak bounds the memory of the program while callers send data that is expensive to
// validate, in bytes.
const maxHostilePeak = 300 << 20

// A few bytes for which a schema has exponentially many branches are sent, concurrently with megabytes
// of invalid items.
// covers: protocol/28
func TestMemoryOfHostileInitialData(t *testing.T) {
	lean(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "parley.yaml")
	conf := fmt.Sprintf(`
listen: 127.0.0.1:0
bucket: {dir: %q}
agents:
  branches: {model: demo/parrot, mounts: [/branches], initialData: {anyOf: [{type: array, items: {$ref: "#"}}, {type: array, items: {$ref: "#"}, minItems: 1}]}}
  items: {model: demo/parrot, mounts: [/items], initialData: {items: {type: string}}}
`, filepath.Join(dir, "data"))
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startProgram(t, "serve", "--quiet", "--config", file)
	host := n.Base[:strings.LastIndex(n.Base, "/")]

	post := func(path, data string) (int, string) {
		body := strings.NewReader(`{"kind":"user","body":"x","initialData":` + data + `}`)
		resp, err := http.Post(host+path, "application/json", body)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, string(answer)
	}
	deep := strings.Repeat("[", 36) + "1" + strings.Repeat("]", 36)
	long := "[" + strings.Repeat("12345678,", 4<<20/9-8) + "0]"
	for i := range 2 {
		var posts sync.WaitGroup // as many as are validated concurrently
		for _, hostile := range []struct{ path, data, want string }{
			{"/branches/b%d", deep, "initialData: takes more than "},
			{"/items/i%d", long, "initialData: "},
		} {
			posts.Go(func() {
				status, answer := post(fmt.Sprintf(hostile.path, i), hostile.data)
				if status != http.StatusBadRequest || !strings.Contains(answer, hostile.want) || len(answer) > 4000 {
					t.Errorf("status %d, want 400 and %q: %.500s", status, hostile.want, answer)
				}
			})
		}
		posts.Wait()
	}
	if status, answer := post("/items/good", `["a"]`); status != http.StatusAccepted {
		t.Errorf("afterwards: status %d: %s", status, answer)
	}
	t.Logf("peak RSS in MiB: %d", n.peakWithin(maxHostilePeak)>>20)
}
