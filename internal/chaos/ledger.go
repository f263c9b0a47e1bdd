package chaos

import (
	"fmt"
	"math"
	"slices"
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

	started schedule.Counter[conversation.CallID]
	writes  schedule.Counter[string]           // of data that its source knows to have its place
	sources schedule.Counter[string]           // how often data was written under a name
	unread  schedule.Counter[conversation.Key] // reads of pages of history that came to nothing, for want of which a model call may fail
	freed   schedule.Counter[string]           // deletions of batches, by key

	mu       sync.Mutex
	now      int // counts landings
	logs     map[conversation.Key]*landedLog
	claims   map[storage.Nonce]*claim
	attempts map[attemptID]startedAttempt
	calls    map[conversation.CallID]bool // whose records have landed
	failures map[conversation.SubmissionID]failed
}

type landedLog struct {
	batches map[int64]landing
	settled map[conversation.SubmissionID]bool // by what was admitted
	aborts  []*abortCall
}

// failed is what a model has refused to a submission.
type failed struct {
	good bool // for good
	row  int  // calls in a row
}

// abortCall is a request to abort, from when it was made until it was answered.
type abortCall struct {
	log      *landedLog
	owed     []conversation.SubmissionID // when it was made
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
	member   string
	conv     conversation.Key
	seq      int64
	answered int // landings counted when the last answer to it came, -1 before
}

// attemptID is what a model call is for.
type attemptID struct {
	submission conversation.SubmissionID
	attempt    int
}

// startedAttempt is where a log says that an attempt has started.
type startedAttempt struct {
	nonce storage.Nonce
	seq   int64
}

func newLedger(t *schedule.Trace) *ledger {
	return &ledger{
		trace: t, logs: map[conversation.Key]*landedLog{}, claims: map[storage.Nonce]*claim{}, attempts: map[attemptID]startedAttempt{},
		calls: map[conversation.CallID]bool{}, failures: map[conversation.SubmissionID]failed{},
	}
}

// log returns what has landed of a log; l.mu is held.
func (l *ledger) log(conv conversation.Key) *landedLog {
	if l.logs[conv] == nil {
		l.logs[conv] = &landedLog{batches: map[int64]landing{}, settled: map[conversation.SubmissionID]bool{}}
	}
	return l.logs[conv]
}

// sent notes what a node says about itself in a batch, before it can land. It returns nil for
// what is none.
func (l *ledger) sent(member, key string, body []byte) *storage.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, err := storage.ParseKey(key)
	b, bad := storage.DecodeBatch(body, 0)
	if err != nil || bad != nil || b.Seq != name.First {
		l.trace.Violate(member, "sends %s, which is not that batch", key)
		return nil
	}
	if b.First && l.claims[b.Nonce] == nil {
		l.claims[b.Nonce] = &claim{member: member, conv: name.Conv, seq: b.Seq, answered: -1}
	}
	return &b
}

func (l *ledger) landed(key string, b *storage.Batch) {
	name, _ := storage.ParseKey(key) // sent has looked
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log(name.Conv)
	old, again := log.batches[b.Seq]
	switch { // A compaction has freed the key: the same batch may take it, or a claim on a stale view, which is no part of the log.
	case again && (l.freed.Count(key) == 0 || old.hash != b.Hash && !b.First):
		l.trace.Violate("store", "%s changes from %v to %v", key, old.hash, b.Hash)
	case again && old.hash != b.Hash:
		l.trace.Add("store", "%s was compacted, and is taken by a claim of %s", key, b.Nonce)
		l.trace.Did("key taken again")
	}
	if again {
		return
	}
	l.now++
	log.batches[b.Seq] = landing{l.now, b.Nonce, b.Hash}
	records, err := conversation.DecodeRecords(b.Lines)
	l.trace.ViolateIf(err != nil, "store", "takes %s: %v", key, err)
	var names []string
	for _, r := range records {
		names = append(names, string(r.Type()))
		switch r := r.(type) {
		case *conversation.AttemptStarted:
			l.attempts[attemptID{r.Submission, r.Attempt}] = startedAttempt{storage.Nonce(r.Writer), b.Seq}
		case *conversation.ToolCalled:
			l.calls[r.Call] = true
		case *conversation.SubmissionAdmitted:
			log.settled[r.Submission] = false
		case *conversation.SubmissionSettled:
			log.settled[r.Submission] = true
			if len(log.owed()) == 0 { // If only until the next record: aborts have their places between records.
				for _, c := range log.aborts {
					c.free = c.free || c.to == math.MaxInt
				}
			}
		}
	}
	l.trace.Add("store", "%.6s/%d by %s first=%v: %s", name.Conv, b.Seq, b.Nonce, b.First, strings.Join(names, " "))
}

func (l *landedLog) owed() (owed []conversation.SubmissionID) {
	for id, settled := range l.settled {
		if !settled {
			owed = append(owed, id)
		}
	}
	slices.Sort(owed)
	return owed
}

// answered notes that the sender of a batch got an answer which settles its fate.
func (l *ledger) answered(b *storage.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.First {
		l.claims[b.Nonce].answered = l.now
	}
}

func (l *ledger) model(member string, id attemptID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	start, ok := l.attempts[id]
	nonce, c := start.nonce, l.claims[start.nonce]
	if !ok || c == nil || c.member != member {
		return fmt.Errorf("model call for %s, attempt %d, which has not landed for this node", id.submission, id.attempt)
	}
	batches := l.log(c.conv).batches
	if batches[c.seq].nonce != nonce || batches[start.seq].nonce != nonce {
		return fmt.Errorf("model call by %s, whose claim %d or attempt %d is not in the log of %.6s", nonce, c.seq, start.seq, c.conv)
	}
	for seq, b := range batches {
		if seq > c.seq && b.nonce != nonce && b.at <= c.answered {
			return fmt.Errorf("model call by %s: its claim %d of %.6s was acknowledged after %s had stored %d",
				nonce, c.seq, c.conv, b.nonce, seq)
		}
	}
	return nil
}

func (l *ledger) tool(id conversation.CallID) error {
	before := l.started.Next(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.calls[id]:
		return fmt.Errorf("tool call %s runs and is not durable", id)
	case before > 0:
		return fmt.Errorf("tool call %s runs %d times", id, before+1)
	}
	l.trace.Did("tool call")
	return nil
}

// failed notes that the n-th call for a step fails.
func (l *ledger) failed(id conversation.SubmissionID, n int, passing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.failures[id]
	l.failures[id] = failed{f.good || !passing, max(f.row, n+1)}
}

func (l *ledger) abort(conv conversation.Key) *abortCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log(conv)
	c := &abortCall{log: log, owed: log.owed(), from: l.now, to: math.MaxInt}
	c.free = len(c.owed) == 0
	log.aborts = append(log.aborts, c)
	return c
}

// ended notes that an abort is answered. It returns what is left of what was owed, and whether nothing was
// at some time since it was asked for.
func (l *ledger) ended(c *abortCall) (left []conversation.SubmissionID, free bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.to = l.now
	return slices.DeleteFunc(slices.Clone(c.owed), func(id conversation.SubmissionID) bool { return c.log.settled[id] }), c.free
}

// asked reports whether somebody wanted an abort when a batch landed.
func (l *ledger) asked(conv conversation.Key, seq int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log(conv)
	at := log.batches[seq].at
	return slices.ContainsFunc(log.aborts, func(c *abortCall) bool { return c.from < at && at <= c.to })
}
