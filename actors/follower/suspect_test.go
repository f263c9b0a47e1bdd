package follower_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

type failing struct {
	follower.Source
	err error
}

func (f *failing) Batches(context.Context, conversation.Key, storage.Position) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) { yield(storage.Batch{}, f.err) }
}

func (f *failing) Range(context.Context, conversation.Key, int64, int64) ([]storage.Batch, error) {
	return nil, f.err
}

func TestSuspectStore(t *testing.T) {
	corrupt, gap := &storage.CorruptError{Err: errors.New("other bytes")}, &storage.GapError{Seq: 1, Next: 2}
	for name, tt := range map[string]struct {
		err  error
		logs string // Logs to read; a number is minutes to wait: "a b c 2 a".
		want string // Error of each read: the log is corrupt, or the store is unavailable.
	}{
		"one log":               {corrupt, "a a a a", "corrupt corrupt corrupt corrupt"},
		"two logs":              {corrupt, "a b a b", "corrupt corrupt corrupt corrupt"},
		"three logs":            {corrupt, "a b c a b", "corrupt corrupt store store store"},
		"three logs with gaps":  {gap, "a b c", "corrupt corrupt store"},
		"three logs, one late":  {corrupt, "a b 2 c", "corrupt corrupt corrupt"},
		"the other logs again":  {corrupt, "a b c 2 a", "corrupt corrupt store corrupt"},
		"no log for long":       {corrupt, "a b c 20 a b c", "corrupt corrupt store corrupt corrupt store"},
		"three logs for long":   {corrupt, "a b c" + strings.Repeat(" 1 a b c", 11), "corrupt corrupt store" + strings.Repeat(" store store store", 10) + strings.Repeat(" corrupt", 3)},
		"an unavailable bucket": {&storage.Error{Op: "get", Kind: storage.ErrRefused}, "a b c d", "other other other other"},
	} {
		for _, op := range []string{"batches", "range"} {
			synctest.Test(t, func(t *testing.T) {
				source := follower.SuspectStore(&failing{err: tt.err}, slog.New(slog.DiscardHandler))
				var got []string
				for word := range strings.FieldsSeq(tt.logs) {
					var minutes int
					if _, err := fmt.Sscan(word, &minutes); err == nil {
						time.Sleep(time.Duration(minutes) * time.Minute)
						continue
					}
					key := conversation.Address{Agent: "a", ID: word}.Key()
					_, err := source.Range(t.Context(), key, 0, 1)
					if op == "batches" {
						for _, err = range source.Batches(t.Context(), key, storage.Start()) {
							continue
						}
					}
					switch {
					case storage.IsCorrupt(err):
						got = append(got, "corrupt")
					case errors.Is(err, storage.ErrUnavailable):
						got = append(got, "store")
					default:
						got = append(got, "other")
					}
				}
				if got := strings.Join(got, " "); got != tt.want {
					t.Errorf("%s, %s of %s: got  %s\nwant %s", name, op, tt.logs, got, tt.want)
				}
			})
		}
	}
}
