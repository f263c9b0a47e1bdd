package storage_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// checkpointed is a log of three batches with a checkpoint of two pages.
type checkpointed struct {
	t      *testing.T
	bucket storage.Bucket
	logs   *storage.Logs
	conv   conversation.Key
	want   storage.Checkpoint
	pages  [][]byte
}

func newCheckpointed(t *testing.T) *checkpointed {
	t.Helper()
	b := memory(t)
	c := &checkpointed{t: t, bucket: b, logs: storage.NewLogs(b, nil), conv: keyOf("x")}
	w := c.logs.Writer(c.conv, "w1", storage.Start(), 1)
	for i := range 3 {
		c.want.At = mustAppend(t, w, fmt.Sprintf("{\"n\":%d}\n", i))
	}
	c.want.Claims, c.want.Writers = []storage.Claim{{Seq: 0, Nonce: "w1"}}, 1
	c.want.State, c.want.Tail = []byte(`{"head":2}`), []byte("{}\n[]\n")
	for n, content := range []string{"first page\n", "second page\n"} {
		ref, err := c.logs.PutPage(t.Context(), c.conv, n, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		c.want.Pages = append(c.want.Pages, ref)
		c.pages = append(c.pages, []byte(content))
	}
	c.put()
	return c
}

// put stores the wanted checkpoint after the newest.
func (c *checkpointed) put() {
	c.t.Helper()
	before, err := c.logs.Checkpoint(c.t.Context(), c.conv)
	if err == nil {
		err = c.logs.PutCheckpoint(c.t.Context(), c.conv, &c.want, before)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// keys returns the keys of a kind of object.
func (c *checkpointed) keys(kind string) []string {
	c.t.Helper()
	page, err := c.bucket.List(c.t.Context(), storage.ListQuery{})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, k := range page.Keys {
		if strings.Contains(k.Key, "/"+kind) {
			out = append(out, k.Key)
		}
	}
	return out
}

func TestCheckpoint(t *testing.T) {
	c := newCheckpointed(t)
	if none, err := c.logs.Checkpoint(t.Context(), keyOf("other")); none != nil || err != nil {
		t.Errorf("without one: %+v, %v", none, err)
	}
	got, err := c.logs.Checkpoint(t.Context(), c.conv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&c.want, got, cmpopts.IgnoreUnexported(storage.Checkpoint{})); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
	for i, ref := range got.Pages {
		content, err := c.logs.Page(t.Context(), c.conv, ref)
		if err != nil || !bytes.Equal(content, c.pages[i]) {
			t.Errorf("page %d: got %q, %v", i, content, err)
		}
	}
	w := c.logs.Writer(c.conv, "w2", c.want.At, 2)
	for i := range 5 {
		c.want.At = mustAppend(t, w, "{}\n")
		c.want.Claims, c.want.Writers = []storage.Claim{{Seq: 0, Nonce: "w1"}, {Seq: 3, Nonce: "w2"}}, 2
		c.put()
		c.put() // the same again
		if got, err = c.logs.Checkpoint(t.Context(), c.conv); err != nil || got.At != c.want.At {
			t.Errorf("checkpoint %d: %+v, %v", i, got, err)
		}
		if n := len(c.keys("ckpt/")); n != 2 {
			t.Errorf("got %d stored checkpoints, want 2", n)
		}
	}
}

// TestCheckpointIsNotTrusted corrupts each object. Every read then returns an error after which the
// log is folded.
func TestCheckpointIsNotTrusted(t *testing.T) {
	for kind, name := range map[string]string{"head": "", "ckpt/": "checkpoint", "page/": "page"} {
		for how, spoil := range map[string]func(context.Context, storage.Bucket, string) error{
			"deleted": func(ctx context.Context, b storage.Bucket, key string) error { return b.Delete(ctx, key) },
			"cut": func(ctx context.Context, b storage.Bucket, key string) error {
				data, err := b.Get(ctx, key)
				return errors.Join(err, b.Put(ctx, key, storage.Bytes(data[:len(data)/2])))
			},
			"changed": func(ctx context.Context, b storage.Bucket, key string) error {
				data, err := b.Get(ctx, key)
				data[len(data)/2] ^= 1
				return errors.Join(err, b.Put(ctx, key, storage.Bytes(data)))
			},
		} {
			t.Run(kind+how, func(t *testing.T) {
				c := newCheckpointed(t)
				if err := spoil(t.Context(), c.bucket, c.keys(kind)[0]); err != nil {
					t.Fatal(err)
				}
				got, err := c.logs.Checkpoint(t.Context(), c.conv)
				if name == "page" && err == nil {
					_, err = c.logs.Page(t.Context(), c.conv, got.Pages[0])
				}
				var corrupt *storage.CorruptError
				if absent := kind == "head" && how == "deleted"; absent && (got != nil || err != nil) || !absent && !errors.As(err, &corrupt) {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
	}
}

func TestCheckpointRefused(t *testing.T) {
	for name, spoil := range map[string]func(c *storage.Checkpoint){
		"no state":     func(c *storage.Checkpoint) { c.State = nil },
		"empty line":   func(c *storage.Checkpoint) { c.State = []byte("{}\n") },
		"half a line":  func(c *storage.Checkpoint) { c.Tail = []byte("{}") },
		"before all":   func(c *storage.Checkpoint) { c.At = storage.Start() },
		"no claim":     func(c *storage.Checkpoint) { c.Claims = nil },
		"claim beyond": func(c *storage.Checkpoint) { c.Claims[0].Seq = 9 },
		"page missing": func(c *storage.Checkpoint) { c.Pages = c.Pages[1:] },
		"few writers":  func(c *storage.Checkpoint) { c.Writers = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheckpointed(t)
			spoil(&c.want)
			if err := c.logs.PutCheckpoint(t.Context(), c.conv, &c.want, nil); err == nil {
				t.Error("invalid checkpoint was stored")
			}
		})
	}
}

func TestResume(t *testing.T) {
	c := newCheckpointed(t)
	w := c.logs.Writer(c.conv, "w2", c.want.At, 2)
	read := func(at storage.Position) (seqs []int64, err error) {
		for b, err := range c.logs.Resume(t.Context(), c.conv, at) {
			if err != nil {
				return seqs, err
			}
			seqs = append(seqs, b.Seq)
		}
		return seqs, nil
	}
	if got, err := read(c.want.At); err != nil || len(got) != 0 {
		t.Errorf("at the head: %v, %v", got, err)
	}
	for range 2 {
		mustAppend(t, w, "{}\n")
	}
	if got, err := read(c.want.At); err != nil || !slices.Equal(got, []int64{3, 4}) {
		t.Errorf("before the head: %v, %v", got, err)
	}
	var corrupt *storage.CorruptError
	if _, err := read(storage.Position{Seq: 2, Hash: storage.Hash{1}}); !errors.As(err, &corrupt) {
		t.Errorf("another history: got %v", err)
	}
	var gap *storage.GapError
	for _, seq := range []int64{5, 9} {
		if _, err := read(storage.Position{Seq: seq}); !errors.As(err, &gap) {
			t.Errorf("beyond the log, at %d: %v", seq, err)
		}
	}
}

// TestCheckpointWhileTheBucketFails checks that a write with an unknown outcome is an error, and that
// the earlier checkpoint is still found.
func TestCheckpointWhileTheBucketFails(t *testing.T) {
	c := newCheckpointed(t)
	store := memory(t)
	faulty := storagetest.Faulty(store, storagetest.Plan{Decide: func(op storagetest.Op) storagetest.Kind {
		if op.Method == "PUT" && strings.HasSuffix(op.Key, "/head") {
			return storagetest.ErrorBefore
		}
		return 0
	}})
	logs := storage.NewLogs(faulty, nil)
	if err := logs.PutCheckpoint(t.Context(), c.conv, &c.want, nil); !errors.Is(err, storage.ErrUncertain) {
		t.Errorf("put: %v", err)
	}
	if got, err := logs.Checkpoint(t.Context(), c.conv); got != nil || err != nil {
		t.Errorf("without its head: %+v, %v", got, err)
	}
}

// oneObject is a bucket with a head and a checkpoint of arbitrary bytes.
type oneObject struct {
	storage.Bucket
	head, data []byte
}

// Get implements storage.Bucket.
func (o *oneObject) Get(_ context.Context, key string) ([]byte, error) {
	if strings.HasSuffix(key, "/head") {
		return o.head, nil
	}
	return o.data, nil
}

func FuzzCheckpoint(f *testing.F) {
	lines := []byte(`{"v":8,"seq":2,"hash":"00000000000000000000000000000000","writers":1,"claims":[{"seq":0,"nonce":"w"}],"pages":[]}` + "\n{}\n")
	f.Add(lines, []byte(nil))
	f.Add(append(lines, "{}\n[]\n"...), []byte(nil))
	f.Add([]byte(nil), []byte(`{"v":8,"seq":2,"sha256":"00","prev":"x"}`))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true), zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	conv := keyOf("x")
	f.Fuzz(func(t *testing.T, content, head []byte) {
		o := &oneObject{data: enc.EncodeAll(content, nil), head: head}
		if len(head) == 0 {
			o.head = fmt.Appendf(nil, `{"v":8,"seq":2,"sha256":"%x"}`, sha256.Sum256(o.data))
		}
		logs := storage.NewLogs(o, nil)
		c, err := logs.Checkpoint(t.Context(), conv)
		var corrupt *storage.CorruptError
		switch {
		case err != nil && !errors.As(err, &corrupt):
			t.Errorf("got error of another kind: %v", err)
		case err == nil && (c == nil || c.At.Seq != 2 || len(c.State) == 0 || len(c.Claims) == 0):
			t.Errorf("accepted %+v", c)
		}
	})
}

// FuzzFormat checks that only a stamp of this version is accepted, and that every other one is a
// format error.
func FuzzFormat(f *testing.F) {
	for _, s := range []string{
		`{"schemaVersion":8,"minWriter":8}`, `{"schemaVersion":8}`, `{"schemaVersion":7,"minWriter":7}`, `{"schemaVersion":5}`,
		`{"schemaVersion":9,"minWriter":8}`, `{"schemaVersion":8,"minWriter":9}`, `{"schemaVersion":"8"}`, `[]`, `{`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var stamp struct{ SchemaVersion, MinWriter int }
		good := json.Unmarshal(data, &stamp) == nil && stamp.SchemaVersion == 8 && stamp.MinWriter <= 8
		err := storage.EnsureFormat(t.Context(), &oneObject{data: data})
		var format *storage.FormatError
		if good != (err == nil) || err != nil && (!errors.As(err, &format) || format.Reason == "") {
			t.Errorf("%q: %v", data, err)
		}
	})
}
