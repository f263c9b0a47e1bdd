package http_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// letters yields n times an "A" without allocating.
type letters struct{ n int64 }

func (l *letters) Read(p []byte) (int, error) {
	if l.n == 0 {
		return 0, io.EOF
	}
	k := min(int64(len(p)), l.n)
	for i := range k {
		p[i] = 'A'
	}
	l.n -= k
	return int(k), nil
}

// TestLargeAttachmentIsNeverInMemory admits 10 MiB of image, 14 MB on the wire, and bounds all
// allocations.
func TestLargeAttachmentIsNeverInMemory(t *testing.T) {
	const size = 10 << 20 / 3 * 3
	h := newHarness(t, nil)
	var during []string
	h.rt.onStage = func(b conversation.Blob) {
		during, _ = filepath.Glob(filepath.Join(h.temp, "*"))
		sum := sha256.New()
		n, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{b.Content}, make([]byte, 32<<10))
		if err != nil || n != size || b.Size != size || hex.EncodeToString(sum.Sum(nil)) != b.Digest {
			t.Errorf("staged %d bytes of %d, %v", n, b.Size, err)
		}
		if _, err := b.Content.Seek(0, io.SeekStart); err != nil {
			t.Error(err)
		}
	}
	body := io.MultiReader(
		strings.NewReader(`{"kind":"user","body":"x","attachments":[{"type":"image","mimeType":"image/png","data":"`),
		&letters{size / 3 * 4}, strings.NewReader(`"}]}`))
	r := newPost("/c1", body)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := h.serve(r)
	runtime.ReadMemStats(&after)
	wantStatus(t, res, 202)
	if got := after.TotalAlloc - before.TotalAlloc; got > 3<<20 {
		t.Errorf("allocated %d bytes", got)
	}
	if got := h.leftovers(); got != nil {
		t.Errorf("got leftovers %v", got)
	}
	if runtime.GOOS == "linux" && during != nil {
		t.Errorf("got named files %v during the request", during)
	}
}

func TestSpoolSizes(t *testing.T) {
	body := withAttachments(`,"initialData":{"a":[1,"\u00e9"]}`, pngJSON)
	for _, memory := range []int{1, 2, 63, len(body) - 1, len(body), len(body) + 1} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			h := newHarness(t, func(o *parleyhttp.Options) { o.MemoryBytes = memory })
			wantStatus(t, h.post("/c1", body), 202)
			a := h.rt.admissions[0]
			if a.Delivery.Body != "look" || string(a.InitialData) != `{"a":[1,"\u00e9"]}` || len(h.rt.blobs) != 1 {
				t.Errorf("got admission %+v", a)
			}
			if got := h.leftovers(); got != nil {
				t.Errorf("got leftovers %v", got)
			}
		})
	}
}

func TestManyAttachmentsInFiles(t *testing.T) {
	h := newHarness(t, nil)
	var parts []string
	for i := range 16 {
		data := strings.Repeat(string(rune('A'+i)), 128<<10)
		parts = append(parts, `{"type":"image","mimeType":"image/png","data":"`+data+`"}`)
	}
	wantStatus(t, h.post("/c1", withAttachments("", parts...)), 202)
	if len(h.rt.blobs) != 16 {
		t.Errorf("%d blobs", len(h.rt.blobs))
	}
	// The last attachment is rejected after fifteen are decoded.
	parts[15] = strings.Replace(parts[15], `P"}`, `*"}`, 1)
	h.rt.calls = nil
	wantError(t, h.post("/c1", withAttachments("", parts...)), 400, conversation.CodeInvalidRequest)
	if got := h.leftovers(); got != nil || h.rt.calls != nil {
		t.Errorf("got leftovers %v, runtime calls %v", got, h.rt.calls)
	}
}

