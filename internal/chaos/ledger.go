package chaos

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// ledger records the batches sent to the logs, the order in which they landed, and when a claim was
// acknowledged to its writer.
type ledger struct {
	trace *schedule.Trace

	started schedule.Counter[conversation.CallID]
	writes  schedule.Counter[string]           // of data whose source knows its offset
	sources schedule.Counter[string]           // writes of data by name
	unread  schedule.Counter[conversation.Key] // failed reads of history pages, which may fail a model call
	freed   schedule.Counter[string]           // deletions of batches, by key

	mu       sync.Mutex
	now      int // counts landings
	logs     map[conversation.Key]*landedLog
	claims   map[storage.Nonce]*claim
	attempts map[attemptID]startedAttempt
	calls    map[conversation.CallID]bool // with a durable record
	failures map[conversation.SubmissionID]failed

	trees   map[conversation.TreeRef]*landedTree
	members map[conversation.SubmissionID]*treeMember
}

// landedTree is the landed state of a tree of dispatches in the log of its root.
type landedTree struct {
	closed  bool
	counted conversation.TreeCounted // the largest totals
}

// treeMember is a landed submission of a tree, the root included.
type treeMember struct {
	tree    conversation.TreeRef
	settled bool
	calls   int           // of models
	ran     time.Duration // last model call by a writer that was not replaced
}

type landedLog struct {
	at      conversation.Address
	batches map[int64]landing
	settled map[conversation.SubmissionID]bool // by admitted submission
	aborts  []*abortCall
}

// failed counts the failed model calls of a submission.
type failed struct {
	good bool // permanently
	row  int  // calls in a row
}

// abortCall is a request to abort, from the request to its answer.
type abortCall struct {
	log       *landedLog
	trees     bool                        // also aborts the trees rooted in the conversation
	unsettled []conversation.SubmissionID // unsettled at the request, tree members included
	answered  time.Duration               // 0 before
	from, to  int
	free      bool // no submission was unsettled at some time in between
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
	answered int // landing count at its last answer, -1 before
}

// attemptID identifies the attempt of a model call.
type attemptID struct {
	submission conversation.SubmissionID
	attempt    int
}

// startedAttempt is the place of an attempt_started record.
type startedAttempt struct {
	nonce storage.Nonce
	seq   int64
}

func newLedger(t *schedule.Trace) *ledger {
	return &ledger{
		trace: t, logs: map[conversation.Key]*landedLog{}, claims: map[storage.Nonce]*claim{}, attempts: map[attemptID]startedAttempt{},
		calls: map[conversation.CallID]bool{}, failures: map[conversation.SubmissionID]failed{},
		trees: map[conversation.TreeRef]*landedTree{}, members: map[conversation.SubmissionID]*treeMember{},
	}
}

// log returns the landed state of a log; l.mu is held.
func (l *ledger) log(conv conversation.Key) *landedLog {
	if l.logs[conv] == nil {
		l.logs[conv] = &landedLog{batches: map[int64]landing{}, settled: map[conversation.SubmissionID]bool{}}
	}
	return l.logs[conv]
}

// sent records a batch before it can land. It returns nil for bytes that are no batch of that key.
func (l *ledger) sent(member, key string, body []byte) *storage.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, err := storage.ParseKey(key)
	b, bad := storage.DecodeBatch(body, 0)
	if err != nil || bad != nil || b.Seq != name.First {
		l.trace.Violate(member, "PUT %s: body is not that batch", key)
		return nil
	}
	if b.First && l.claims[b.Nonce] == nil {
		l.claims[b.Nonce] = &claim{member: member, conv: name.Conv, seq: b.Seq, answered: -1}
	}
	return &b
}

func (l *ledger) landed(key string, b *storage.Batch) {
	name, _ := storage.ParseKey(key) // checked by sent
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log(name.Conv)
	old, again := log.batches[b.Seq]
	switch { // A compaction has freed the key. The same batch may take it again, or a claim on a stale view, which is not part of the log.
	case again && (l.freed.Count(key) == 0 || old.hash != b.Hash && !b.First):
		l.trace.Violate("store", "%s changes from %v to %v", key, old.hash, b.Hash)
	case again && old.hash != b.Hash:
		l.trace.Add("store", "%s was compacted and reused by a claim of %s", key, b.Nonce)
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
		l.landedOfTree(log, r)
		switch r := r.(type) {
		case *conversation.AttemptStarted:
			l.attempts[attemptID{r.Submission, r.Attempt}] = startedAttempt{storage.Nonce(r.Writer), b.Seq}
		case *conversation.ToolCalled:
			l.calls[r.Call] = true
		case *conversation.SubmissionAdmitted:
			log.settled[r.Submission] = false
		case *conversation.SubmissionSettled:
			log.settled[r.Submission] = true
			if len(log.unsettled()) == 0 { // Even if only until the next record: aborts are placed between records.
				for _, c := range log.aborts {
					c.free = c.free || c.to == math.MaxInt
				}
			}
		}
	}
	l.trace.Add("store", "%.6s/%d by %s first=%v: %s", name.Conv, b.Seq, b.Nonce, b.First, strings.Join(names, " "))
}

func (l *landedLog) unsettled() (unsettled []conversation.SubmissionID) {
	for id, settled := range l.settled {
		if !settled {
			unsettled = append(unsettled, id)
		}
	}
	slices.Sort(unsettled)
	return unsettled
}

