package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// checkAborts checks that an abort ends what it covers, and nothing else is aborted.
func (w *world) checkAborts(at conversation.Address, log *knownLog) {
	covered := map[conversation.SubmissionID]bool{}
	for _, b := range log.batches {
		ended := map[conversation.SubmissionID]conversation.Outcome{}
		var asked []conversation.SubmissionID
		for _, r := range b.Records {
			switch r := r.(type) {
			case *conversation.AbortRequested:
				if !w.ledger.asked(at.Key(), b.Offset) {
					w.trace.Violate(at.ID, "batch %d aborts %v and nobody asked for it", int64(b.Offset), r.Submissions)
				}
				asked = append(asked, r.Submissions...)
			case *conversation.SubmissionSettled:
				ended[r.Submission] = r.Outcome
				w.shown.Add(didSettle + schedule.Deed(r.Outcome))
			case *conversation.StepDropped:
				w.shown.Add(didDrop)
			}
		}
		for _, id := range asked {
			covered[id] = true
			if ended[id] != conversation.OutcomeAborted {
				w.trace.Violate(at.ID, "batch %d aborts %s, which it settles as %q", int64(b.Offset), id, ended[id])
			}
		}
		for id, outcome := range ended {
			if outcome == conversation.OutcomeAborted && !covered[id] {
				w.trace.Violate(at.ID, "%s is aborted and no abort covers it", id)
			}
		}
	}
}

// record is what a log says of the work on one submission.
type record struct {
	conv     conversation.Key
	sub      *conversation.Submission
	settled  *conversation.SubmissionSettled
	started  []json.RawMessage // metadata of its first step
	merged   []json.RawMessage
	finished int // pieces of data of the hook
}

// checkWork checks that what models, tools and hooks have said is recorded once.
func (w *world) checkWork(at conversation.Address, log *knownLog) {
	work := map[conversation.SubmissionID]*record{}
	byMessage := map[conversation.MessageID]*record{}
	calls := map[conversation.CallID]*conversation.ToolCalled{}
	stored := map[conversation.CallID]*conversation.OutputStored{}
	outcomes := map[conversation.CallID]int{}
	data := map[string][]int{}
	for _, b := range log.batches {
		for _, r := range b.Records {
			switch r := r.(type) {
			case *conversation.SubmissionAdmitted:
				work[r.Submission] = &record{conv: at.Key(), sub: log.state.Submission(r.Submission)}
			case *conversation.SubmissionSettled:
				work[r.Submission].settled = r
			case *conversation.ResponseStarted:
				if byMessage[r.Message] == nil {
					byMessage[r.Message] = work[r.Submission]
					work[r.Submission].started = append(work[r.Submission].started, r.Metadata)
				}
			case *conversation.MetadataMerged:
				byMessage[r.Message].merged = append(byMessage[r.Message].merged, r.Metadata)
			case *conversation.ToolCalled:
				calls[r.Call] = r
			case *conversation.OutputStored:
				stored[r.Call] = r
			case *conversation.ToolSettled:
				outcomes[r.Call]++
				w.checkOutcome(at.Key(), r, calls[r.Call], stored[r.Call], data[string(r.Call)])
			case *conversation.DataWritten:
				if r.Name != dataName { // of a wait
					continue
				}
				var p progress
				if err := json.Unmarshal(r.Data, &p); err != nil || slices.Contains(data[p.From], p.N) {
					w.trace.Violate(at.ID, "batch %d writes %s again, or what it is: %v", int64(b.Offset), r.Data, err)
				}
				data[p.From] = append(data[p.From], p.N)
				w.shown.Add(didData)
				if strings.HasPrefix(p.From, "hook-") {
					byMessage[r.Message].finished++
				}
			}
		}
	}
	for id, n := range outcomes {
		if n != 1 {
			w.trace.Violate(at.ID, "call %s has %d outcomes", id, n)
		}
	}
	for _, rec := range work {
		if rec.sub == nil || rec.settled == nil { // others tell
			continue
		}
		if _, signal := rec.sub.Delivery.Awaited(); !signal {
			w.checkRecord(rec)
		}
	}
}

