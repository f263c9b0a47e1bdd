package chaos

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// ledger knows what was sent to the logs, what landed and in which order, and
// when a claim was acknowledged to its writer.
type ledger struct {
	trace *schedule.Trace
	shown *schedule.Tally

	mu       sync.Mutex
	now      int // counts landings
	batches  map[conversation.Key]map[int64]landing
	claims   map[storage.Nonce]*claim
	attempts map[attemptID]sentAttempt
	calls    map[conversation.CallID]bool // true once its record has landed
	started  map[conversation.CallID]int
	writes   map[string]int                                          // of data that its source knows to have its place
	sources  map[string]int                                          // how often data was written under a name
	admitted map[conversation.Key]map[conversation.SubmissionID]bool // true once settled
	aborts   map[conversation.Key][]*abortCall
	failures map[conversation.SubmissionID]failed
	unread   map[conversation.Key]int // reads of pages of history that came to nothing
	decoded  map[string]storage.Batch // by the object's bytes
	deleted  map[string]bool          // keys of batches
}

// failed is what a model has refused to a submission.
type failed struct {
	good bool // for good
	row  int  // calls in a row
}

// abortCall is a request to abort, from when it was made until it was answered.
type abortCall struct {
	from, to int
	free     bool // the log has owed nothing at some time in between
}

type landing struct {
	at    int
	nonce storage.Nonce
	hash  storage.Hash
}

// claim is the first batch of a writer.
type claim struct {
	conv     conversation.Key
	seq      int64
	answered int // landings counted when the last answer to it came, -1 before
}

// attemptID is what a model call knows about who makes it.
type attemptID struct {
	member     string
	submission conversation.SubmissionID
	attempt    int
}

// sentAttempt is where a node has put the start of an attempt.
type sentAttempt struct {
	nonce storage.Nonce
	seq   int64
}

func newLedger(t *schedule.Trace, shown *schedule.Tally) *ledger {
	return &ledger{
		trace: t, shown: shown, deleted: map[string]bool{}, batches: map[conversation.Key]map[int64]landing{}, claims: map[storage.Nonce]*claim{},
		attempts: map[attemptID]sentAttempt{}, calls: map[conversation.CallID]bool{},
		started: map[conversation.CallID]int{}, decoded: map[string]storage.Batch{},
		writes: map[string]int{}, sources: map[string]int{}, failures: map[conversation.SubmissionID]failed{}, unread: map[conversation.Key]int{},
		admitted: map[conversation.Key]map[conversation.SubmissionID]bool{}, aborts: map[conversation.Key][]*abortCall{},
	}
}

// logKey takes the key of a batch apart.
func logKey(key string) (conv conversation.Key, seq int64, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 || parts[2] != "log" {
		return "", 0, false
	}
	seq, err := strconv.ParseInt(parts[3], 10, 64)
	return conversation.Key(parts[1]), seq, err == nil
}

// decode reads a batch; l.mu is held.
func (l *ledger) decode(body []byte) (storage.Batch, bool) {
	if b, ok := l.decoded[string(body)]; ok {
		return b, true
	}
	b, err := storage.DecodeBatch(body, 0)
	if err != nil {
		return b, false
	}
	l.decoded[string(body)] = b
	return b, true
}

// sent notes what a node says about itself in a batch, before it can land.
func (l *ledger) sent(member, key string, body []byte) {
	conv, seq, ok := logKey(key)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.decode(body)
	if !ok || b.Seq != seq {
		l.trace.Violate(member, "sends %s, which is not that batch", key)
		return
	}
	if b.First && l.claims[b.Nonce] == nil {
		l.claims[b.Nonce] = &claim{conv: conv, seq: seq, answered: -1}
	}
	records, err := conversation.DecodeRecords(b.Lines)
	if err != nil {
		l.trace.Violate(member, "sends %s: %v", key, err)
	}
	for _, r := range records {
		if r, ok := r.(*conversation.AttemptStarted); ok {
			l.attempts[attemptID{member, r.Submission, r.Attempt}] = sentAttempt{storage.Nonce(r.Writer), seq}
		}
	}
}

// landed notes that the store has taken an object.
func (l *ledger) landed(key string, body []byte) {
	conv, seq, ok := logKey(key)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.decode(body)
	if !ok {
		return
	}
	if old, ok := l.batches[conv][seq]; ok {
		l.landedAgain(key, old, b)
		return
	}
	l.now++
	if l.batches[conv] == nil {
		l.batches[conv] = map[int64]landing{}
	}
	l.batches[conv][seq] = landing{l.now, b.Nonce, b.Hash}
	l.trace.Add("store", "%.6s/%d by %s first=%v: %s", conv, seq, b.Nonce, b.First, recordNames(b.Lines))
	records, err := conversation.DecodeRecords(b.Lines)
	if err != nil {
		return // sent has told
	}
	if l.admitted[conv] == nil {
		l.admitted[conv] = map[conversation.SubmissionID]bool{}
	}
	for _, r := range records {
		switch r := r.(type) {
		case *conversation.ToolCalled:
			l.calls[r.Call] = true
		case *conversation.SubmissionAdmitted:
			l.admitted[conv][r.Submission] = false
		case *conversation.SubmissionSettled:
			l.admitted[conv][r.Submission] = true
			l.settled(conv)
		}
	}
}

