package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
)

// abortsAtOnce bounds the concurrent aborts of a tree's members.
const abortsAtOnce = 16

// queryTree queries the root conversation of a tree of dispatches.
func (r *Runtime) queryTree(ctx context.Context, root conversation.Address, q machine.Tree) (machine.TreeStatus, error) {
	question, err := json.Marshal(q)
	if err != nil {
		return machine.TreeStatus{}, fmt.Errorf("encode tree query: %w", err)
	}
	reply, err := r.call(ctx, root, &wire.TreeRequest{Question: question})
	if err != nil {
		return machine.TreeStatus{}, err
	}
	var status machine.TreeStatus
	switch res := reply.GetResult().(type) {
	case *wire.OwnerReply_Tree:
		err = json.Unmarshal(res.Tree, &status)
	case *wire.OwnerReply_Failure:
		return status, errorOf(res.Failure)
	default:
		err = errors.New("owner answered without a result")
	}
	if err != nil {
		return status, fmt.Errorf("query tree: %w", err)
	}
	return status, nil
}

// answerTree handles a TreeRequest.
func (a *activation) answerTree(m *wire.TreeRequest, from grain.Sender) {
	var q machine.Tree
	if err := json.Unmarshal(m.GetQuestion(), &q); err != nil {
		from.Answer(answerMessage(machine.Refused{Err: conversation.Errorf(conversation.CodeInvalidRequest, "The tree query is not JSON: %v", err)}))
		return
	}
	q.To = a.callers.add(answers(from))
	a.step(q)
}

// treeReply encodes the answer to a TreeRequest.
func treeReply(s machine.TreeStatus) *wire.OwnerReply {
	encoded, _ := json.Marshal(s) // strings and finite numbers always encode
	return &wire.OwnerReply{Result: &wire.OwnerReply_Tree{Tree: encoded}}
}

// abortedReply encodes the answer to an AbortRequest.
func abortedReply(v machine.Aborted) *wire.OwnerReply {
	reply := &wire.OwnerReply{Result: &wire.OwnerReply_Aborted{Aborted: v.Any}}
	for _, id := range v.Trees {
		reply.Trees = append(reply.Trees, string(id))
	}
	for _, of := range v.PartOf {
		encoded, _ := json.Marshal(of) // strings always encode
		reply.PartOf = append(reply.PartOf, encoded)
	}
	return reply
}

// abortInput decodes an AbortRequest.
func abortInput(m *wire.AbortRequest, to machine.ReplyID) machine.Abort {
	in := machine.Abort{To: to, Trees: m.GetTrees()}
	if of := m.GetOf(); len(of) > 0 {
		in.Of = new(conversation.TreeRef) // An undecodable reference matches nothing.
		_ = json.Unmarshal(of, in.Of)
	}
	return in
}

// AbortTree implements [conversation.Dispatcher]. It closes the trees before it reads their members:
// later members are rejected, and members in flight find the tree closed when they start.
func (r *Runtime) AbortTree(ctx context.Context, at conversation.Address) (conversation.TreeAborted, error) {
	reply, err := r.abort(ctx, at, &wire.AbortRequest{Trees: true})
	if err != nil {
		return conversation.TreeAborted{}, err
	}
	done := conversation.TreeAborted{Aborted: reply.GetAborted()}
	for _, encoded := range reply.GetPartOf() {
		var of conversation.TreeRef
		if err := json.Unmarshal(encoded, &of); err != nil {
			return done, fmt.Errorf("abort: decode tree: %w", err)
		}
		done.PartOf = append(done.PartOf, of)
	}
	for _, id := range reply.GetTrees() {
		n, err := r.abortMembers(ctx, conversation.TreeRef{Root: at.Reach(), Submission: conversation.SubmissionID(id)})
		done.Conversations += n
		if err != nil {
			return done, conversation.InDoubt(conversation.CodeAbortUnknown, retryAfter, err)
		}
	}
	return done, nil
}

// abortMembers aborts the submissions of a closed tree, and returns the number of affected
// conversations.
func (r *Runtime) abortMembers(ctx context.Context, tree conversation.TreeRef) (n int, _ error) {
	of, err := json.Marshal(tree)
	if err != nil {
		return 0, fmt.Errorf("encode tree: %w", err)
	}
	seen := map[conversation.Address]bool{tree.Root: true}
	for from, more := 0, true; more; {
		page, err := r.queryTree(ctx, tree.Root, machine.Tree{Submission: tree.Submission, List: true, From: from})
		if err != nil {
			return n, err
		}
		from, more = from+len(page.Members), page.More
		var members []conversation.Address
		for _, m := range page.Members {
			if !seen[m.Address] {
				seen[m.Address] = true
				members = append(members, m.Address)
			}
		}
		aborted, err := r.abortEach(ctx, members, of)
		if n += aborted; err != nil {
			return n, err
		}
	}
	// The root itself may have received another dispatch.
	reply, err := r.abort(ctx, tree.Root, &wire.AbortRequest{Of: of})
	if reply.GetAborted() {
		n++
	}
	return n, err
}

// abortEach aborts the submissions of a tree in the given conversations, and returns how many had any.
func (r *Runtime) abortEach(ctx context.Context, members []conversation.Address, of []byte) (n int, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	places := make(chan struct{}, abortsAtOnce)
	for _, at := range members {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			reply, failed := r.abort(ctx, at, &wire.AbortRequest{Of: of})
			mu.Lock()
			defer mu.Unlock()
			if reply.GetAborted() {
				n++
			}
			err = errors.Join(err, failed)
		})
	}
	all.Wait()
	return n, err
}