// TestInvalidUTF8IsRefused places an invalid byte in each position of a body. The error has its
// offset, and nothing is admitted.
func TestInvalidUTF8IsRefused(t *testing.T) {
	for _, tt := range []struct{ path, body, place string }{
		{"/agents/assistant/c1", "{\"kind\":\"user\",\"body\":\"a\xff\"}", "byte 24"},
		{"/agents/assistant/c1", "{\"kind\":\"user\",\"body\":\"a\",\"initialData\":\"\xc3\"}", "byte 41"},
		{"/agents/assistant/c1", "{\"kind\":\"user\",\"body\":\"a\",\"other\":\"\xed\xa0\x80\"}", "byte 35"},
		{"/agents/assistant/c1", "{\"\xff\":1,\"kind\":\"user\",\"body\":\"a\"}", "byte 2"},
		{"/agents/assistant/c1", "{\"kind\":\"user\",\"body\":\"a\"}\xe6\x97", "byte 26"},
		{"/beta/agents/assistant/c1", "{\"message\":\"\xff\"}", "byte 12"},
		{"/workflows/report", "\"\xff\"", "byte 1"},
		{"/beta/workflows/report", "\"\xff\"", "byte 1"},
	} {
		h := newRuns(t, nil)
		e := wantError(t, h.beta("POST", tt.path, tt.body), 400, conversation.CodeInvalidJSON)
		if !strings.Contains(e.Details, "not valid UTF-8 at "+tt.place+".") || h.rt.admissions != nil {
			t.Errorf("POST %s %q: details %q, want %s; admitted %v", tt.path, tt.body, e.Details, tt.place, h.rt.admissions)
		}
	}
}

// TestContentEncoding checks that a compressed body is 415 on each route with a body.
func TestContentEncoding(t *testing.T) {
	for coding, want := range map[string]string{"gzip": "gzip", "GZIP": "GZIP", "br": "br", "identity, deflate": "deflate", "identity": "", "Identity": "", "": ""} {
		for path, body := range map[string]string{
			"/agents/assistant/c1": hello, "/beta/agents/assistant/c1": `{"message":"x"}`, "/workflows/report": `{}`, "/beta/workflows/report": `{}`,
		} {
			h := newRuns(t, nil)
			res := h.beta("POST", path, body, "Content-Encoding", coding)
			if want == "" {
				wantStatus(t, res, http.StatusAccepted)
				continue
			}
			if e := wantError(t, res, http.StatusUnsupportedMediaType, conversation.CodeUnsupportedMediaType); !strings.Contains(e.Details, `Content-Encoding "`+want+`"`) {
				t.Errorf("POST %s, Content-Encoding %q: details %q, want %q in it", path, coding, e.Details, want)
			}
		}
	}
}

func TestTempDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ variable, option, want string }{
		"default":          {filepath.Join(dir, "none"), "", filepath.Join(dir, "none")},
		"option":           {dir, filepath.Join(dir, "none"), filepath.Join(dir, "none")},
		"file":             {dir, file, file},
		"usable":           {dir, "", ""},
		"usable_by_option": {filepath.Join(dir, "none"), dir, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", tt.variable)
			rt := newRuntime()
			_, err := parleyhttp.New(rt, rt, nil, &parleyhttp.Options{TempDir: tt.option})
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "set TMPDIR")):
				t.Errorf("got error %v, want %s and the remedy in it", err, tt.want)
			}
		})
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.tmp")); err != nil || left != nil {
		t.Errorf("got files %v, %v; want none", left, err)
	}
}

// TestTempDirGoes checks that a missing folder is a transient failure.
func TestTempDirGoes(t *testing.T) {
	large := withAttachments("", fmt.Sprintf(`{"type":"image","mimeType":"image/png","data":"%s"}`, strings.Repeat("AAAA", 100<<10)))
	for name, bound := range map[string]int{"body": 1, "attachment": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			temp := filepath.Join(t.TempDir(), "temp")
			if err := os.Mkdir(temp, 0o700); err != nil {
				t.Fatal(err)
			}
			h := newHarness(t, func(o *parleyhttp.Options) { o.TempDir, o.MemoryBytes = temp, bound })
			if err := os.Remove(temp); err != nil {
				t.Fatal(err)
			}
			res := h.post("/c1", large)
			wantError(t, res, 503, conversation.CodeUnavailable)
			if res.Header.Get("Retry-After") != "5" || h.rt.wrote() != nil {
				t.Errorf("got Retry-After %q, wrote %v; want 5 and nothing", res.Header.Get("Retry-After"), h.rt.wrote())
			}
			if err := os.Mkdir(temp, 0o700); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, h.post("/c1", large), http.StatusAccepted)
		})
	}
}
