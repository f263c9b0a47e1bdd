package conversation

import (
	"encoding/json"
	"slices"
	"strings"
)

// Bounds of the replies that are pending between conversations.
const (
	// MaxPendingReplies bounds the pending replies of a conversation, including those to unsettled
	// submissions.
	MaxPendingReplies = 256
	// MaxReplyBytes bounds the text, and the output, of a sent reply.
	MaxReplyBytes = 24 << 10
	// maxReplyError bounds the error message in a reply, so that the reply fits into a signal.
	maxReplyError = 12 << 10
)

// ReplyTo is a call in another conversation that waits for a reply. It names the incarnation, and the
// wait to which the signal is sent.
type ReplyTo struct {
	Address Address `json:"address"`
	UID     UID     `json:"uid"`
	Name    string  `json:"name"`
}

// SentReply is the body of the signal that delivers a reply.
type SentReply struct {
	Submission SubmissionID     `json:"submissionId"`
	Outcome    Outcome          `json:"outcome"`
	Error      *SettlementError `json:"error,omitempty"`
	// Text is the agent's text, and Output the agent's structured output. If they are too long, Truncated is
	// set, Text is truncated and Output is omitted.
	Text      string          `json:"text,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Truncated bool            `json:"cut,omitempty"`
}

// Signal returns the signal that delivers the reply to the wait of a name. An error message is
// truncated to 12 KiB.
func (r SentReply) Signal(name string) (Delivery, error) {
	if r.Error != nil {
		e := *r.Error
		e.Message = CutText(e.Message, maxReplyError)
		r.Error = &e
	}
	return SignalFor(name, r)
}

// PendingReply is a reply that another conversation waits for. Values returned by [State] methods are
// read-only.
type PendingReply struct {
	Submission SubmissionID `json:"submission"`
	To         ReplyTo      `json:"to"`
	// Reply is nil until the submission is settled. At is the offset of the settlement.
	Reply *SentReply `json:"reply,omitempty"`
	At    Offset     `json:"at,omitempty"`
}

// PendingReplies returns the pending replies, oldest first. The slice is shared and read-only.
func (s *State) PendingReplies() []*PendingReply { return s.pendingReplies }

// ReplyIsPending returns the pending reply to a submission, or nil.
func (s *State) ReplyIsPending(id SubmissionID) *PendingReply {
	i := slices.IndexFunc(s.pendingReplies, func(o *PendingReply) bool { return o.Submission == id })
	if i < 0 {
		return nil
	}
	return s.pendingReplies[i]
}

func (s *State) foldReplyPending(r *ReplyPending) error {
	if _, err := s.open(r, r.Submission); err != nil {
		return err
	}
	if s.ReplyIsPending(r.Submission) != nil {
		return s.bad(r, "the reply to %s is pending already", r.Submission)
	}
	s.pendingReplies = append(s.pendingReplies, &PendingReply{Submission: r.Submission, To: r.To})
	return nil
}

func (s *State) foldReplySent(r *ReplySent) error {
	o := s.ReplyIsPending(r.Submission)
	if o == nil || o.Reply == nil {
		return s.bad(r, "no reply to %s is pending", r.Submission)
	}
	s.pendingReplies = slices.DeleteFunc(slices.Clone(s.pendingReplies), func(other *PendingReply) bool { return other == o })
	return nil
}

// replied sets the reply of a submission that settles.
func (s *State) replied(sub *Submission, r *SubmissionSettled) {
	if o := s.ReplyIsPending(sub.ID); o != nil {
		done := *o
		done.Reply, done.At = s.sentReply(sub, r), s.head
		s.pendingReplies = slices.Clone(s.pendingReplies)
		s.pendingReplies[slices.Index(s.pendingReplies, o)] = &done
	}
}

func (s *State) sentReply(sub *Submission, r *SubmissionSettled) *SentReply {
	sent, output := &SentReply{Submission: sub.ID, Outcome: r.Outcome, Error: r.Error}, s.outputOf(sub)
	sent.Text, sent.Truncated = sub.Draft()
	if len(output) <= MaxReplyBytes {
		sent.Output = output
	}
	sent.Truncated = sent.Truncated || len(sent.Output) < len(output)
	return sent
}

// Draft returns the text of the reply so far, truncated to [MaxReplyBytes]. cut reports whether it was
// truncated.
func (s *Submission) Draft() (text string, cut bool) {
	var texts []string
	for _, t := range s.turns {
		for _, p := range t.parts {
			if p.kind == PartTypeText && t.note == "" && p.text.len() > 0 {
				texts = append(texts, p.text.String())
			}
		}
	}
	whole := strings.Join(texts, "\n\n")
	text = CutText(whole, MaxReplyBytes)
	return text, len(text) < len(whole)
}

// bytes returns the estimated memory of the reply.
func (o *PendingReply) bytes() int {
	n := PartBytes + len(o.To.Name) + len(o.To.Address.ID)
	if o.Reply != nil {
		n += len(o.Reply.Text) + len(o.Reply.Output)
	}
	return n
}
