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

	trees   map[conversation.TreeRef]*landedTree
	members map[conversation.SubmissionID]*treeMember
}

// landedTree is what has landed of a tree of dispatches in the log of its root.
type landedTree struct {
	closed  bool
	counted conversation.TreeCounted // the largest totals
}

// treeMember is a submission that has landed, of the tree that it began or belongs to.
type treeMember struct {
	tree    conversation.TreeRef
	settled bool
	calls   int           // of models
	ran     time.Duration // when a model was last called for it by a writer that no other had replaced
}

type landedLog struct {
	at      conversation.Address
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
	trees    bool                        // it is of the trees that began in the conversation
	owed     []conversation.SubmissionID // when it was made, that of the trees included
	answered time.Duration               // 0 before
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
		trees: map[conversation.TreeRef]*landedTree{}, members: map[conversation.SubmissionID]*treeMember{},
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
	c.to, c.answered = l.now, l.trace.Now()
	return slices.DeleteFunc(slices.Clone(c.owed), func(id conversation.SubmissionID) bool {
		return c.log.settled[id] || l.members[id] != nil && l.members[id].settled
	}), c.free
}

// asked reports whether somebody wanted an abort, or one of trees, when a batch landed.
func (l *ledger) asked(conv conversation.Key, seq int64, trees bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log(conv)
	at := log.batches[seq].at
	return slices.ContainsFunc(log.aborts, func(c *abortCall) bool { return c.from < at && at <= c.to && (c.trees || !trees) })
}

// landedOfTree notes what a record means for trees of dispatches; l.mu is held.
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

// tree returns what has landed of a tree; l.mu is held.
func (l *ledger) tree(ref conversation.TreeRef) *landedTree {
	if l.trees[ref] == nil {
		l.trees[ref] = &landedTree{}
	}
	return l.trees[ref]
}

// treeOf returns whether the tree of a submission is closed, and what it has used.
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

// abortTree notes an abort of the trees that began in a conversation.
func (l *ledger) abortTree(at conversation.Address) *abortCall {
	c := l.abort(at.Key())
	l.mu.Lock()
	defer l.mu.Unlock()
	c.trees = true
	for id, m := range l.members {
		if m.tree.Root == at && !m.settled && !slices.Contains(c.owed, id) {
			c.owed = append(c.owed, id)
		}
	}
	slices.Sort(c.owed)
	return c
}

// runsAfter returns when a model was last called for a submission whose tree was closed at a landing, and whether an
// abort of the tree had been answered by then.
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

// callsFor returns how often a model was called for a submission.
func (l *ledger) callsFor(id conversation.SubmissionID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.members[id]; m != nil {
		return m.calls
	}
	return 0
}

// landedAt returns the landing of a batch.
func (l *ledger) landedAt(conv conversation.Key, seq int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log(conv).batches[seq].at
}
