package work

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// maxTreePause bounds the pause between questions to the root of a tree.
const maxTreePause = 10 * time.Second

func (s *sender) join(ctx context.Context, a *conversation.Admission) error {
	a.Tree = &s.tree
	status, err := s.node.o.AskTree(ctx, s.tree.Root, machine.Tree{Submission: s.tree.Submission, Member: a.Address.Reach(), Key: a.Key, Join: true})
	switch {
	case err != nil:
		return err
	case status.Closed:
		return agent.ErrTreeAborted
	case status.Bound != "":
		return &agent.DispatchLimitError{Agent: s.tree.Root.Agent, Option: strings.ToUpper(status.Bound[:1]) + status.Bound[1:], Limit: status.Limit}
	}
	return nil
}

// askTree asks the root of a tree whether work may continue. It retries until the root answers or the
// work ends. A root that cannot be opened, because it is quarantined or corrupt, does not end the
// work.
func (r *Runner) askTree(e machine.AskTree, s *conversation.State) {
	q := machine.Tree{Submission: e.Tree.Submission, Member: s.Created().Address().Reach(), Key: e.Key, Cost: e.Cost}
	ctx := r.o.BaseContext
	if e.Gen != 0 {
		ctx = r.begin(e.Gen, viewOf(s, e.Submission)).ctx
	}
	r.spawn(func() {
		for pause := time.Second; ; pause = min(2*pause, maxTreePause) {
			status, err := r.node.o.AskTree(ctx, e.Tree.Root, q)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				r.o.Logger.LogAttrs(ctx, slog.LevelWarn, "tree budget request failed", slog.String("root", e.Tree.Root.Agent+"/"+e.Tree.Root.ID), slog.Any("err", err))
			}
			if code := conversation.CodeOf(err); err == nil || code != conversation.CodeUnavailable || e.Gen == 0 {
				if e.Gen != 0 {
					r.o.Emit(machine.TreeAnswered{Gen: e.Gen, Status: status})
				}
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	})
}
