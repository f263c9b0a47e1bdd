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

// evidence holds the observations of clients at the end of a run. No server runs any more.
type evidence struct {
	place  noderun.Place
	ledger string // file name
	convs  []convEvidence
}

// convEvidence holds the observations of one conversation.
type convEvidence struct {
	posts    []*post
	aborts   aborts
	snapshot []byte // the last one, nil without a conversation
	offset   conversation.Offset
	reads    []noderun.Sight
}

// ledgerCall holds the ledger entries of one call.
type ledgerCall struct {
	submission   string
	attempt      int
	began, ended int
	result       string
}

// audit compares the logs with the evidence and returns the flaws. It adds its counts to the report.
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
	for n := range e.convs {
		a := &auditor{LogView: noderun.NewLogView("worker", room(n)), n: n, drive: &e.convs[n], ledger: ledger, rep: rep}
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
			flaws = append(flaws, fmt.Sprintf("call %s of %s ran but is in no log", call, l.submission))
		}
		if l.began > 1 || l.ended > l.began {
			flaws = append(flaws, fmt.Sprintf("call %s of %s began %d times and ended %d times", call, l.submission, l.began, l.ended))
		}
	}
	rep.counts["tool calls run"] += len(ledger)
	return flaws, nil
}

// readLedger reads the ledger of the tools. A kill cannot truncate a line, because each line is one
// write.
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

type auditor struct {
	*noderun.LogView
	n      int
	drive  *convEvidence
	ledger map[string]ledgerCall
	rep    *report
	facts  *facts
	flaws  []string
}

func (a *auditor) flaw(format string, args ...any) {
	a.flaws = append(a.flaws, room(a.n)+": "+fmt.Sprintf(format, args...))
}

// batch adds a batch of the log. It compares the snapshot of the last server at its offset.
func (a *auditor) batch(b conversation.Batch) error {
	if !a.State.Exists() {
		// The server crashed before its first batch was stored, and the next one put a claim there.
		if len(b.Records) > 0 {
			a.flaw("batch %s comes before the creation", b.Offset)
		}
		a.rep.counts["claims before the creation"]++
	}
	a.facts.batch(b)
	if a.drive.snapshot == nil || b.Offset != a.drive.offset {
		return nil
	}
	want, err := conversation.EncodeJSON(a.State.Snapshot())
	if err == nil && !noderun.SameJSON(want, a.drive.snapshot) {
		a.flaw("snapshot of the last server\n%s\nwant the fold of its log\n%s", a.drive.snapshot, want)
	}
	return err
}

func (a *auditor) check() {
	a.rep.counts["batches"] += len(a.Hashes)
	switch {
	case a.drive.snapshot == nil && a.State.Exists():
		a.flaw("unknown to the last server, but its log has batches")
	case a.drive.snapshot != nil && a.State.Head() < a.drive.offset:
		a.flaw("log ends at %s, but the last snapshot is at %s", a.State.Head(), a.drive.offset)
	}
	for _, s := range a.drive.reads {
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

// checkPosts checks that every acknowledged message is in the log, once per key, and that every
// message in the log was sent.
func (a *auditor) checkPosts() {
	keys := map[string]*post{}
	for _, p := range a.drive.posts {
		keys[p.Key] = p
		got := a.facts.byKey[p.Key]
		switch {
		case len(got) > 1:
			a.flaw("key %s was admitted as %v", p.Key, got)
		case p.Receipt == nil:
			// Unknown outcome: at most once.
		case len(got) == 0:
			a.flaw("key %s has receipt %+v but is not in the log", p.Key, *p.Receipt)
		default:
			sub := a.facts.subs[got[0]]
			if r := p.Receipt; r.SubmissionID != sub.admitted.Submission || r.Offset != sub.offset || r.UID != a.State.Created().UID {
				a.flaw("key %s has receipt %+v, but the log has %s at %s", p.Key, *r, sub.admitted.Submission, sub.offset)
			}
		}
		for _, id := range got {
			d := a.facts.subs[id].admitted.Delivery
			if d.Body != p.Op.script() || (p.Image != nil) != (len(d.Attachments) == 1) {
				a.flaw("key %s: sent %q, but the log has %q and %d attachments", p.Key, p.Op.script(), d.Body, len(d.Attachments))
			}
		}
	}
	for key, ids := range a.facts.byKey {
		if keys[key] == nil {
			a.flaw("%v were admitted under key %q, which was never sent", ids, key)
		}
	}
	a.rep.counts["submissions"] += len(a.facts.order)
}
