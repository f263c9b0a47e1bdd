package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/providers"
)

const (
	// spreading prefixes a body for which the model calls the dispatching tool in its first step,
	// unless treeDepth dispatches led to it.
	spreading = "tree-"
	treeDepth = 2
	sendTool  = "send"
	// treeRoots is the number of conversations with clients. The others get only dispatched messages.
	treeRoots = 2
	// treeSubmissions and treeDollars are the budget of a tree. Each model call costs a dollar.
	treeSubmissions = 6
	treeDollars     = 9
)

func spreads(body string) bool { return strings.HasPrefix(body, spreading) }

// isLeaf reports whether a body dispatches nothing.
func isLeaf(body string) bool { return strings.Count(body, "/") >= treeDepth }

// rates returns the prices of the model. Only the Trees profile has any.
func (w *world) rates() *providers.Rates {
	if w.Profile != Trees {
		return nil
	}
	return &providers.Rates{Input: 1e6}
}

type sendInput struct {
	Body string `json:"body"`
}

// send implements the dispatching tool. The keys of its messages derive from the body, so it may run
// again.
func (a *author) send(ctx context.Context, in sendInput) (string, error) {
	if err := begin(ctx); err != nil {
		return "", err
	}
	call, _ := agent.CallFrom(ctx)
	for n := range schedule.Draw(a.Seed, "fan", in.Body) % 4 {
		d := schedule.Draw(a.Seed, "dispatch", in.Body, n)
		if err := schedule.Sleep(ctx, schedule.Between(d, 0, time.Second)); err != nil {
			return "", err
		}
		to, body := a.addresses[(d>>8)%uint64(len(a.addresses))], fmt.Sprint(in.Body, "/", n)
		m := agent.Text(body)
		m.Key = body
		receipt, err := agent.Dispatch(ctx, to, m)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
			a.refusedDispatch(call.Submission, err)
			return "", err
		}
		a.trace.Did("dispatched")
		a.acknowledged(ack{&post{Admission: conversation.Admission{Address: to, Key: body, Delivery: m.Delivery}}, receipt})
	}
	return "sent", nil
}

// refusedDispatch checks that a dispatch had a reason to fail.
func (w *world) refusedDispatch(by conversation.SubmissionID, err error) {
	closed, spent := w.ledger.treeOf(by)
	switch limit := (*agent.DispatchLimitError)(nil); {
	case errors.Is(err, agent.ErrTreeAborted):
		w.trace.Did("dispatch refused by an abort")
		w.trace.ViolateIf(!closed, string(by), "dispatch refused with %v, but no abort of its tree has landed", err)
	case errors.As(err, &limit):
		w.trace.Did("dispatch refused by a budget")
		w.trace.ViolateIf(spent.Submissions < treeSubmissions && spent.Dollars < treeDollars,
			string(by), "dispatch refused with %v, but its tree has used only %d messages and $%v", err, spent.Submissions, spent.Dollars)
	case refusal(err), conversation.CodeOf(err) == conversation.CodeAdmissionUnknown:
	default:
		w.trace.Violate(string(by), "dispatch: got unexpected %v", err)
	}
}

// abortTree asks a node for an abort of the trees that began in a conversation. Once it is answered,
// all submissions of the conversation and the trees that were unsettled at the request have ended.
func (w *world) abortTree(ctx context.Context, m *member, at conversation.Address) {
	ctx, cancel := m.call(ctx, time.Hour)
	defer cancel()
	asked := w.ledger.abortTree(at)
	done, err := m.node.AbortTree(ctx, at)
	if err == nil && done.Conversations > 0 {
		w.trace.Did("abort reached members")
	}
	w.abortEnds(ctx, m, at, asked, done.Aborted, err)
}

// checkTrees checks that dispatched submissions joined their trees before admission, that aborts ended
// them, and that trees stay within their budgets.
func (w *world) checkTrees() {
	for _, at := range w.addresses {
		log := w.known[at]
		w.checkBudgets(log)
		for off, r := range each[*conversation.SubmissionAdmitted](log) {
			if r.Tree == nil {
				continue
			}
			w.trace.Did("tree member")
			root := w.known[r.Tree.Root]
			if root == nil {
				w.trace.Violate(r.Key, "belongs to a tree with unexpected root %+v", r.Tree.Root)
				continue
			}
			landed := w.ledger.landedAt(at.Key(), off)
			if joined := w.joined(root, r.Tree.Submission, at, r.Key); joined == 0 || joined >= landed {
				w.trace.Violate(r.Key, "admitted to %s at landing %d, but joined its tree at %d", at.ID, landed, joined)
			}
			w.checkMember(log, r, landed, w.closed(root, r.Tree.Submission))
		}
	}
}

