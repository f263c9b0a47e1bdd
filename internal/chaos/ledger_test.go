package chaos

import (
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// An abort may find nothing only if the log had no unsettled submission at some place between the
// request and the answer.
func TestDeniedAborts(t *testing.T) {
	admit := func(id conversation.SubmissionID) conversation.Record {
		return &conversation.SubmissionAdmitted{Submission: id, Message: "msg_1", Key: string(id), Delivery: conversation.Delivery{Kind: conversation.KindUser}}
	}
	settle := func(id conversation.SubmissionID) conversation.Record {
		return &conversation.SubmissionSettled{Submission: id, Outcome: conversation.OutcomeCompleted}
	}
	type batches = [][]conversation.Record
	for name, c := range map[string]struct {
		before, during batches
		want           bool
	}{
		"no conversation":              {nil, nil, true},
		"all is settled":               {batches{{admit("a")}, {settle("a")}}, batches{{admit("b")}}, true},
		"unsettled submission":         {batches{{admit("a")}}, nil, false},
		"another one settles":          {batches{{admit("a")}, {admit("b")}}, batches{{settle("a")}}, false},
		"it settles in between":        {batches{{admit("a")}}, batches{{settle("a")}, {admit("b")}}, true},
		"it settles as the next comes": {batches{{admit("a")}}, batches{{settle("a"), admit("b")}}, true},
		"the next comes as it settles": {batches{{admit("a")}}, batches{{admit("b"), settle("a")}, {settle("b"), admit("c")}}, true},
		"there is always another one":  {batches{{admit("a")}}, batches{{admit("b"), settle("a")}, {admit("c"), settle("b")}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, at := newLedger(schedule.NewTrace()), address(0).Key()
			seq := int64(0)
			land := func(all batches) {
				for _, records := range all {
					l.landed(storage.LogKey(at, seq), batchOf(t, seq, records))
					seq++
				}
			}
			land(c.before)
			call := l.abort(at)
			land(c.during)
			if _, got := l.ended(call); got != c.want {
				t.Errorf("ended() free = %v, want %v", got, c.want)
			}
			if v := l.trace.Report().Violation; v != "" {
				t.Error(v)
			}
		})
	}
}

func batchOf(t *testing.T, seq int64, records []conversation.Record) *storage.Batch {
	t.Helper()
	lines, err := conversation.EncodeRecords(nil, records)
	if err != nil {
		t.Fatal(err)
	}
	return &storage.Batch{Header: storage.Header{Seq: seq, Nonce: "w", First: seq == 0}, Lines: lines}
}
