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

// hooked collects the hook results of one submission in a log.
type hooked struct {
	started, merged []json.RawMessage // metadata of its first step, and of later ones
	finished        int               // pieces of data
}

// checkWork checks that the output of models, tools and hooks is recorded once.
func (w *world) checkWork(log *knownLog) {
	work, byMessage := map[conversation.SubmissionID]*hooked{}, map[conversation.MessageID]*hooked{}
	called, stored := map[conversation.CallID]*conversation.ToolCalled{}, map[conversation.CallID]*conversation.OutputStored{}
	ended, data := map[conversation.CallID]bool{}, map[string][]int{} // by call or hook, which write under their names
	for off, r := range each[conversation.Record](log) {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			work[r.Submission] = &hooked{}
		case *conversation.ResponseStarted:
			if byMessage[r.Message] == nil {
				byMessage[r.Message] = work[r.Submission]
				work[r.Submission].started = append(work[r.Submission].started, r.Metadata)
			}
		case *conversation.MetadataMerged:
			byMessage[r.Message].merged = append(byMessage[r.Message].merged, r.Metadata)
		case *conversation.ToolCalled:
			called[r.Call] = r
		case *conversation.OutputStored:
			stored[r.Call] = r
		case *conversation.ToolSettled:
			w.trace.ViolateIf(ended[r.Call], log.at.ID, "call %s has two outcomes", r.Call)
			ended[r.Call] = true
			w.checkOutcome(log.at.Key(), r, called[r.Call], stored[r.Call], data[string(r.Call)])
		case *conversation.DataWritten:
			if r.Name != dataName { // of a wait
				continue
			}
			var p progress
			err := json.Unmarshal(r.Data, &p)
			w.trace.ViolateIf(err != nil || slices.Contains(data[p.From], p.N),
				log.at.ID, "batch %d: data %s repeated or malformed: %v", off, r.Data, err)
			data[p.From] = append(data[p.From], p.N)
			w.trace.Did("data written")
			if strings.HasPrefix(p.From, "hook-") {
				byMessage[r.Message].finished++
			}
		}
	}
	for id, hooks := range work {
		sub, end := log.state.Submission(id), log.settled[id]
		if sub == nil || end.times == 0 { // covered by other checks
			continue
		}
		if _, signal := sub.Delivery.Awaited(); !signal {
			w.checkEnded(log.at.Key(), sub, &end.SubmissionSettled, hooks)
		}
	}
}

// checkOutcome checks the outcome of a call whose tool has returned.
func (w *world) checkOutcome(
	conv conversation.Key, r *conversation.ToolSettled, called *conversation.ToolCalled, stored *conversation.OutputStored, data []int,
) {
	if r.Failed {
		w.trace.Did("tool failed")
	}
	var in workInput
	if called == nil || called.Name == waitTool || called.Name == sendTool || r.DurationMs == nil || json.Unmarshal(called.Input, &in) != nil {
		return
	}
	id, started, wrote := string(r.Call), w.ledger.started.Count(r.Call), w.ledger.writes.Count(string(r.Call))
	var out string
	switch {
	case started != 1:
		w.trace.Violate(id, "outcome is recorded, but the call ran %d times", started)
	case len(data) != wrote || !slices.IsSorted(data):
		w.trace.Violate(id, "outcome is recorded after data %v, want %d pieces", data, wrote)
	case !r.Failed && (json.Unmarshal(r.Output, &out) != nil || stored == nil && out != worked(in)):
		w.trace.Violate(id, "input %s: got output %s", called.Input, r.Output)
	case stored != nil:
		w.checkStored(conv, r, stored, out, worked(in))
	case !r.Failed && (in.Millis%7 == 0 || in.Millis%11 == 0):
		w.trace.Violate(id, "failed call has output %s", r.Output)
	case r.Failed && r.ErrorText == errWork && in.Millis%7 != 0:
		w.trace.Violate(id, "successful call has error %q", r.ErrorText)
	}
}

// checkStored checks that the whole of an output that is recorded in part is stored.
func (w *world) checkStored(conv conversation.Key, r *conversation.ToolSettled, s *conversation.OutputStored, shown, want string) {
	w.trace.Did("output stored")
	got := ""
	for _, p := range s.Pieces {
		var digest storage.Digest
		bad := digest.UnmarshalText([]byte(p.SHA256))
		piece, err := whole(storage.OpenBlob(context.Background(), w.Store, conv, digest, p.Size))
		if err := errors.Join(bad, err); err != nil {
			w.trace.Violate(string(r.Call), "read stored output: %v", err)
			return
		}
		got += string(piece)
	}
	w.trace.ViolateIf(got != want || r.Failed || s.Size != int64(len(want)) || !strings.HasPrefix(shown, s.Head) || !strings.HasSuffix(shown, s.Tail),
		string(r.Call), "%d bytes of its output are stored, of %d; it is recorded as %s %s", len(got), len(want), r.Output, r.ErrorText)
}

func whole(content io.ReadCloser, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(content)
	return data, errors.Join(err, content.Close())
}

