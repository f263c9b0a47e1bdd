package storagetest

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// takeSteps runs steps, each an operation with its arguments and, after an arrow, the expected result.
// Without an arrow the result is empty.
func takeSteps(t *testing.T, steps string, answer func(call string) string) {
	t.Helper()
	for step := range strings.SplitSeq(steps, ";") {
		call, want, _ := strings.Cut(strings.TrimSpace(step), " -> ")
		if call == "" {
			continue
		}
		if got := answer(call); got != want {
			t.Fatalf("%.100s: %.100q, want %.100q", call, got, want)
		}
	}
}

// race runs eight calls concurrently and returns the one that succeeded. The others must fail with one
// of lost.
func race(t *testing.T, act func(i int) error, lost ...error) int {
	t.Helper()
	var errs [8]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = act(i) })
	}
	wg.Wait()
	var won []int
	for i, err := range errs {
		if err == nil {
			won = append(won, i)
		} else if !slices.ContainsFunc(lost, func(l error) bool { return errors.Is(err, l) }) {
			t.Fatalf("contender %d: %v", i, err)
		}
	}
	if len(won) != 1 {
		t.Fatalf("winners %d, want exactly one", won)
	}
	return won[0]
}

// logTest tests a rule with the log of one conversation, initially empty.
type logTest struct {
	*testing.T
	bucket  storage.Bucket
	logs    *storage.Logs
	conv    conversation.Key
	writers map[string]*storage.Writer
	log     []storage.Batch // Appended batches.
	garbage []string        // Objects replaced by the last compaction.
}

func (t *logTest) ok(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *logTest) follow(steps string) {
	t.Helper()
	takeSteps(t.T, steps, t.answer)
}

// answer runs a step and returns its result, with errors as says formats them. Writers are named by
// their nonces and positions by their numbers; every appended word is a batch.
func (t *logTest) answer(call string) string {
	t.Helper()
	words := strings.Fields(call)
	op, args := words[0], words[1:]
	n := make([]int64, len(args)) // Numeric arguments.
	for i, arg := range args {
		n[i], _ = strconv.ParseInt(arg, 10, 64)
	}
	switch op {
	case "claim":
		t.writers[args[0]] = t.logs.Writer(t.conv, storage.Nonce(args[0]), t.at(n[1]), n[2])
	case "continue":
		t.writers[args[0]] = t.logs.Continue(t.conv, storage.Nonce(args[0]), t.at(n[1]), n[2])
	case "unchained":
		at := t.at(n[1])
		at.Hash[0] ^= 1
		t.writers[args[0]] = t.logs.Writer(t.conv, storage.Nonce(args[0]), at, n[2])
	case "append":
		return t.append(t.writers[args[0]], args[1:])
	case "read":
		return t.shown(all(t.logs.Batches(t.Context(), t.conv, t.at(slices.Max(append(n, -1))))))
	case "range":
		return t.shown(t.logs.Range(t.Context(), t.conv, n[0], n[1]))
	case "tail":
		tail, err := t.logs.Tail(t.Context(), t.conv, n[0])
		t.ok(err)
		return fmt.Sprint(tail)
	case "conversation":
		t.conv = conversation.Address{Agent: args[0], ID: t.Name()}.Key()
	case "delete":
		t.ok(t.bucket.Delete(t.Context(), t.key(args[0])))
	case "damage": // A second flip would undo the first.
		data := t.get(args[0])
		data[len(data)/2] ^= 1
		t.put(args[0], data)
	case "compact":
		var err error
		t.garbage, err = t.logs.Compactor(t.conv).Compact(t.Context(), n[0], nil, 1)
		t.ok(err)
	case "remove":
		t.ok(t.logs.Remove(t.Context(), t.conv, t.garbage))
	case "left":
		return t.left()
	case "segments":
		return strings.Join(t.segments(), " ")
	case "same":
		t.same()
	default:
		t.Fatalf("unknown operation %q", op)
	}
	return ""
}

// at returns the position of an appended batch.
func (t *logTest) at(seq int64) storage.Position {
	if seq < 0 {
		return storage.Start()
	}
	return t.log[seq].Position()
}

// key returns the key of a batch or segment.
func (t *logTest) key(name string) string {
	var first, last int64
	if n, _ := fmt.Sscanf(name, "%d-%d", &first, &last); n == 2 {
		return storage.SegmentKey(t.conv, first, last)
	}
	return storage.LogKey(t.conv, first)
}

