package clusterrun_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

// forged returns a history of three messages, admitted at the offsets 0, 10 and 20, each sent at 1000
// ms, 2000 ms and so on and answered 100 ms later.
func forged(strict bool) *history {
	h := &history{ID: "forged", Strict: strict, Stale: heartbeat, Limit: time.Minute}
	for i := range 3 {
		a := &noderun.Admitted{Key: fmt.Sprint("k", i), Submission: conversation.SubmissionID(fmt.Sprint("sub_", i)), Offset: conversation.Offset(10 * i)}
		h.Order = append(h.Order, a)
		h.Sent = append(h.Sent, &sent{
			Key: a.Key, Call: at(1000 * (i + 1)), Back: at(1000*(i+1) + 100),
			Receipt: &conversation.Receipt{SubmissionID: a.Submission, Offset: a.Offset},
		})
	}
	return h
}

func at(ms int) time.Time { return time.UnixMilli(int64(1_000_000 + ms)) }

// shows adds a full read between two times that ends at an offset.
func (h *history) shows(from, to int, next conversation.Offset) *observation {
	l := observation{Call: at(from), Back: at(to), After: conversation.Start, Next: next, Whole: true, UpToDate: true}
	for _, a := range h.Order {
		if a.Offset <= next {
			l.Keys = append(l.Keys, a.Key)
		}
	}
	h.Observations = append(h.Observations, l)
	return &h.Observations[len(h.Observations)-1]
}

// after adds a read after an offset.
func (h *history) after(from, to int, after, next conversation.Offset) *observation {
	l := h.shows(from, to, next)
	l.At, l.After, l.Whole, l.Keys = true, after, false, nil
	for _, a := range h.Order {
		if a.Offset > after && a.Offset <= next {
			l.Keys = append(l.Keys, a.Key)
		}
	}
	return l
}

// changed adds a change of the membership.
func (h *history) changed(from, to int) {
	h.Windows = append(h.Windows, window{From: at(from), To: at(to)})
}

// forgery is a history with at most one flaw.
type forgery struct {
	strict bool
	forge  func(h *history)
	want   string // part of the finding, "" for none
}

const noOrder = "no order"

func (c forgery) run(t *testing.T) {
	t.Helper()
	h := forged(c.strict)
	c.forge(h)
	got := strings.Join(h.check(), "\n")
	if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
		t.Errorf("found %q, want %q", got, c.want)
	}
}

func TestHistory(t *testing.T) {
	for name, c := range map[string]forgery{
		"nothing is read": {true, func(*history) {}, ""},
		"reads between and concurrent": {true, func(h *history) {
			h.shows(500, 600, conversation.Start)
			h.shows(1150, 1200, 5)
			h.shows(1950, 2050, 9)
			h.shows(1950, 2050, 13)
			h.after(2990, 3110, 13, 20)
			h.after(2990, 3110, 13, 19)
			h.after(3200, 3300, 20, 33)
			h.Marks = append(h.Marks, noderun.Mark{Call: at(1100), At: at(3200), Offset: 25})
		}, ""},
		"a read misses what was acknowledged":  {true, func(h *history) { h.shows(2101, 2200, 9) }, noOrder},
		"it does not exist after its creation": {true, func(h *history) { h.shows(1101, 1200, conversation.Start) }, noOrder},
		"a read goes back": {true, func(h *history) {
			h.shows(2010, 2020, 10)
			h.shows(2030, 2040, 9)
		}, noOrder},
		"a read shows what was not sent yet": {true, func(h *history) { h.shows(1500, 1600, 10) }, noOrder},
		"a stream shows what was not sent":   {true, func(h *history) { h.Marks = append(h.Marks, noderun.Mark{Call: at(1100), At: at(1999), Offset: 10}) }, noOrder},
		"a read misses what a stream had": {true, func(h *history) {
			h.Marks = []noderun.Mark{{Call: at(1900), At: at(2010), Offset: 12}}
			h.shows(2020, 2030, 9)
		}, noOrder},
		"admitted in another order than sent": {true, func(h *history) { h.Sent[0].Call, h.Sent[0].Back = at(2500), at(2600) }, noOrder},
		"an admission of unknown outcome": {true, func(h *history) {
			h.Sent[1].Receipt = nil
			h.shows(2500, 2600, 9)
		}, ""},
		"an unknown outcome becomes known by a read": {true, func(h *history) {
			h.Sent[1].Receipt = nil
			h.shows(2150, 2160, 10)
			h.shows(2500, 2600, 9)
		}, noOrder},
		"an unknown outcome comes before what follows": {true, func(h *history) {
			h.Sent[1].Receipt, h.Sent[1].Call = nil, at(3150)
		}, noOrder},
		"an unknown outcome was never admitted": {true, func(h *history) { h.Sent = append(h.Sent, &sent{Key: "lost", Call: at(1), Back: at(2)}) }, ""},
		"acknowledged and lost":                 {true, func(h *history) { h.Order = h.Order[:2] }, "is not in the log"},
		"admitted twice": {true, func(h *history) {
			h.Order = append(h.Order, &noderun.Admitted{Key: "k1", Submission: "sub_9", Offset: 30})
		}, "is admitted as"},
		"a receipt of another offset":     {true, func(h *history) { h.Sent[1].Receipt.Offset = 11 }, "has receipt"},
		"a receipt of another submission": {true, func(h *history) { h.Sent[1].Receipt.SubmissionID = "sub_2" }, "has receipt"},
		"never sent":                      {true, func(h *history) { h.Sent = h.Sent[1:] }, "never sent"},
		"a read lacks a message":          {true, func(h *history) { l := h.shows(3500, 3600, 20); l.Keys = l.Keys[1:] }, "as in the log"},
		"a read shows one twice":          {true, func(h *history) { l := h.shows(3500, 3600, 20); l.Keys = append(l.Keys, "k2") }, "as in the log"},
		"a read after an offset goes back": {true, func(h *history) {
			h.after(3500, 3600, 20, 20).Next = 15
		}, "as in the log"},
		"a page need not reach the head": {true, func(h *history) { h.after(3500, 3600, 5, 15).UpToDate = false }, ""},
		"a page is not from the future":  {true, func(h *history) { h.after(1500, 1600, 5, 15).UpToDate = false }, noOrder},
	} {
		t.Run(name, c.run)
	}
}

// Reads that are too old, outside and inside of changes of the membership.
func TestStaleness(t *testing.T) {
	for name, c := range map[string]forgery{
		"a heartbeat late in a change": {false, func(h *history) {
			h.changed(2200, 2900)
			h.shows(2550, 2560, 9)
		}, ""},
		"later than a heartbeat in a change": {false, func(h *history) {
			h.changed(2200, 2900)
			h.shows(2650, 2660, 9)
		}, noOrder},
		"a heartbeat late without a change": {false, func(h *history) {
			h.changed(2000, 2540)
			h.changed(2570, 2900)
			h.shows(2550, 2560, 9)
		}, noOrder},
		"a heartbeat late in a change, strictly": {true, func(h *history) {
			h.changed(2200, 2900)
			h.shows(2550, 2560, 9)
		}, noOrder},
		"a heartbeat late at an offset": {false, func(h *history) {
			h.changed(2200, 2900)
			h.after(2550, 2560, 5, 9)
		}, noOrder},
		"late is not from the future": {false, func(h *history) {
			h.changed(1000, 2900)
			h.shows(1500, 1600, 10)
		}, noOrder},
	} {
		t.Run(name, c.run)
	}
}