func (w *world) checkEnded(conv conversation.Key, sub *conversation.Submission, end *conversation.SubmissionSettled, hooks *hooked) {
	body := sub.Delivery.Body
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
		if _, err := fmt.Sscanf(text.String(), body+" says %d.", &step); err != nil || text.String() != stepText(w.Seed, body, step) {
			w.trace.Violate(body, "complete step has text %q", text.String())
		}
		last = step
	}
	switch end.Outcome {
	case conversation.OutcomeCompleted:
		w.trace.ViolateIf(last != lastStep(w.Seed, body), body, "completed after step %d of %d", last, lastStep(w.Seed, body))
		w.checkHooks(sub, hooks)
	case conversation.OutcomeFailed:
		w.checkFailure(conv, sub, end.Error)
	case conversation.OutcomeAborted:
		w.trace.ViolateIf(end.Error == nil || end.Error.Type != conversation.CodeAborted, body, "aborted with %+v", end.Error)
	}
}

// checkHooks checks that the metadata of hooks about a complete response is recorded once, and their
// data at least once.
func (w *world) checkHooks(sub *conversation.Submission, hooks *hooked) {
	body, last := sub.Delivery.Body, sub.Attempts >= maxAttempts
	for hook, have := range map[string][]json.RawMessage{"started": hooks.started, "finished": hooks.merged} {
		want := []byte(fmt.Sprintf(`{"by":{%q:%q}}`, hook, body))
		have = slices.DeleteFunc(slices.Clone(have), func(m json.RawMessage) bool { return len(m) == 0 })
		decorated := len(have) == 0
		if w.mode(hook, body) == decorates {
			decorated = len(have) == 1 && bytes.Equal(have[0], want)
		}
		w.trace.ViolateIf(!decorated && (hook == "started" || !last),
			body, "the hook %s %s, recorded is %q", hook, w.mode(hook, body), have)
	}
	w.trace.ViolateIf(w.mode("finished", body) == decorates && hooks.finished == 0 && !last, body, "the data of the hook is missing")
}

// checkFailure checks that a submission had a reason to fail.
func (w *world) checkFailure(conv conversation.Key, sub *conversation.Submission, err *conversation.SettlementError) {
	f, unread := w.ledger.failures[sub.ID], w.ledger.unread.Count(conv)
	switch {
	case err == nil:
		w.trace.Violate(sub.Delivery.Body, "failed without an error")
	case err.Type == conversation.CodeModelFailed && (f.good || f.row+unread/pageReads > maxRetries):
	case err.Type == conversation.CodeLimitReached && w.Profile == Trees && w.ledger.overspent(sub.ID):
	case err.Type == conversation.CodeRetryExhausted && sub.Attempts >= maxAttempts:
	default:
		w.trace.Violate(sub.Delivery.Body, "failed with %+v after %d attempts, its model calls: %+v, lost reads of history: %d",
			*err, sub.Attempts, f, unread)
	}
}

// askAgain checks the state of an idle node: it has the attachments, replays known keys, and refuses
// conflicting admissions.
func (w *world) askAgain(ctx context.Context, at conversation.Address) {
	m := w.pick(int(schedule.Draw(w.Seed, "ask", at.ID) % slots))
	state := w.log(ctx, at).state
	if m == nil || !state.Exists() {
		return
	}
	// The offset makes the node read batches it has not been notified of.
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

func (w *world) askKey(ctx context.Context, m *member, at conversation.Address, r *conversation.SubmissionAdmitted, uid conversation.UID) {
	other := r.Delivery
	other.Body += "?"
	ask := func(want conversation.Code, key string, d conversation.Delivery, c conversation.Condition) {
		asked := conversation.Admission{Address: at, Key: key, Delivery: d, Condition: c}
		receipt, err := m.node.Precheck(ctx, asked)
		switch {
		case want == "" && (err != nil || receipt == nil || receipt.SubmissionID != r.Submission || receipt.UID != uid):
			w.trace.Violate(m.id, "admit known key of %s at the end: got %+v, %v", r.Submission, receipt, err)
		case want != "" && (err == nil || conversation.CodeOf(err) != want):
			w.trace.Violate(m.id, "admit %+v at the end: got %+v, %v", asked, receipt, err)
		}
		w.trace.Did("asked again at the end")
	}
	ask("", r.Key, r.Delivery, conversation.Condition{})
	ask(conversation.CodeSubmissionConflict, r.Key, other, conversation.Condition{})
	ask(conversation.CodeInstanceExists, "new", r.Delivery, conversation.Condition{Absent: true})
	ask(conversation.CodeInstanceNotFound, "new", r.Delivery, conversation.Condition{Set: true, UID: "inst_of_nobody"})
}

func (w *world) readAttachment(ctx context.Context, m *member, at conversation.Address, a conversation.Attachment, body string) {
	meta, content, err := m.node.Reader().Attachment(ctx, at, a.ID)
	data, err := whole(content, err)
	w.trace.ViolateIf(err != nil || meta != a || !bytes.Equal(data, picture(w.Seed, body)),
		m.id, "attachment %+v of %s is read as %+v with %d bytes: %v", a, body, meta, len(data), err)
	w.trace.Did("attachment read")
}