// checkOutcome checks the outcome of a call that its tool has brought to an end.
func (w *world) checkOutcome(conv conversation.Key, r *conversation.ToolSettled, c *conversation.ToolCalled, stored *conversation.OutputStored, written []int) {
	if r.Failed {
		w.shown.Add(didToolFail)
	}
	var in workInput
	if c == nil || c.Name == waitTool || r.DurationMs == nil || json.Unmarshal(c.Input, &in) != nil {
		return
	}
	w.ledger.mu.Lock()
	started, wrote := w.ledger.started[r.Call], w.ledger.writes[string(r.Call)]
	w.ledger.mu.Unlock()
	var out string
	switch {
	case started != 1:
		w.trace.Violate(string(r.Call), "its outcome is recorded and it ran %d times", started)
	case len(written) != wrote || !slices.IsSorted(written):
		w.trace.Violate(string(r.Call), "its outcome is recorded after data %v, it wrote %d", written, wrote)
	case !r.Failed && (json.Unmarshal(r.Output, &out) != nil || stored == nil && out != worked(in)):
		w.trace.Violate(string(r.Call), "the input was %s, the output is %s", c.Input, r.Output)
	case stored != nil:
		w.checkStored(conv, r, stored, out, worked(in))
	case !r.Failed && (in.Millis%7 == 0 || in.Millis%11 == 0):
		w.trace.Violate(string(r.Call), "it failed and its outcome is %s", r.Output)
	case r.Failed && r.ErrorText == errWork && in.Millis%7 != 0:
		w.trace.Violate(string(r.Call), "it did not fail and its outcome is %q", r.ErrorText)
	}
}

// checkStored checks that an output of which a part is recorded is there.
func (w *world) checkStored(conv conversation.Key, r *conversation.ToolSettled, s *conversation.OutputStored, shown, want string) {
	w.shown.Add(didStore)
	var got strings.Builder
	for _, p := range s.Pieces {
		var digest storage.Digest
		err := digest.UnmarshalText([]byte(p.SHA256))
		if err == nil {
			var content io.ReadCloser
			if content, err = storage.OpenBlob(context.Background(), w.bucket, conv, digest, p.Size); err == nil {
				_, err = io.Copy(&got, content)
				err = errors.Join(err, content.Close())
			}
		}
		if err != nil {
			w.trace.Violate(string(r.Call), "a piece of its output cannot be read: %v", err)
			return
		}
	}
	if got.String() != want || r.Failed || s.Size != int64(len(want)) || !strings.HasPrefix(shown, s.Head) || !strings.HasSuffix(shown, s.Tail) {
		w.trace.Violate(string(r.Call), "%d bytes of its output are stored, of %d; it is recorded as %s %s", got.Len(), len(want), r.Output, r.ErrorText)
	}
}

// checkRecord checks what a settled submission says.
func (w *world) checkRecord(rec *record) {
	sub, body := rec.sub, rec.sub.Delivery.Body
	if open := sub.OpenCalls(); len(open) > 0 || sub.OpenTurn() != "" {
		w.trace.Violate(body, "settled with the turn %q and calls %v open", sub.OpenTurn(), open)
	}
	last := 0
	for _, t := range sub.Turns() {
		if t.Note != "" || !t.Completed || t.StopReason != string(providers.StopStop) && t.StopReason != string(providers.StopToolUse) {
			continue
		}
		var text strings.Builder
		for _, p := range t.Parts {
			if p.Tool == nil && p.Kind == conversation.PartText {
				text.WriteString(p.Text)
			}
		}
		var step int
		if _, err := fmt.Sscanf(text.String(), body+" says %d.", &step); err != nil || text.String() != said(w.seed, body, step) {
			w.trace.Violate(body, "a complete step says %q", text.String())
		}
		last = step
	}
	switch rec.settled.Outcome {
	case conversation.OutcomeCompleted:
		if last != lastStep(w.seed, body) {
			w.trace.Violate(body, "completed after step %d of %d", last, lastStep(w.seed, body))
		}
		w.checkHooks(rec)
	case conversation.OutcomeFailed:
		w.checkFailure(rec)
	case conversation.OutcomeAborted:
		if rec.settled.Error == nil || rec.settled.Error.Type != conversation.CodeAborted {
			w.trace.Violate(body, "aborted with %+v", rec.settled.Error)
		}
	}
}

// checkHooks checks that what hooks have said about a complete response is there
// once, and their data at least once.
func (w *world) checkHooks(rec *record) {
	body := rec.sub.Delivery.Body
	for hook, have := range map[string][]json.RawMessage{"started": rec.started, "finished": rec.merged} {
		want := []byte(fmt.Sprintf(`{"by":{%q:%q}}`, hook, body))
		have = slices.DeleteFunc(slices.Clone(have), func(m json.RawMessage) bool { return len(m) == 0 })
		decorated := len(have) == 0
		if w.mode(hook, body) == decorates {
			decorated = len(have) == 1 && bytes.Equal(have[0], want)
		}
		if !decorated && (hook == "started" || rec.sub.Attempts < maxAttempts) {
			w.trace.Violate(body, "the hook %s %s, recorded is %q", hook, w.mode(hook, body), have)
		}
	}
	if w.mode("finished", body) == decorates && rec.finished == 0 && rec.sub.Attempts < maxAttempts {
		w.trace.Violate(body, "the data of the hook is missing")
	}
}

