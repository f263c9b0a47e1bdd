package conversation

import (
	"encoding/json"
	"slices"
	"strings"
)

// Bounds of the replies that conversations owe each other.
const (
	// MaxPendingReplies bounds the replies that a conversation owes, those to unsettled submissions
	// included.
	MaxPendingReplies = 256
	// MaxReplyBytes bounds the text, and the output, of a reply that is told.
	MaxReplyBytes = 24 << 10
	// maxToldError bounds the message of an error that is told, so that all of a reply fits a signal.
	maxToldError = 12 << 10
)

// ReplyTo is a call in another conversation that waits for a reply: the incarnation, and the
// name of its wait, by which a signal reaches it.
type ReplyTo struct {
	Address Address `json:"address"`
	UID     UID     `json:"uid"`
	Name    string  `json:"name"`
}

// SentReply is what the signal says that tells of a reply.
type SentReply struct {
	Submission SubmissionID     `json:"submissionId"`
	Outcome    Outcome          `json:"outcome"`
	Error      *SettlementError `json:"error,omitempty"`
	// Text is what the agent said, and Output what its model gave in the form that the agent asks
	// for. Cut says that they are longer: the beginning of the text is there, and no output.
	Text   string          `json:"text,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Cut    bool            `json:"cut,omitempty"`
}

// Signal returns the signal that tells of the reply who waits for a name. Of the message of an error up to 12 KiB
// are told.
func (r SentReply) Signal(name string) (Delivery, error) {
	if r.Error != nil {
		e := *r.Error
		e.Message = CutText(e.Message, maxToldError)
		r.Error = &e
	}
	return SignalFor(name, r)
}

// PendingReply is a reply for which somebody waits. Values returned by [State] methods are read-only.
type PendingReply struct {
	Submission SubmissionID `json:"submission"`
	To         ReplyTo      `json:"to"`
	// Reply is nil until the submission is settled, which At says.
	Reply *SentReply `json:"reply,omitempty"`
	At    Offset     `json:"at,omitempty"`
}

// PendingReplies returns the replies that somebody waits for, oldest first. The slice is shared and
// read-only.
func (s *State) PendingReplies() []*PendingReply { return s.owed }

// ReplyIsPending returns the reply to a submission that is still owed, nil if none is.
func (s *State) ReplyIsPending(id SubmissionID) *PendingReply {
	i := slices.IndexFunc(s.owed, func(o *PendingReply) bool { return o.Submission == id })
	if i < 0 {
		return nil
	}
	return s.owed[i]
}

func (s *State) foldReplyPending(r *ReplyPending) error {
	if _, err := s.open(r, r.Submission); err != nil {
		return err
	}
	if s.ReplyIsPending(r.Submission) != nil {
		return s.bad(r, "the reply to %s is owed already", r.Submission)
	}
	s.owed = append(s.owed, &PendingReply{Submission: r.Submission, To: r.To})
	return nil
}

func (s *State) foldReplySent(r *ReplySent) error {
	o := s.ReplyIsPending(r.Submission)
	if o == nil || o.Reply == nil {
		return s.bad(r, "no reply to %s is to be told", r.Submission)
	}
	s.owed = slices.DeleteFunc(slices.Clone(s.owed), func(other *PendingReply) bool { return other == o })
	return nil
}

// replied notes what is to be told of a submission that settles.
func (s *State) replied(sub *Submission, r *SubmissionSettled) {
	if o := s.ReplyIsPending(sub.ID); o != nil {
		done := *o
		done.Reply, done.At = s.toldOf(sub, r), s.head
		s.owed = slices.Clone(s.owed)
		s.owed[slices.Index(s.owed, o)] = &done
	}
}

func (s *State) toldOf(sub *Submission, r *SubmissionSettled) *SentReply {
	told, output := &SentReply{Submission: sub.ID, Outcome: r.Outcome, Error: r.Error}, s.outputOf(sub)
	told.Text, told.Cut = sub.Draft()
	if len(output) <= MaxReplyBytes {
		told.Output = output
	}
	told.Cut = told.Cut || len(told.Output) < len(output)
	return told
}

// Draft is the text of the reply so far, up to [MaxReplyBytes]; cut says that there is more.
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

// bytes is about what is kept of the reply.
func (o *PendingReply) bytes() int {
	n := PartBytes + len(o.To.Name) + len(o.To.Address.ID)
	if o.Reply != nil {
		n += len(o.Reply.Text) + len(o.Reply.Output)
	}
	return n
}
