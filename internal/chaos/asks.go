package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
)

const (
	// replyName begins the names by which calls wait for replies. askedKey is behind the call in the keys of their
	// questions.
	replyName = "reply of "
	askedKey  = "/ask/"
)

// asks returns the conversation that the tool for a body asks, where it does not wait for a signal.
func (w *world) asks(body string) (to conversation.Address, ok bool) {
	d := schedule.Draw(w.seed, "asks", body)
	return address(int((d >> 8) % uint64(w.profile.conversations()))), d%3 == 0
}

// ask asks another conversation, or its own, for a brief answer.
func (a *author) ask(ctx context.Context, to conversation.Address, body string) (string, error) {
	m := agent.Text(brief + body)
	m.Key = "asked"
	reply, err := agent.Ask(ctx, to, m, nil)
	var settled *conversation.SettledError
	switch {
	case errors.As(err, &settled):
		return string(settled.Outcome), nil
	case err != nil:
		return "", err
	}
	return reply.Text, nil
}

// heardReply is what a call returns that was told of a reply; it is not ok for another wait.
func heardReply(r *conversation.WaitEnded) (text string, ok bool) {
	var told conversation.ToldReply
	if !strings.HasPrefix(r.Name, replyName) || r.Reason != conversation.EndedBySignal || json.Unmarshal(r.Value, &told) != nil {
		return "", false
	}
	if told.Outcome != conversation.OutcomeCompleted {
		return string(told.Outcome), true
	}
	return told.Text, true
}

// blocked counts the conversations that cannot come to rest: who waits for a reply of theirs is set
// aside.
func (w *world) blocked(ctx context.Context, aside map[conversation.Key]bool) (n int) {
	all := w.begun(ctx)
	for c := range w.profile.conversations() {
		all = append(all, begunRun{at: address(c)})
	}
	for _, b := range all {
		if state := w.log(ctx, b.at).state; untold(state, nil) != untold(state, aside) {
			n++
		}
	}
	return n
}

// untold names a reply that is there, and not told, "" if there is none; but for those to who is set
// aside.
func untold(s *conversation.State, aside map[conversation.Key]bool) conversation.SubmissionID {
	for _, o := range s.OwedReplies() {
		if o.Reply != nil && !aside[o.To.Address.Key()] {
			return o.Submission
		}
	}
	return ""
}

// checkAsks checks that each reply is what its submission has come to, and that nobody waits for one
// that is there.
func (w *world) checkAsks(ctx context.Context) {
	outcomes := map[conversation.SubmissionID]conversation.Outcome{}
	asked := map[conversation.CallID]conversation.SubmissionID{}
	for c := range w.profile.conversations() {
		for _, b := range w.log(ctx, address(c)).batches {
			for _, r := range b.Records {
				switch r := r.(type) {
				case *conversation.SubmissionAdmitted:
					if call, _, ok := strings.Cut(r.Key, askedKey); ok {
						asked[conversation.CallID(call)] = r.Submission
					}
				case *conversation.SubmissionSettled:
					outcomes[r.Submission] = r.Outcome
				}
			}
		}
	}
	for c := range w.profile.conversations() {
		at := address(c)
		log := w.log(ctx, at)
		if id := untold(log.state, nil); id != "" {
			w.trace.Violate(at.ID, "the reply to %s is there, and nobody was told", id)
		}
		for _, b := range log.batches {
			for _, r := range b.Records {
				switch r := r.(type) {
				case *conversation.WaitStarted:
					id := asked[r.Call]
					if strings.HasPrefix(r.Name, replyName) && outcomes[id] != "" && log.state.Awaiting(r.Name) != nil {
						w.trace.Violate(at.ID, "call %s waits for the reply to %s, which is settled", r.Call, id)
					}
				case *conversation.WaitEnded:
					var told conversation.ToldReply
					if _, ok := heardReply(r); ok {
						w.shown.Add(didHear)
						if json.Unmarshal(r.Value, &told) != nil || told.Submission != asked[r.Call] || told.Outcome != outcomes[told.Submission] {
							w.trace.Violate(at.ID, "call %s has heard %s, the submission has come to %s", r.Call, r.Value, outcomes[told.Submission])
						}
					}
				}
			}
		}
	}
}