// checkFailure checks that a submission had a reason to fail.
func (w *world) checkFailure(rec *record) {
	w.ledger.mu.Lock()
	f, unread := w.ledger.failures[rec.sub.ID], w.ledger.unread[rec.conv]
	w.ledger.mu.Unlock()
	err := rec.settled.Error
	switch {
	case err == nil:
		w.trace.Violate(rec.sub.Delivery.Body, "failed without an error")
	case err.Type == conversation.CodeModelFailed && (f.good || f.row+unread/pageReads > maxRetries):
	case err.Type == conversation.CodeRetryExhausted && rec.sub.Attempts >= maxAttempts:
	default:
		w.trace.Violate(rec.sub.Delivery.Body, "failed with %+v after %d attempts, its model calls: %+v, lost reads of history: %d",
			*err, rec.sub.Attempts, f, unread)
	}
}

// askAgain asks a quiet node what it must know by now: it has the attachments, it
// replays keys, and refuses what does not fit.
func (w *world) askAgain(ctx context.Context, at conversation.Address) {
	m := w.pick(int(schedule.Draw(w.seed, "ask", at.ID) % slots))
	state := w.log(ctx, at).state
	if m == nil || !state.Exists() {
		return
	}
	// The offset makes the node look for what it has not heard of.
	if _, err := w.updates(ctx, m, at, state.Head(), 1); err != nil {
		w.trace.Violate(m.id, "read after the head %d: %v", int64(state.Head()), err)
		return
	}
	asked := 0
	for _, b := range w.log(ctx, at).batches {
		for _, r := range b.Records {
			r, ok := r.(*conversation.SubmissionAdmitted)
			if !ok {
				continue
			}
			for _, a := range r.Delivery.Attachments {
				w.readAttachment(ctx, m, at, a, r.Delivery.Body)
			}
			if asked++; asked == 1 {
				w.askKey(ctx, m, at, r, state.Created().UID)
			}
		}
	}
}

// askKey asks about a recorded key.
func (w *world) askKey(ctx context.Context, m *member, at conversation.Address, r *conversation.SubmissionAdmitted, uid conversation.UID) {
	other := r.Delivery
	other.Body += "?"
	for _, c := range []struct {
		admission conversation.Admission
		want      conversation.Code
	}{
		{conversation.Admission{Address: at, Key: r.Key, Delivery: r.Delivery}, ""},
		{conversation.Admission{Address: at, Key: r.Key, Delivery: other}, conversation.CodeSubmissionConflict},
		{conversation.Admission{Address: at, Key: "new", Delivery: r.Delivery, Condition: conversation.Condition{Absent: true}}, conversation.CodeInstanceExists},
		{conversation.Admission{Address: at, Key: "new", Delivery: r.Delivery, Condition: conversation.Condition{Set: true, UID: "inst_of_nobody"}}, conversation.CodeInstanceNotFound},
	} {
		receipt, err := m.node.Precheck(ctx, c.admission)
		switch {
		case c.want == "" && (err != nil || receipt == nil || receipt.SubmissionID != r.Submission || receipt.UID != uid):
			w.trace.Violate(m.id, "asked for the key of %s at the end: %+v, %v", r.Submission, receipt, err)
		case c.want != "" && (err == nil || conversation.CodeOf(err) != c.want):
			w.trace.Violate(m.id, "asked for %+v at the end: %+v, %v", c.admission, receipt, err)
		}
		w.shown.Add(didAsk)
	}
}

func (w *world) readAttachment(ctx context.Context, m *member, at conversation.Address, a conversation.Attachment, body string) {
	meta, content, err := m.node.Reader().Attachment(ctx, at, a.ID)
	if err != nil {
		w.trace.Violate(m.id, "attachment %s of %s cannot be read: %v", a.ID, body, err)
		return
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	if err != nil || meta != a || !bytes.Equal(data, picture(w.seed, body)) {
		w.trace.Violate(m.id, "attachment %+v of %s is read as %+v with %d bytes: %v", a, body, meta, len(data), err)
	}
	w.shown.Add(didAttach)
}
