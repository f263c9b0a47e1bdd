package actors_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/inspect"
	"github.com/parleyrun/parley/storage/local"
)

var keep = flag.Bool("keep", false, "write testdata/kept anew: what this version leaves behind, for later ones to go on with")

// maxKeptBytes bounds each file in testdata/kept.
const maxKeptBytes = 200 << 10

// keptDelay is how long after its end the work of a kept process continues, by the wall clock of the
// new process. Everything that waits for a time is due by then.
const keptDelay = 24 * time.Hour

// kept describes the bucket of a crashed process.
type kept struct {
	Made          int64 // By its wall clock, in milliseconds since 1970.
	Conversations []keptConversation
}

// keptConversation is a conversation as its readers saw it.
type keptConversation struct {
	At      conversation.Address
	Head    conversation.Offset
	Chunks  string // SHA-256 of the chunks up to Head.
	Settled int    // Number of settled submissions.
	Owed    int    // Number of unsettled submissions.
}

// keptFile returns the path of a kept bucket: a folder of the embedded store, or the objects of a
// shared bucket.
func keptFile(form string) string { return filepath.Join("testdata", "kept", form+".zip") }

// TestKeptBucketsContinue opens buckets of an earlier version, a folder and a shared one, with work
// running, queued and pending. Conversations look unchanged, each submission settles once, and every
// conversation continues.
func TestKeptBucketsContinue(t *testing.T) {
	for _, form := range []string{"folder", "bucket"} {
		t.Run(form, func(t *testing.T) {
			if *keep {
				writeForm(t, form)
				return // Its waits take a while.
			}
			t.Parallel()
			was, w := openKept(t, form)
			w.checkConsistent("before")
			sink := &keptSink{takes: true}
			o := keptOptions(sink)
			o.AppendTimeout, o.DrainTimeout = 0, 0 // They were short for the crashed process.
			n := w.build(setup{opts: o, model: keptModel(), shared: form == "bucket"})
			began := time.Now()
			n.rt.SetWall(func() time.Time { return time.UnixMilli(was.Made).Add(keptDelay).Add(time.Since(began)) })
			n.serves(n.run())
			for _, c := range was.Conversations {
				if got := n.chunksUpTo(c.At, c.Head); got != c.Chunks {
					t.Errorf("%s: readers get another view than before", c.At.ID)
				}
			}
			for _, c := range was.Conversations {
				w.untilSettled(c.At, c.Settled+c.Owed)
				n.admit(c.At, "kept", "hello again")
				w.completesOnce(c.At, c.Settled+c.Owed+1)
			}
			w.until("the journals of the kept process to be deleted", func() bool {
				for key := range w.listing() {
					if root, _, _ := strings.Cut(key, "/"); (root == "pending" || root == "export") && !strings.Contains(key, n.rt.Status().Member) {
						return false
					}
				}
				return true
			})
			if err := n.stop(); err != nil {
				t.Error(err)
			}
			if sink.count() == 0 {
				t.Error("got no events at the sink")
			}
			w.checkConsistent("after")
		})
	}
}

// checkConsistent fails the test if the bucket is inconsistent.
func (w *world) checkConsistent(when string) {
	w.tb.Helper()
	_, err := inspect.Verify(w.tb.Context(), w.bucket, inspect.Scope{}, nil, func(f inspect.Finding) {
		if f.Severity != inspect.Note {
			w.tb.Errorf("%s: %s %s at %s: %s", when, f.Severity, f.Kind, f.Key, f.Text)
		}
	})
	if err != nil {
		w.tb.Fatal(err)
	}
}

// completesOnce waits until n submissions of a conversation have settled, each once and the last as
// completed.
func (w *world) completesOnce(at conversation.Address, n int) {
	w.tb.Helper()
	got := w.untilSettled(at, n)
	once := map[conversation.SubmissionID]bool{}
	for _, s := range got {
		once[s.Submission] = true
	}
	if len(got) != n || len(once) != n || got[n-1].Outcome != conversation.OutcomeCompleted {
		w.tb.Errorf("%s has %d settlements of %d submissions, want %d; the last is %+v", at.ID, len(got), len(once), n, got[len(got)-1])
	}
}

// chunksUpTo returns a digest of the chunks of a conversation up to an offset, independent of pages.
func (n *node) chunksUpTo(at conversation.Address, head conversation.Offset) string {
	n.w.tb.Helper()
	sum := sha256.New()
	for after := conversation.Start; after < head; {
		page, err := n.rt.Reader().Updates(context.Background(), at, after, 1)
		if err != nil {
			n.w.tb.Fatal(err)
		}
		body, err := page.Bytes(context.Background())
		if err != nil {
			n.w.tb.Fatal(err)
		}
		var chunks []json.RawMessage
		if err := json.Unmarshal(body, &chunks); err != nil {
			n.w.tb.Fatal(err)
		}
		for _, c := range chunks {
			fmt.Fprintf(sum, "%s\n", c)
		}
		after = page.Next
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// openKept unpacks a kept bucket and returns its description.
func openKept(t *testing.T, form string) (kept, *world) {
	t.Helper()
	files := map[string][]byte{}
	r, err := zip.OpenReader(keptFile(form))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		_ = in.Close()
	}
	_ = r.Close()
	var was kept
	if err := json.Unmarshal(files["seen.json"], &was); err != nil {
		t.Fatal(err)
	}
	delete(files, "seen.json")
	if form == "bucket" {
		store := local.NewMemory()
		for key, data := range files {
			if err := store.Put(t.Context(), key, storage.Bytes(data)); err != nil {
				t.Fatal(err)
			}
		}
		return was, newWorldOver(t, store)
	}
	dir := t.TempDir()
	for name, data := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return was, newWorldOver(t, openFolder(t, dir))
}

func openFolder(t *testing.T, dir string) *local.Store {
	t.Helper()
	store, err := local.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// writeForm runs a process of this version, crashes it, and stores its bucket.
func writeForm(t *testing.T, form string) {
	dir := t.TempDir()
	store := local.NewMemory()
	if form == "folder" {
		store = openFolder(t, dir)
	}
	w := newWorldOver(t, store)
	seen, err := json.MarshalIndent(w.keptWork(form == "bucket"), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"seen.json": append(seen, '\n')}
	if form == "bucket" {
		for key := range w.listing() {
			if files[key], err = w.bucket.Get(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[name], err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write(files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if out.Len() > maxKeptBytes {
		t.Fatalf("%s has %d bytes, of at most %d", form, out.Len(), maxKeptBytes)
	}
	if err := os.WriteFile(keptFile(form), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes, %d files", form, out.Len(), len(files))
}
