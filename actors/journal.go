package actors

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// journalLinger keeps a conversation that became idle listed for a while, so
	// that one which is used again at once costs no journal write.
	journalLinger = time.Second
	// journalRetry is the pause after a journal write that the bucket refused.
	journalRetry = time.Second
	// deleteTimeout bounds the deletion of journals that nobody needs any more: a
	// request that is never answered must hold up neither the next write nor the
	// next sweep.
	deleteTimeout = 5 * time.Second
	// maxGarbage bounds the replaced journals that wait for their deletion.
	maxGarbage = 16
)

// entryID names an entry: a conversation under one writer incarnation.
type entryID struct {
	conv  conversation.Key
	nonce storage.Nonce
}

// entry is a listed conversation.
type entry struct {
	storage.JournalEntry
	leavingSince time.Time // zero unless it is about to leave
	landed       bool      // in the newest landed journal
	flying       bool      // in the journal in flight
	waiters      []func()
}

// journal is the busy journal of this node: the set of conversations here that
// have unsettled work, kept in the bucket as numbered objects so that whoever
// survives this node finds them.
//
// Guarantees:
//
//  1. List calls back once the writer stands in the newest landed journal and in
//     the one in flight, if any.
//  2. Numbers only grow and a number never gets other bytes: one write is in
//     flight, repeated with the same bytes until it lands, or left behind for the
//     next number when the bucket refuses it.
//  3. Number n-1 is deleted only after n has landed.
//  4. An entry leaves only when its own writer says that idle is durable, or when
//     its conversation's owner has answered a poke for it. Being fenced or
//     stepping down is no reason.
//
// Safe for concurrent use. Run owns the only goroutine that writes.
type journal struct {
	bucket storage.Bucket
	member string
	log    *slog.Logger

	mu      sync.Mutex
	entries map[entryID]*entry
	n       int64 // of the newest write, landed or not
	landed  int64 // of the newest landed write, -1 if none
	dirty   bool  // the set differs from what was written last, apart from who leaves
	urgent  bool  // somebody waits
	kick    chan struct{}

	swept int64 // numbers below it need no deletion; owned by run
}

func newJournal(b storage.Bucket, member string, log *slog.Logger) *journal {
	return &journal{
		bucket: b, member: member, log: log, entries: map[entryID]*entry{}, n: -1, landed: -1,
		kick: make(chan struct{}, 1),
	}
}

// list makes the journal list a writer at a position and calls done once it does,
// from a goroutine of the journal or before it returns.
func (j *journal) list(id entryID, seq int64, done func()) {
	if !waitsForJournal() {
		done()
		done = func() {}
	}
	j.mu.Lock()
	e := j.entries[id]
	if e == nil {
		e = &entry{JournalEntry: storage.JournalEntry{Conv: id.conv, Nonce: id.nonce, Seq: seq}}
		j.entries[id] = e
		j.dirty = true
	}
	e.leavingSince = time.Time{}
	if e.landed && (e.flying || j.n == j.landed) {
		j.mu.Unlock()
		done()
		return
	}
	e.waiters = append(e.waiters, done)
	j.urgent = true
	j.mu.Unlock()
	j.wake()
}

// unlist lets a writer go whose idle state is durable.
func (j *journal) unlist(id entryID) {
	j.mu.Lock()
	if e := j.entries[id]; e != nil && e.leavingSince.IsZero() {
		e.leavingSince = time.Now()
	}
	j.mu.Unlock()
	j.wake()
}

// answered removes an entry whose conversation's owner has answered a poke.
func (j *journal) answered(id entryID) {
	j.mu.Lock()
	if _, ok := j.entries[id]; ok {
		delete(j.entries, id)
		j.dirty = true
	}
	j.mu.Unlock()
	j.wake()
}

// held returns the entries of the set.
func (j *journal) held() []storage.JournalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]storage.JournalEntry, 0, len(j.entries))
	for _, e := range j.entries {
		out = append(out, e.JournalEntry)
	}
	return out
}

func (j *journal) wake() {
	select {
	case j.kick <- struct{}{}:
	default:
	}
}

