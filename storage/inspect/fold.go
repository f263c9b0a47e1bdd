package inspect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// foldStep is the number of batches after which closed history is moved out of the fold.
const foldStep = 256

// attachment is an attachment that records name.
type attachment struct {
	size  int64
	seq   int64 // first batch that names it
	found bool
}

// folded is the fold of a log and data collected during it.
type folded struct {
	inspection  *inspection
	state       *conversation.State
	history     *historySum
	attachments map[string]*attachment
	whole       bool // the fold reached the end
	failed      bool
	points      map[int64]*point // by batch
}

// point is the fold of a log at a batch.
type point struct {
	reducer int // fold version that the state needs
	state   [sha256.Size]byte
	history [4][sha256.Size]byte
	reached bool
}

// fold reads the log again through package storage and compares it with the result of reading object
// by object.
func (l *inspection) fold(ctx context.Context, c *chain, m *marks) (*folded, error) {
	f := &folded{
		inspection: l, state: conversation.NewState(), history: newHistorySum(),
		attachments: map[string]*attachment{}, points: map[int64]*point{},
	}
	for _, p := range m.all {
		if p.bad == nil {
			f.points[p.checkpoint.At.Seq] = &point{}
		}
	}
	met := c.at.Seq < 0
	for b, err := range l.logs.Batches(ctx, l.conv, storage.Start()) {
		if err != nil {
			if away(err) || ctx.Err() != nil {
				return nil, err
			}
			if !c.corrupt && !l.has(Corruption) {
				l.find(Corruption, KindReader, storage.LogKey(l.conv, c.at.Seq), -1, fmt.Sprintf(
					"reading the log fails although its objects are valid: %v", err))
			}
			return f, nil
		}
		if b.Seq == c.at.Seq {
			met = true
			if b.Hash != c.at.Hash && c.known {
				l.find(Corruption, KindReader, storage.LogKey(l.conv, b.Seq), b.Seq, fmt.Sprintf(
					"reading the log ends with hash %s at batch %d, its objects with %s", b.Hash, b.Seq, c.at.Hash))
			}
		}
		if !f.failed {
			f.batch(b)
		}
	}
	if !met && !l.has(Corruption) {
		l.find(Corruption, KindReader, storage.LogKey(l.conv, c.at.Seq), c.at.Seq, fmt.Sprintf(
			"reading the log ends before its last batch %d", c.at.Seq))
	}
	f.whole = met && !f.failed
	return f, nil
}

// has reports whether there is a finding of a severity.
func (l *inspection) has(s Severity) bool {
	for _, f := range l.findings {
		if f.Severity == s {
			return true
		}
	}
	return false
}

// batch folds one batch.
func (f *folded) batch(b storage.Batch) {
	records, err := conversation.DecodeRecords(b.Lines)
	if err == nil {
		err = f.state.Apply(conversation.Batch{Offset: conversation.Offset(b.Seq), Records: records})
	}
	if err == nil {
		err = f.collect(b.Seq, records)
	}
	p := f.points[b.Seq]
	if err == nil && (p != nil || b.Seq%foldStep == 0) {
		err = f.cut()
	}
	if err == nil && p != nil {
		err = f.mark(p)
	}
	if err != nil {
		f.failed = true
		remedy := "this is a bug of the version that wrote it; report it"
		var unknown *conversation.UnknownRecordError
		if errors.As(err, &unknown) {
			remedy = "verify it with the version that wrote it"
		}
		f.inspection.find(Corruption, KindRecords, storage.LogKey(f.inspection.conv, b.Seq), b.Seq, fmt.Sprintf(
			"the records of batch %d do not fold: %v; %s", b.Seq, err, remedy))
	}
}

// collect records references to other objects.
func (f *folded) collect(seq int64, records []conversation.Record) error {
	for _, r := range records {
		switch r := r.(type) {
		case *conversation.ConversationCreated:
			if at := (conversation.Address{Agent: r.Agent, ID: r.ID}); at.Key() != f.inspection.conv {
				return fmt.Errorf("record of conversation %q of agent %q, whose key is %s", r.ID, r.Agent, at.Key())
			}
		case *conversation.ConversationDeleted:
			clear(f.attachments) // Attachments of a deleted incarnation are not needed.
		case *conversation.SubmissionAdmitted:
			f.name(seq, r.Delivery.Attachments)
		case *conversation.ToolSettled:
			f.name(seq, r.Attachments)
		case *conversation.OutputStored:
			for _, p := range r.Pieces {
				f.name(seq, []conversation.Attachment{{SHA256: p.SHA256, Size: p.Size}})
			}
		}
	}
	return nil
}

func (f *folded) name(seq int64, list []conversation.Attachment) {
	for _, a := range list {
		if f.attachments[a.SHA256] == nil {
			f.attachments[a.SHA256] = &attachment{size: a.Size, seq: seq}
		}
	}
}

// cut moves the closed history out of the state, so that the state does not grow with the log.
func (f *folded) cut() error {
	if f.state.History() != f.history.counts {
		f.history = newHistorySum() // A new incarnation has begun.
	}
	for {
		page, err := f.state.Cut()
		if err != nil || page == nil {
			return err
		}
		data, err := conversation.EncodeHistory(page)
		if err != nil {
			return err
		}
		if err := f.history.add(data); err != nil {
			return err
		}
	}
}

// mark records the fold at this batch.
func (f *folded) mark(p *point) error {
	line, err := conversation.EncodeState(f.state)
	if err != nil {
		return err
	}
	p.state, p.history, p.reached = sha256.Sum256(line), f.history.sums(), true
	p.reducer, err = conversation.ReducerOf(line)
	return err
}

// historySum is a digest of closed history, independent of its division into pages.
type historySum struct {
	counts conversation.HistoryCounts
	lists  [4]hash.Hash
	begun  [4]bool
}

func newHistorySum() *historySum {
	var h historySum
	for i := range h.lists {
		h.lists[i] = sha256.New()
	}
	return &h
}

// add adds a page: a line of counts, and an array on each of four lines.
func (h *historySum) add(page []byte) error {
	p, err := conversation.DecodeHistory(page)
	if err != nil {
		return err
	}
	h.counts.Messages += p.Counts.Messages
	h.counts.Settlements += p.Counts.Settlements
	h.counts.Exchanges += p.Counts.Exchanges
	h.counts.Left += p.Counts.Left
	for i, line := range bytes.Split(page, []byte("\n"))[1:5] {
		list := line[1 : len(line)-1]
		if len(list) == 0 {
			continue
		}
		if h.begun[i] {
			h.lists[i].Write([]byte{','})
		}
		h.begun[i] = true
		h.lists[i].Write(list)
	}
	return nil
}

func (h *historySum) sums() (out [4][sha256.Size]byte) {
	for i, l := range h.lists {
		l.Sum(out[i][:0])
	}
	return out
}