func (t *logTest) get(name string) []byte {
	t.Helper()
	data, err := t.bucket.Get(t.Context(), t.key(name))
	t.ok(err)
	return data
}

func (t *logTest) put(name string, data []byte) {
	t.Helper()
	t.ok(t.bucket.Put(t.Context(), t.key(name), storage.Bytes(data)))
}

// append appends a batch per word, or one empty batch, and returns the last position. A fenced writer
// must stay fenced.
func (t *logTest) append(w *storage.Writer, words []string) string {
	t.Helper()
	if len(words) == 0 {
		words = []string{""}
	}
	for _, word := range words {
		_, err := w.Append(t.Context(), []byte(strings.TrimPrefix(word+"\n", "\n")), 1)
		if err == nil {
			t.log = append(t.log, w.Stored())
			continue
		}
		if _, again := w.Append(t.Context(), nil, 1); again != err {
			t.Errorf("second append: %v, want the same error", again)
		}
		return t.errText(err)
	}
	return fmt.Sprint(w.Stored().Seq)
}

func all(seq iter.Seq2[storage.Batch, error]) (batches []storage.Batch, err error) {
	for b, err := range seq {
		if err != nil {
			return batches, err
		}
		batches = append(batches, b)
	}
	return batches, nil
}

// shown formats a log as its numbers with their lines, and its error. A batch that differs from the
// appended one is marked.
func (t *logTest) shown(batches []storage.Batch, err error) string {
	var list []string
	for _, b := range batches {
		is := "="
		if b.Seq >= int64(len(t.log)) || !reflect.DeepEqual(b, t.log[b.Seq]) {
			is = "!="
		}
		list = append(list, fmt.Sprint(b.Seq, is, strings.TrimSuffix(string(b.Lines), "\n")))
	}
	return strings.TrimSpace(strings.Join(append(list, t.errText(err)), " "))
}

// errText formats an error of the log.
func (t *logTest) errText(err error) string {
	switch e, gap, fenced := (*storage.CorruptError)(nil), (*storage.GapError)(nil), (*storage.FencedError)(nil); {
	case errors.As(err, &e) && e.Conv == t.conv:
		return fmt.Sprintf("corrupt at %d", e.Seq)
	case errors.As(err, &gap) && gap.Conv == t.conv:
		return fmt.Sprintf("%d is missing, then %d", gap.Seq, gap.Next)
	case errors.As(err, &fenced) && errors.Is(err, storage.ErrFenced):
		return strings.TrimSpace(fmt.Sprintf("fenced at %d by %s", fenced.Seq, fenced.Winner))
	case err != nil:
		return err.Error()
	}
	return ""
}

// same checks that every way to read returns the appended batches.
func (t *logTest) same() {
	t.Helper()
	for i := range int64(len(t.log)) + 1 {
		got, err := all(t.logs.Batches(t.Context(), t.conv, t.at(i-1)))
		t.equal(fmt.Sprintf("read after %d", i-1), t.log[i:], got, err)
		for _, j := range []int64{i + 1, int64(len(t.log))} {
			if i < j && j <= int64(len(t.log)) {
				got, err := t.logs.Range(t.Context(), t.conv, i, j-1)
				t.equal(fmt.Sprintf("range %d to %d", i, j-1), t.log[i:j], got, err)
			}
		}
	}
}

func (t *logTest) equal(desc string, want, got []storage.Batch, err error) {
	t.Helper()
	same := len(want) == 0 && len(got) == 0 || reflect.DeepEqual(want, got) // It takes a tenth of the time.
	if err != nil || !same {
		t.Fatalf("%s: %v (-want +got):\n%s", desc, err, cmp.Diff(want, got))
	}
}

// left returns the numbers of the batch objects in the log.
func (t *logTest) left() string {
	t.Helper()
	var left []string
	for _, b := range t.log {
		_, err := t.bucket.Get(t.Context(), storage.LogKey(t.conv, b.Seq))
		if err == nil {
			left = append(left, fmt.Sprint(b.Seq))
		} else if !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return strings.Join(left, " ")
}

func (t *logTest) segments() (list []string) {
	t.Helper()
	refs, err := t.logs.Segments(t.Context(), t.conv, 0)
	t.ok(err)
	for _, ref := range refs {
		list = append(list, fmt.Sprintf("%d-%d", ref.First, ref.Last))
	}
	return list
}