// answered records that the sender of a batch got a definite answer.
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
		return fmt.Errorf("model call for %s, attempt %d: the attempt has not landed for this node", id.submission, id.attempt)
	}
	batches := l.log(c.conv).batches
	if batches[c.seq].nonce != nonce || batches[start.seq].nonce != nonce {
		return fmt.Errorf("model call by %s: claim %d or attempt %d is not in the log of %.6s", nonce, c.seq, start.seq, c.conv)
	}
	replaced := false
	for seq, b := range batches {
		replaced = replaced || seq > c.seq && b.nonce != nonce
		if seq > c.seq && b.nonce != nonce && b.at <= c.answered {
			return fmt.Errorf("model call by %s: its claim %d of %.6s was acknowledged after %s had stored %d",
				nonce, c.seq, c.conv, b.nonce, seq)
		}
	}
	if m := l.members[id.submission]; m != nil {
		if m.calls++; !replaced {
			m.ran = l.trace.Now()
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
		return fmt.Errorf("tool call %s runs before it is durable", id)
	case before > 0:
		return fmt.Errorf("tool call %s runs %d times", id, before+1)
	}
	l.trace.Did("tool call")
	return nil
}

// failed records that the n-th call for a step fails.
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
	c := &abortCall{log: log, unsettled: log.unsettled(), from: l.now, to: math.MaxInt}
	c.free = len(c.unsettled) == 0
	log.aborts = append(log.aborts, c)
	return c
}

// ended records the answer to an abort. It returns the submissions it should have ended that are still
// unsettled, and whether none was unsettled at some time since the request.
func (l *ledger) ended(c *abortCall) (left []conversation.SubmissionID, free bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.to, c.answered = l.now, l.trace.Now()
	return slices.DeleteFunc(slices.Clone(c.unsettled), func(id conversation.SubmissionID) bool {
		return c.log.settled[id] || l.members[id] != nil && l.members[id].settled
	}), c.free
}

// asked reports whether an abort, or one of trees, was requested when a batch landed.
func (l *ledger) asked(conv conversation.Key, seq int64, trees bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log(conv)
	at := log.batches[seq].at
	return slices.ContainsFunc(log.aborts, func(c *abortCall) bool { return c.from < at && at <= c.to && (c.trees || !trees) })
}

// landedOfTree applies a record to the trees of dispatches; l.mu is held.
func (l *ledger) landedOfTree(log *landedLog, r conversation.Record) {
	switch r := r.(type) {
	case *conversation.ConversationCreated:
		log.at = conversation.Address{Agent: r.Agent, ID: r.ID}
	case *conversation.SubmissionAdmitted:
		m := &treeMember{tree: conversation.TreeRef{Root: log.at, Submission: r.Submission}}
		if r.Tree != nil {
			m.tree = *r.Tree
		}
		l.members[r.Submission] = m
	case *conversation.SubmissionSettled:
		if m := l.members[r.Submission]; m != nil {
			m.settled = true
		}
	case *conversation.TreeCounted:
		t := l.tree(conversation.TreeRef{Root: log.at, Submission: r.Submission})
		t.counted.Submissions = max(t.counted.Submissions, r.Submissions)
		t.counted.Dollars = max(t.counted.Dollars, r.Dollars)
	case *conversation.AbortRequested:
		if !r.Trees {
			break
		}
		for ref, t := range l.trees {
			t.closed = t.closed || ref.Root == log.at
		}
		for _, id := range r.Submissions {
			l.tree(conversation.TreeRef{Root: log.at, Submission: id}).closed = true
		}
	}
}

// tree returns the landed state of a tree; l.mu is held.
func (l *ledger) tree(ref conversation.TreeRef) *landedTree {
	if l.trees[ref] == nil {
		l.trees[ref] = &landedTree{}
	}
	return l.trees[ref]
}

// treeOf returns whether the tree of a submission is closed, and its counted usage.
func (l *ledger) treeOf(id conversation.SubmissionID) (closed bool, used conversation.TreeCounted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.members[id]
	if m == nil {
		return false, used
	}
	t := l.tree(m.tree)
	return t.closed, t.counted
}

// overspent reports whether the tree of a submission has used up its budget.
func (l *ledger) overspent(id conversation.SubmissionID) bool {
	_, used := l.treeOf(id)
	return used.Submissions >= treeSubmissions || used.Dollars >= treeDollars
}

// abortTree records a request to abort the trees that began in a conversation.
func (l *ledger) abortTree(at conversation.Address) *abortCall {
	c := l.abort(at.Key())
	l.mu.Lock()
	defer l.mu.Unlock()
	c.trees = true
	for id, m := range l.members {
		if m.tree.Root == at && !m.settled && !slices.Contains(c.unsettled, id) {
			c.unsettled = append(c.unsettled, id)
		}
	}
	slices.Sort(c.unsettled)
	return c
}

// runsAfter returns the time of the last model call for a submission whose tree was closed at a
// landing, and whether an abort of the tree had been answered before it.
func (l *ledger) runsAfter(id conversation.SubmissionID, root conversation.Key, closed int) (ran time.Duration, after bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.members[id]; m != nil {
		ran = m.ran
	}
	return ran, slices.ContainsFunc(l.log(root).aborts, func(c *abortCall) bool {
		return c.trees && c.to >= closed && c.answered > 0 && c.answered < ran
	})
}

// callsFor returns the number of model calls for a submission.
func (l *ledger) callsFor(id conversation.SubmissionID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.members[id]; m != nil {
		return m.calls
	}
	return 0
}

func (l *ledger) landedAt(conv conversation.Key, seq int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log(conv).batches[seq].at
}
