package converse

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
)

// queuePoll is the time without output after which the queue of the conversation is read.
const queuePoll = 500 * time.Millisecond

// Reply is the answer to one message while it streams.
type Reply struct {
	conversation *client.Conversation
	receipt      client.Receipt
	notes        *Notices
	access       Access

	mu      sync.Mutex // guards printing
	printer *cli.Printer
}

// NewReply returns the answer to the message of a receipt, which p prints.
func NewReply(c *client.Conversation, r client.Receipt, p *cli.Printer, notes *Notices, access Access) *Reply {
	a := &Reply{conversation: c, receipt: r, printer: p, notes: notes, access: access}
	notes.Notice = func(errOut io.Writer, format string, args ...any) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.printer.Notice(errOut, format, args...)
	}
	return a
}

// Follow prints the answer until its settlement.
func (r *Reply) Follow(ctx context.Context) (conversation.Outcome, error) {
	polling, begun := context.WithCancel(ctx)
	var poll sync.WaitGroup
	poll.Go(func() { r.queue(polling) })
	defer poll.Wait()
	defer begun()
	for update, err := range r.conversation.Observe(ctx, r.receipt.Offset, nil) {
		if err != nil {
			return "", err
		}
		if s, ended := r.print(update.Chunks, begun); ended {
			r.explain(ctx, s)
			return s.Outcome, nil
		}
	}
	return "", ctx.Err() // unreachable: the stream ends with an error
}

// End ends an open line of text.
func (r *Reply) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.printer.End()
}

// print prints chunks and reports whether they contain the settlement.
func (r *Reply) print(chunks []conversation.Chunk, begun func()) (conversation.Settlement, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range chunks {
		r.printer.Chunk(c)
		if r.printer.Begun() {
			begun()
		}
		if s, ok := cli.SettlementOf(c, r.receipt.SubmissionID); ok {
			return s, true
		}
	}
	return conversation.Settlement{}, false
}

// queue prints how many messages are queued before this one, if its answer does not begin soon.
func (r *Reply) queue(ctx context.Context) {
	timer := time.NewTimer(queuePoll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	s, err := r.conversation.History(ctx)
	if err != nil {
		return // Follow reports the cause
	}
	if n := waiting(s, r.receipt.SubmissionID); n > 0 && ctx.Err() == nil {
		r.notes.Line("queued behind %s", cli.Count(int64(n), "message"))
	}
}

// waiting counts the unsettled submissions before id.
func waiting(s *conversation.Snapshot, id conversation.SubmissionID) int {
	settled := map[conversation.SubmissionID]bool{}
	for _, e := range s.Settlements {
		settled[e.SubmissionID] = true
	}
	n := 0
	for _, m := range s.Messages {
		if m.SubmissionID == id {
			return n
		}
		if delivered := m.Purpose == conversation.PurposeUser || m.Purpose == conversation.PurposeDispatch; delivered && !settled[m.SubmissionID] {
			n++
		}
	}
	return 0
}