// landedAgain notes what takes a key that a compaction has freed: the same batch once
// more, or a claim on a stale view, which is no part of the log. l.mu is held.
func (l *ledger) landedAgain(key string, old landing, b storage.Batch) {
	switch {
	case !l.deleted[key], old.hash != b.Hash && !b.First:
		l.trace.Violate("store", "%s changes from %v to %v", key, old.hash, b.Hash)
	case old.hash != b.Hash:
		l.trace.Add("store", "%s was compacted, and is taken by a claim of %s", key, b.Nonce)
		l.shown.Add(didOrphan)
	}
}

// wasDeleted notes that the store has deleted an object.
func (l *ledger) wasDeleted(key string) {
	if _, _, ok := logKey(key); !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted[key] = true
	l.shown.Add(didDelete)
}

// settled notes that a log may owe nothing, if only until the next record of the same
// batch: aborts have their places between records. l.mu is held.
func (l *ledger) settled(conv conversation.Key) {
	if len(l.owed(conv)) > 0 {
		return
	}
	for _, c := range l.aborts[conv] {
		c.free = c.free || c.to == math.MaxInt
	}
}

// owed returns what a log has admitted and not settled; l.mu is held.
func (l *ledger) owed(conv conversation.Key) []conversation.SubmissionID {
	var owed []conversation.SubmissionID
	for id, settled := range l.admitted[conv] {
		if !settled {
			owed = append(owed, id)
		}
	}
	slices.Sort(owed)
	return owed
}

// recordNames formats record lines when the trace is told.
type recordNames []byte

func (n recordNames) String() string {
	records, err := conversation.DecodeRecords(n)
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, r := range records {
		names = append(names, string(r.Type()))
	}
	return strings.Join(names, " ")
}

// moments says what the landing of an object means for its sender.
func (l *ledger) moments(key string, body []byte) []moment {
	if _, _, ok := logKey(key); !ok {
		return []moment{journalLands}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.decoded[string(body)].First {
		return []moment{batchLands, claimLands}
	}
	return []moment{batchLands}
}

// answered notes that the sender of a batch got an answer which settles its fate.
func (l *ledger) answered(body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.decoded[string(body)]
	if ok && b.First {
		l.claims[b.Nonce].answered = l.now
	}
}

// model checks a model call that begins.
func (l *ledger) model(who attemptID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	start, ok := l.attempts[who]
	nonce, c := start.nonce, l.claims[start.nonce]
	if !ok || c == nil {
		return fmt.Errorf("model call for %s, attempt %d, which was never sent", who.submission, who.attempt)
	}
	log := l.batches[c.conv]
	if log[c.seq].nonce != nonce || log[start.seq].nonce != nonce {
		return fmt.Errorf("model call by %s, whose claim %d or attempt %d is not in the log of %.6s", nonce, c.seq, start.seq, c.conv)
	}
	for seq, b := range log {
		if seq > c.seq && b.nonce != nonce && b.at <= c.answered {
			return fmt.Errorf("model call by %s: its claim %d of %.6s was acknowledged after %s had stored %d",
				nonce, c.seq, c.conv, b.nonce, seq)
		}
	}
	return nil
}

// tool checks a tool call that begins.
func (l *ledger) tool(id conversation.CallID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started[id]++
	switch {
	case !l.calls[id]:
		return fmt.Errorf("tool call %s runs and is not durable", id)
	case l.started[id] > 1:
		return fmt.Errorf("tool call %s runs %d times", id, l.started[id])
	}
	return nil
}

// wrote notes that data of a source has its place.
func (l *ledger) wrote(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[from]++
}

// source returns how often data was written under a name before.
func (l *ledger) source(from string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sources[from]++
	return l.sources[from] - 1
}

// failed notes that the n-th call for a step fails.
func (l *ledger) failed(id conversation.SubmissionID, n int, passing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.failures[id]
	f.good, f.row = f.good || !passing, max(f.row, n+1)
	l.failures[id] = f
}

// lost notes that a request has come to nothing. A model call may fail for want of
// the history that it was to be shown.
func (l *ledger) lost(o op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if parts := strings.Split(o.key, "/"); o.method == http.MethodGet && len(parts) == 4 && parts[2] == "page" {
		l.unread[conversation.Key(parts[1])]++
	}
}

// abort notes that an abort is asked for and returns it with what it has to end.
func (l *ledger) abort(conv conversation.Key) (*abortCall, []conversation.SubmissionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owed := l.owed(conv)
	c := &abortCall{from: l.now, to: math.MaxInt, free: len(owed) == 0}
	l.aborts[conv] = append(l.aborts[conv], c)
	return c, owed
}

// aborted notes that an abort was granted and returns what of owed has not ended.
func (l *ledger) aborted(conv conversation.Key, c *abortCall, owed []conversation.SubmissionID) []conversation.SubmissionID {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.to = l.now
	return slices.DeleteFunc(slices.Clone(owed), func(id conversation.SubmissionID) bool { return l.admitted[conv][id] })
}

// denied notes that an abort has found nothing and reports whether that was so at
// some time since it was asked for.
func (l *ledger) denied(c *abortCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.to = l.now
	return c.free
}

// asked reports whether somebody wanted an abort when a batch landed.
func (l *ledger) asked(conv conversation.Key, off conversation.Offset) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.batches[conv][int64(off)].at
	return slices.ContainsFunc(l.aborts[conv], func(c *abortCall) bool { return c.from < at && at <= c.to })
}