// joined returns the landing at which a submission joined a tree, 0 if it did not.
func (w *world) joined(root *knownLog, tree conversation.SubmissionID, at conversation.Address, key string) int {
	for off, r := range each[*conversation.TreeCounted](root) {
		if r.Joined && r.Submission == tree && r.Member == at && r.Key == key {
			return w.ledger.landedAt(root.at.Key(), off)
		}
	}
	return 0
}

// closed returns the landing at which an abort closed a tree, 0 if none did.
func (w *world) closed(root *knownLog, tree conversation.SubmissionID) int {
	began := false
	for off, r := range each[conversation.Record](root) {
		switch r := r.(type) {
		case *conversation.TreeCounted:
			began = began || r.Submission == tree
		case *conversation.AbortRequested:
			if r.Trees && (began || slices.Contains(r.Submissions, tree)) {
				return w.ledger.landedAt(root.at.Key(), off)
			}
		}
	}
	return 0
}

// checkMember checks the end of a submission whose tree an abort closed at a landing, 0 for none.
func (w *world) checkMember(log *knownLog, r *conversation.SubmissionAdmitted, landed, closed int) {
	end := log.settled[r.Submission]
	if end.times != 1 {
		w.trace.Violate(r.Key, "%s was dispatched to %s and settled %d times", r.Submission, log.at.ID, end.times)
	}
	if closed == 0 {
		return
	}
	if end.Outcome == conversation.OutcomeAborted {
		w.trace.Did("tree member aborted")
	}
	if landed > closed && end.Outcome != conversation.OutcomeAborted &&
		(end.Error == nil || end.Error.Type != conversation.CodeRetryExhausted) {
		w.trace.Violate(r.Key, "%s was admitted at landing %d, after its tree was closed at %d, but ended as %s", r.Submission, landed, closed, end.Outcome)
	}
	if ran, answered := w.ledger.runsAfter(r.Submission, r.Tree.Root.Key(), closed); answered {
		w.trace.Violate(r.Key, "a model was called for %s at %v, after an abort of its tree was answered", r.Submission, ran)
	}
}

// checkBudgets checks the budgets and the counted cost of the trees which began in a conversation.
func (w *world) checkBudgets(log *knownLog) {
	closed, joined := map[conversation.SubmissionID]bool{}, map[conversation.SubmissionID]int{}
	for off, r := range each[conversation.Record](log) {
		switch r := r.(type) {
		case *conversation.AbortRequested:
			if r.Trees {
				for tree := range joined {
					closed[tree] = true
				}
				for _, id := range r.Submissions {
					closed[id] = true
				}
			}
		case *conversation.TreeCounted:
			w.trace.ViolateIf(r.Joined && closed[r.Submission], log.at.ID, "batch %d: %s joins the tree of %s, closed by an abort", off, r.Key, r.Submission)
			if joined[r.Submission] += 0; r.Joined {
				joined[r.Submission]++
			}
			w.trace.ViolateIf(joined[r.Submission] > treeSubmissions, log.at.ID, "batch %d: %d submissions join the tree of %s", off, joined[r.Submission], r.Submission)
		}
	}
	for _, t := range log.state.Trees() {
		for _, m := range t.Members {
			w.checkCost(t, m)
		}
	}
}

// checkCost checks the cost that a tree has counted for a member. The last call is reported once, when
// the submission settles, so a crash may lose it. A call may be counted although a replaced writer
// could not record its end.
func (w *world) checkCost(t *conversation.Tree, m conversation.TreeMember) {
	log := w.known[m.Address]
	if log == nil {
		w.trace.Violate(string(t.Submission), "unexpected member %+v", m)
		return
	}
	var of conversation.SubmissionID
	messages := map[conversation.MessageID]bool{}
	calls := 0
	for _, r := range each[conversation.Record](log) {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			if r.Key == m.Key {
				of = r.Submission
			}
		case *conversation.ResponseStarted:
			messages[r.Message] = of != "" && r.Submission == of
		case *conversation.StepCompleted:
			if messages[r.Message] && r.Usage.Input > 0 {
				calls++
			}
		}
	}
	made := w.ledger.callsFor(of)
	w.trace.ViolateIf(m.Dollars > float64(made) || m.Dollars < float64(calls-1),
		m.Key, "%d model calls were made and %d recorded, a dollar each, and its tree has counted $%v", made, calls, m.Dollars)
	w.trace.Did("tree cost compared")
	if m.Dollars < float64(calls) {
		w.trace.Did("last cost lost")
	}
}
