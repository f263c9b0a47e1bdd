package killrun_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// evidence is what clients know at the end of a run. The servers are gone.
type evidence struct {
	place  noderun.Place
	ledger string // Name of the file.
	talks  []talkEvidence
}

// talkEvidence is about one conversation.
type talkEvidence struct {
	posts    []*post
	aborts   aborts
	snapshot []byte // The last one, nil without a conversation.
	offset   conversation.Offset
	reads    []noderun.Sight
}

// ledgerCall is what tools have noted of one call.
type ledgerCall struct {
	submission   string
	attempt      int
	began, ended int
	result       string
}

// audit reads the logs and returns what does not fit the evidence. It adds what it
// finds to the report.
func audit(ctx context.Context, e *evidence, rep *report) (flaws []string, err error) {
	ledger, err := readLedger(e.ledger)
	if err != nil {
		return nil, err
	}
	bucket, closeBucket, err := e.place.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeBucket()) }()
	logs := storage.NewLogs(bucket, nil)
	known := map[string]bool{}
	for n := range e.talks {
		a := &auditor{Story: noderun.NewStory("worker", room(n)), n: n, talk: &e.talks[n], ledger: ledger, rep: rep}
		a.facts, a.Each = newFacts(a), a.batch
		if err := a.Read(ctx, logs); err != nil {
			return nil, fmt.Errorf("%s: %w", room(n), err)
		}
		a.check()
		for call := range a.facts.calls {
			known[string(call)] = true
		}
		flaws = append(flaws, a.flaws...)
	}
	for call, l := range ledger {
		if !known[call] {
			flaws = append(flaws, fmt.Sprintf("call %s of %s ran and is in no log", call, l.submission))
		}
		if l.began > 1 || l.ended > l.began {
			flaws = append(flaws, fmt.Sprintf("call %s of %s began %d times and ended %d times", call, l.submission, l.began, l.ended))
		}
	}
	rep.counts["tool calls run"] += len(ledger)
	return flaws, nil
}

// readLedger reads the tools' notes. A line that a kill cut short cannot be: it is
// one write.
func readLedger(name string) (map[string]ledgerCall, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	calls := map[string]ledgerCall{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var l ledgerLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("read ledger line %q: %w", lines.Text(), err)
		}
		c := calls[l.Call]
		c.submission, c.attempt = l.Submission, l.Attempt
		if l.Began {
			c.began++
		}
		if l.Ended {
			c.ended++
			c.result = l.Result
		}
		calls[l.Call] = c
	}
	return calls, lines.Err()
}

// auditor checks one conversation.
type auditor struct {
	*noderun.Story
	n      int
	talk   *talkEvidence
	ledger map[string]ledgerCall
	rep    *report
	facts  *facts
	flaws  []string
}

func (a *auditor) flaw(format string, args ...any) {
	a.flaws = append(a.flaws, room(a.n)+": "+fmt.Sprintf(format, args...))
}

// batch looks at a batch of the log. The snapshot of the last server is compared at its
// offset.
func (a *auditor) batch(b conversation.Batch) error {
	if !a.State.Exists() {
		// A server died before its first batch was stored, and the next one has put a
		// claim there.
		if len(b.Records) > 0 {
			a.flaw("batch %s comes before the creation", b.Offset)
		}
		a.rep.counts["claims before the creation"]++
	}
	a.facts.batch(b)
	if a.talk.snapshot == nil || b.Offset != a.talk.offset {
		return nil
	}
	want, err := conversation.EncodeJSON(a.State.Snapshot())
	if err == nil && !noderun.SameJSON(want, a.talk.snapshot) {
		a.flaw("the last server's snapshot is\n%s\nand the fold of its log\n%s", a.talk.snapshot, want)
	}
	return err
}

func (a *auditor) check() {
	a.rep.counts["batches"] += len(a.Hashes)
	switch {
	case a.talk.snapshot == nil && a.State.Exists():
		a.flaw("the last server did not know it, and its log has batches")
	case a.talk.snapshot != nil && a.State.Head() < a.talk.offset:
		a.flaw("the log ends at %s, the last snapshot is at %s", a.State.Head(), a.talk.offset)
	}
	for _, s := range a.talk.reads {
		if lack := a.Lacks(s); lack != "" {
			a.flaw("%s", lack)
		}
	}
	a.checkPosts()
	a.checkSettlements()
	a.checkCalls()
	if a.State.Exists() {
		a.checkResponses()
	}
}

// checkPosts checks that what was acknowledged is in the log, once per key, and
// that nothing is that nobody sent.
func (a *auditor) checkPosts() {
	keys := map[string]*post{}
	for _, p := range a.talk.posts {
		keys[p.Key] = p
		got := a.facts.byKey[p.Key]
		switch {
		case len(got) > 1:
			a.flaw("key %s was admitted as %v", p.Key, got)
		case p.Receipt == nil:
			// Whatever it is, it is at most once.
		case len(got) == 0:
			a.flaw("key %s was answered with %+v and is not in the log", p.Key, *p.Receipt)
		default:
			sub := a.facts.subs[got[0]]
			if r := p.Receipt; r.SubmissionID != sub.admitted.Submission || r.Offset != sub.offset || r.UID != a.State.Created().UID {
				a.flaw("key %s was answered with %+v, the log has %s at %s", p.Key, *r, sub.admitted.Submission, sub.offset)
			}
		}
		for _, id := range got {
			d := a.facts.subs[id].admitted.Delivery
			if d.Body != p.Op.script() || (p.Image != nil) != (len(d.Attachments) == 1) {
				a.flaw("key %s delivered %q, the log has %q and %d attachments", p.Key, p.Op.script(), d.Body, len(d.Attachments))
			}
		}
	}
	for key, ids := range a.facts.byKey {
		if keys[key] == nil {
			a.flaw("%v were admitted under key %q, which nobody sent", ids, key)
		}
	}
	a.rep.counts["submissions"] += len(a.facts.order)
}
