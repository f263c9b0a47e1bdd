package inspect_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/inspect"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/segment"
)

const at conversation.Time = 1_700_000_000_000

// newBucket returns an empty bucket in memory.
func newBucket(t testing.TB) storage.Bucket {
	t.Helper()
	return waiting.ToClose(t, local.NewMemory())
}

// world is a bucket with a conversation that has every kind of object.
//
//	segments      0-10, 11-22, 23-29
//	log           0, 12, 24 pinned; 18-22 left over; 30-35 in no segment
//	checkpoints   23 and 35, which the head names; pages 0 and 1
type world struct {
	t       testing.TB
	bucket  storage.Bucket
	logs    *storage.Logs
	at      conversation.Address
	conv    conversation.Key
	writer  *storage.Writer
	state   *conversation.State
	pos     storage.Position
	claims  []storage.Claim
	pages   []storage.PageRef
	newest  *storage.Checkpoint
	rest    *conversation.HistoryPage // closed history that fills no page yet
	turns   int
	blob    storage.Digest
	compact *storage.Compactor
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, bucket: newBucket(t), at: conversation.Address{Agent: "assistant", ID: "demo"}, pos: storage.Start(), state: conversation.NewState()}
	w.logs, w.conv = storage.NewLogs(w.bucket, nil), w.at.Key()
	w.compact = w.logs.Compactor(w.conv)
	ctx := context.Background()
	check(t, storage.EnsureFormat(ctx, w.bucket))
	content := []byte("what is attached")
	w.blob = sha256.Sum256(content)
	check(t, storage.PutBlob(ctx, w.bucket, w.conv, storage.Bytes(content)))
	w.activate("n1", 4)
	w.checkpoint(true)
	w.remove(w.segments(11))
	w.activate("n2", 4)
	w.checkpoint(true)
	garbage := w.segments(23)
	w.remove(slices.DeleteFunc(garbage, func(key string) bool { return key >= storage.LogKey(w.conv, 18) }))
	w.activate("n3", 4)
	w.checkpoint(false)
	w.remove(w.segments(29))
	w.others()
	return w
}

// others stores objects that belong to no conversation.
func (w *world) others() {
	ctx := context.Background()
	check(w.t, w.logs.PutIndex(ctx, storage.IndexEntry{Address: w.at, Day: "2026-01-02"}))
	check(w.t, storage.NewJournalWriter(w.bucket).Write(ctx, storage.Journal{Member: "m1", N: 3, Entries: []storage.JournalEntry{
		{Conv: w.conv, Nonce: "n3", Seq: 30}, {Conv: conversation.Address{Agent: "assistant", ID: "never"}.Key(), Nonce: "n9", Seq: -1},
	}}))
	check(w.t, storage.NewJournalWriter(w.bucket).WriteExport(ctx, storage.ExportJournal{Member: "m1", Shards: 64, N: 5, Entries: []storage.ExportEntry{
		{Conv: w.conv, Seq: 30},
	}}))
	must(storage.CreateEpoch(ctx, w.bucket, storage.Epoch{N: 1, Nonce: "e1", Members: []storage.Member{{ID: "m1", Address: "127.0.0.1:1"}}}))(w.t)
	check(w.t, storage.PutHeartbeat(ctx, w.bucket, storage.Heartbeat{Member: "m1", Count: 7}))
}

// activate starts a new writer, which serves some turns of three batches.
func (w *world) activate(nonce storage.Nonce, turns int) {
	w.t.Helper()
	w.writer = w.logs.Writer(w.conv, nonce, w.pos, int64(len(w.claims)+1))
	w.claims = append(w.claims, storage.Claim{Seq: w.pos.Seq + 1, Nonce: nonce})
	for range turns {
		w.turn()
	}
}

func (w *world) turn() {
	w.t.Helper()
	n := w.turns
	w.turns++
	sub, msg := conversation.SubmissionID(fmt.Sprint("sub_", n)), conversation.MessageID(fmt.Sprint("msg_", n))
	turn := conversation.TurnID(fmt.Sprint("turn_", n))
	delivery := conversation.Delivery{Kind: conversation.KindUser, Body: fmt.Sprint("question ", n)}
	var first []conversation.Record
	if n == 0 {
		first = append(first, &conversation.ConversationCreated{Agent: w.at.Agent, ID: w.at.ID, UID: "inst_1", ConversationID: "conv_1", At: at})
		delivery.Attachments = []conversation.Attachment{{ID: "att_1", SHA256: w.blob.String(), MimeType: "text/plain", Size: 16}}
	}
	first = append(first,
		&conversation.SubmissionAdmitted{Submission: sub, Message: "in_" + msg, Key: fmt.Sprint("k", n), PayloadHash: "h", Delivery: delivery, At: at},
		&conversation.AttemptStarted{Submission: sub, Attempt: 1, Writer: string(w.writer.Nonce()), At: at})
	w.append(first...)
	w.append(&conversation.ResponseStarted{Message: msg, Submission: sub, Turn: turn, At: at},
		&conversation.Delta{Message: msg, Kind: conversation.PartText, Text: fmt.Sprintf("%x", sha256.Sum256([]byte(sub)))})
	w.append(&conversation.StepCompleted{Message: msg, Turn: turn, StopReason: "stop", At: at},
		&conversation.SubmissionSettled{Submission: sub, Outcome: conversation.OutcomeCompleted, At: at})
}