// run writes journals until ctx ends.
func (j *journal) run(ctx context.Context) {
	for {
		var linger <-chan time.Time
		wait, ready := j.due()
		if ready {
			if !j.write(ctx) {
				return
			}
			continue
		}
		var t *time.Timer
		if wait > 0 {
			t = time.NewTimer(wait)
			linger = t.C
		}
		select {
		case <-ctx.Done():
		case <-j.kick:
		case <-linger:
		}
		if t != nil {
			t.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// due reports whether a journal is to be written now, or after how long for the
// sake of entries that leave; 0 is never.
func (j *journal) due() (wait time.Duration, ready bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.urgent {
		return 0, true
	}
	leaving := false
	for _, e := range j.entries {
		if !e.leavingSince.IsZero() {
			leaving = true
			wait = max(wait, journalLinger-time.Since(e.leavingSince))
		}
	}
	return wait, wait <= 0 && (j.dirty || leaving)
}

// write stores the set under the next number and reports whether to go on.
func (j *journal) write(ctx context.Context) bool {
	next := j.compose()
	err := storage.WriteJournal(ctx, j.bucket, next)
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		j.log.Error("write busy journal", "member", j.member, "n", next.N, "err", err)
		j.abandon()
		select {
		case <-time.After(journalRetry):
		case <-ctx.Done():
			return false
		}
		return true
	}
	for _, done := range j.land(next.N) {
		done()
	}
	j.sweepOwn(ctx, next.N)
	return true
}

// compose takes the snapshot that the next number gets.
func (j *journal) compose() storage.Journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.n++
	out := storage.Journal{Member: j.member, Shards: 1, N: j.n}
	j.dirty, j.urgent = false, false
	for id, e := range j.entries {
		if !e.leavingSince.IsZero() && time.Since(e.leavingSince) >= journalLinger {
			delete(j.entries, id)
			continue
		}
		e.flying = true
		out.Entries = append(out.Entries, e.JournalEntry)
	}
	return out
}

// land marks what the journal n lists and returns who waited for it.
func (j *journal) land(n int64) []func() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.landed = n
	var done []func()
	for _, e := range j.entries {
		e.landed, e.flying = e.flying, false
		if e.landed {
			done = append(done, e.waiters...)
			e.waiters = nil
		} else if len(e.waiters) > 0 {
			j.urgent = true
		}
	}
	return done
}

// abandon leaves the number in flight behind: its outcome is unknown, so nothing
// rests on it.
func (j *journal) abandon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dirty, j.urgent = true, true
	for _, e := range j.entries {
		e.flying = false
	}
}

// sweepOwn deletes the journals that n replaces, when nobody waits for the next
// write. What a failure leaves behind is junk that the next sweep removes.
func (j *journal) sweepOwn(ctx context.Context, n int64) {
	j.mu.Lock()
	busy := j.urgent
	j.mu.Unlock()
	if busy && n-j.swept < maxGarbage || n == j.swept {
		return
	}
	limited, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	err := storage.DeleteJournal(limited, j.bucket, j.unswept(n))
	if ctx.Err() != nil {
		return // close tries again
	}
	if err != nil {
		j.log.Warn("delete busy journal", "member", j.member, "n", n-1, "err", err)
	}
	j.swept = n
}

// removeReplaced deletes those of the stored keys that are older than the newest
// landed journal: what a failed deletion has left, and numbers that were left
// behind and landed late.
func (j *journal) removeReplaced(ctx context.Context, keys []string) error {
	j.mu.Lock()
	landed := j.landed
	j.mu.Unlock()
	if landed < 0 {
		return nil
	}
	newest := storage.JournalKey(j.member, 0, landed)
	old := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key >= newest })
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteJournal(ctx, j.bucket, old)
}

// unswept returns the keys below n that may be stored, at most maxGarbage. A
// number that was left behind is one of them: some of its attempts may have landed.
func (j *journal) unswept(n int64) []string {
	var keys []string
	for k := max(j.swept, n-maxGarbage); k < n; k++ {
		keys = append(keys, storage.JournalKey(j.member, 0, k))
	}
	return keys
}

// close removes the journal of a node that owes nothing any more. It is called
// after run has returned; a node that still owes something leaves its journal to
// the next sweep.
func (j *journal) close(ctx context.Context) {
	j.mu.Lock()
	for id, e := range j.entries {
		if !e.leavingSince.IsZero() {
			delete(j.entries, id)
		}
	}
	empty, n := len(j.entries) == 0, j.n
	j.mu.Unlock()
	if !empty || n < 0 {
		return
	}
	if err := storage.DeleteJournal(ctx, j.bucket, j.unswept(n+1)); err != nil {
		j.log.Warn("delete busy journal", "member", j.member, "n", n, "err", err)
	}
}
