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

// record is what a log says of the work on one submission.
type record struct {
	conv     conversation.Key
	sub      *conversation.Submission
	settled  *conversation.SubmissionSettled
	started  []json.RawMessage // metadata of its first step
	merged   []json.RawMessage
	finished int // pieces of data of the hook
}

// call is what a log says of one tool call.
type call struct {
	called   *conversation.ToolCalled
	stored   *conversation.OutputStored
	data     []int // that it has written
	outcomes int
}

// checkWork checks that what models, tools and hooks have said is recorded once.
func (w *world) checkWork(log *knownLog) {
	work := map[conversation.SubmissionID]*record{}
	byMessage := map[conversation.MessageID]*record{}
	calls := map[string]*call{} // and hooks, by the name under which they write data
	of := func(source string) *call {
		if calls[source] == nil {
			calls[source] = &call{}
		}
		return calls[source]
	}
	for off, r := range each[conversation.Record](log) {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			work[r.Submission] = &record{conv: log.at.Key(), sub: log.state.Submission(r.Submission)}
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
			of(string(r.Call)).called = r
		case *conversation.OutputStored:
			of(string(r.Call)).stored = r
		case *conversation.ToolSettled:
			c := of(string(r.Call))
			if c.outcomes++; c.outcomes == 2 {
				w.trace.Violate(log.at.ID, "call %s has two outcomes", r.Call)
			}
			w.checkOutcome(log.at.Key(), r, c)
		case *conversation.DataWritten:
			if r.Name != dataName { // of a wait
				continue
			}
			var p progress
			err := json.Unmarshal(r.Data, &p)
			c := of(p.From)
			if err != nil || slices.Contains(c.data, p.N) {
				w.trace.Violate(log.at.ID, "batch %d writes %s again, or what it is: %v", off, r.Data, err)
			}
			c.data = append(c.data, p.N)
			w.trace.Did("data written")
			if strings.HasPrefix(p.From, "hook-") {
				byMessage[r.Message].finished++
			}
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
func (w *world) checkOutcome(conv conversation.Key, r *conversation.ToolSettled, c *call) {
	if r.Failed {
		w.trace.Did("tool failed")
	}
	var in workInput
	if c.called == nil || c.called.Name == waitTool || r.DurationMs == nil || json.Unmarshal(c.called.Input, &in) != nil {
		return
	}
	id, started, wrote := string(r.Call), w.ledger.started.Count(r.Call), w.ledger.writes.Count(string(r.Call))
	var out string
	switch {
	case started != 1:
		w.trace.Violate(id, "its outcome is recorded and it ran %d times", started)
	case len(c.data) != wrote || !slices.IsSorted(c.data):
		w.trace.Violate(id, "its outcome is recorded after data %v, it wrote %d", c.data, wrote)
	case !r.Failed && (json.Unmarshal(r.Output, &out) != nil || c.stored == nil && out != worked(in)):
		w.trace.Violate(id, "the input was %s, the output is %s", c.called.Input, r.Output)
	case c.stored != nil:
		w.checkStored(conv, r, c.stored, out, worked(in))
	case !r.Failed && (in.Millis%7 == 0 || in.Millis%11 == 0):
		w.trace.Violate(id, "it failed and its outcome is %s", r.Output)
	case r.Failed && r.ErrorText == errWork && in.Millis%7 != 0:
		w.trace.Violate(id, "it did not fail and its outcome is %q", r.ErrorText)
	}
}

// checkStored checks that an output of which a part is recorded is there.
func (w *world) checkStored(conv conversation.Key, r *conversation.ToolSettled, s *conversation.OutputStored, shown, want string) {
	w.trace.Did("output stored")
	var got strings.Builder
	for _, p := range s.Pieces {
		var digest storage.Digest
		var content io.ReadCloser
		err := digest.UnmarshalText([]byte(p.SHA256))
		if err == nil {
			content, err = storage.OpenBlob(context.Background(), w.bucket, conv, digest, p.Size)
		}
		if err == nil {
			_, err = io.Copy(&got, content)
			err = errors.Join(err, content.Close())
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
	f, unread, err := w.ledger.failures[rec.sub.ID], w.ledger.unread.Count(rec.conv), rec.settled.Error
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
	asked := false
	for _, r := range each[*conversation.SubmissionAdmitted](w.log(ctx, at)) {
		for _, a := range r.Delivery.Attachments {
			w.readAttachment(ctx, m, at, a, r.Delivery.Body)
		}
		if !asked {
			w.askKey(ctx, m, at, r, state.Created().UID)
		}
		asked = true
	}
}

// askKey asks about a recorded key.
func (w *world) askKey(ctx context.Context, m *member, at conversation.Address, r *conversation.SubmissionAdmitted, uid conversation.UID) {
	other := r.Delivery
	other.Body += "?"
	type condition = conversation.Condition
	for _, c := range []struct {
		want      conversation.Code
		key       string
		delivery  conversation.Delivery
		condition condition
	}{
		{"", r.Key, r.Delivery, condition{}},
		{conversation.CodeSubmissionConflict, r.Key, other, condition{}},
		{conversation.CodeInstanceExists, "new", r.Delivery, condition{Absent: true}},
		{conversation.CodeInstanceNotFound, "new", r.Delivery, condition{Set: true, UID: "inst_of_nobody"}},
	} {
		asked := conversation.Admission{Address: at, Key: c.key, Delivery: c.delivery, Condition: c.condition}
		receipt, err := m.node.Precheck(ctx, asked)
		switch {
		case c.want == "" && (err != nil || receipt == nil || receipt.SubmissionID != r.Submission || receipt.UID != uid):
			w.trace.Violate(m.id, "asked for the key of %s at the end: %+v, %v", r.Submission, receipt, err)
		case c.want != "" && (err == nil || conversation.CodeOf(err) != c.want):
			w.trace.Violate(m.id, "asked for %+v at the end: %+v, %v", asked, receipt, err)
		}
		w.trace.Did("asked again at the end")
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
	w.trace.Did("attachment read")
}