func (w *world) append(records ...conversation.Record) {
	w.t.Helper()
	lines := must(conversation.EncodeRecords(nil, records))(w.t)
	w.pos = must(w.writer.Append(context.Background(), lines, at))(w.t)
	check(w.t, w.state.Apply(conversation.Batch{Offset: conversation.Offset(w.pos.Seq), Records: records}))
}

// checkpoint stores a checkpoint here. Its closed history becomes a page or its tail.
func (w *world) checkpoint(page bool) {
	w.t.Helper()
	ctx := context.Background()
	c := &storage.Checkpoint{At: w.pos, Claims: slices.Clone(w.claims[max(0, len(w.claims)-64):]), Writers: int64(len(w.claims)), Indexed: "2026-01-02"}
	if cut := must(w.state.Cut())(w.t); cut != nil && w.rest != nil {
		w.rest = w.rest.Join(cut)
	} else if cut != nil {
		w.rest = cut
	}
	if w.rest != nil {
		c.Tail = must(conversation.EncodeHistory(w.rest))(w.t)
	}
	if page && w.rest != nil {
		w.pages = append(w.pages, must(w.logs.PutPage(ctx, w.conv, len(w.pages), c.Tail))(w.t))
		c.Tail, w.rest = nil, nil
	}
	c.Pages = slices.Clone(w.pages)
	c.State = must(conversation.EncodeState(w.state))(w.t)
	check(w.t, w.logs.PutCheckpoint(ctx, w.conv, c, w.newest))
	w.newest = c
}

// segments stores the log up to a batch in segments.
func (w *world) segments(upTo int64) []string {
	w.t.Helper()
	return must(w.compact.Compact(context.Background(), upTo, nil, 1))(w.t)
}

func (w *world) remove(keys []string) {
	w.t.Helper()
	check(w.t, w.logs.Remove(context.Background(), w.conv, keys))
}

// segment stores one segment of batches under a key.
func (w *world) segment(key string, batches []storage.Batch) {
	w.t.Helper()
	b := segment.NewCodec(1<<20, 1).Build()
	for _, batch := range batches {
		check(w.t, b.Add(batch))
	}
	data, _, err := b.Finish()
	check(w.t, err)
	w.put(key, data)
}

func (w *world) batches(first, last int64) []storage.Batch {
	w.t.Helper()
	return must(w.logs.Range(context.Background(), w.conv, first, last))(w.t)
}

func (w *world) log(seq int64) string         { return storage.LogKey(w.conv, seq) }
func (w *world) seg(first, last int64) string { return storage.SegmentKey(w.conv, first, last) }
func (w *world) put(key string, data []byte) {
	check(w.t, w.bucket.Put(context.Background(), key, storage.Bytes(data)))
}
func (w *world) delete(key string)     { check(w.t, w.bucket.Delete(context.Background(), key)) }
func (w *world) get(key string) []byte { return must(w.bucket.Get(context.Background(), key))(w.t) }
func (w *world) flip(key string) {
	w.change(key, func(b []byte) []byte { b[len(b)/2] ^= 0xff; return b })
}
func (w *world) cut(key string) { w.change(key, func(b []byte) []byte { return b[:len(b)/2] }) }
func (w *world) under(folder string) []string {
	return slices.Sorted(maps.Keys(w.objects(storage.FolderOf(w.conv) + folder)))
}
func (w *world) change(key string, f func([]byte) []byte) { w.put(key, f(bytes.Clone(w.get(key)))) }

// batch stores a batch object of another writer.
func (w *world) batch(h storage.Header, lines string) {
	w.t.Helper()
	h.Version, h.At = storage.SchemaVersion, at
	data, _, err := storage.EncodeBatch(h, []byte(lines))
	check(w.t, err)
	w.put(w.log(h.Seq), data)
}

// objects returns the digests of all objects below a prefix.
func (w *world) objects(prefix string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	page := must(w.bucket.List(context.Background(), storage.ListQuery{Prefix: prefix}))(w.t)
	for _, k := range page.Keys {
		sum := sha256.Sum256(w.get(k.Key))
		out[k.Key] = hex.EncodeToString(sum[:])
	}
	return out
}

// transcript returns the conversation as folded from the log alone.
func (w *world) transcript() string {
	w.t.Helper()
	return must(w.read())(w.t)
}

// verify returns the findings, one line each: severity, kind, and the key after the conversation's
// folder.
func (w *world) verify(scope inspect.Scope) []string {
	w.t.Helper()
	var found []string
	_, err := inspect.Verify(context.Background(), w.bucket, scope, nil, func(f inspect.Finding) { found = append(found, w.line(f)) })
	check(w.t, err)
	slices.Sort(found)
	return found
}

func (w *world) line(f inspect.Finding) string {
	if f.Text == "" || f.Severity != inspect.Note && f.Key == "" {
		w.t.Errorf("finding without text: %+v", f)
	}
	return fmt.Sprintf("%s %s %s", f.Severity, f.Kind, strings.TrimPrefix(f.Key, storage.FolderOf(w.conv)))
}
