package chaos

import (
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// TestDeniedAborts shows when an abort may find nothing: the log must have owed
// nothing at some place between the question and the answer.
func TestDeniedAborts(t *testing.T) {
	admit := func(id conversation.SubmissionID) conversation.Record {
		return &conversation.SubmissionAdmitted{Submission: id, Message: "msg_1", Key: string(id), Delivery: conversation.Delivery{Kind: conversation.KindUser}}
	}
	settle := func(id conversation.SubmissionID) conversation.Record {
		return &conversation.SubmissionSettled{Submission: id, Outcome: conversation.OutcomeCompleted}
	}
	type batches = [][]conversation.Record
	for name, c := range map[string]struct {
		before, meanwhile batches
		want              bool
	}{
		"no conversation":              {nil, nil, true},
		"all is settled":               {batches{{admit("a")}, {settle("a")}}, batches{{admit("b")}}, true},
		"something is owed":            {batches{{admit("a")}}, nil, false},
		"something else is settled":    {batches{{admit("a")}, {admit("b")}}, batches{{settle("a")}}, false},
		"it settles meanwhile":         {batches{{admit("a")}}, batches{{settle("a")}, {admit("b")}}, true},
		"it settles as the next comes": {batches{{admit("a")}}, batches{{settle("a"), admit("b")}}, true},
		"the next comes as it settles": {batches{{admit("a")}}, batches{{admit("b"), settle("a")}, {settle("b"), admit("c")}}, true},
		"the next is always there":     {batches{{admit("a")}}, batches{{admit("b"), settle("a")}, {admit("c"), settle("b")}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, at := newLedger(schedule.NewTrace(), &schedule.Tally{}), address(0).Key()
			seq := int64(0)
			land := func(all batches) {
				for _, records := range all {
					l.landed(storage.LogKey(at, seq), encoded(t, seq, records))
					seq++
				}
			}
			land(c.before)
			call, _ := l.abort(at)
			land(c.meanwhile)
			if got := l.denied(call); got != c.want {
				t.Errorf("denied rightly: %v, want %v", got, c.want)
			}
			if v := l.trace.Violation(); v != "" {
				t.Error(v)
			}
		})
	}
}

// encoded is the object of a batch.
func encoded(t *testing.T, seq int64, records []conversation.Record) []byte {
	t.Helper()
	lines, err := conversation.EncodeRecords(nil, records)
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := storage.EncodeBatch(storage.Header{Version: storage.SchemaVersion, Seq: seq, Nonce: "w", First: seq == 0}, lines)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
