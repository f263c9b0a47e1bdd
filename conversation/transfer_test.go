package conversation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
	"github.com/parleyrun/parley/conversation/transfer"
	"github.com/parleyrun/parley/internal/sample"
)

// settledPrefix returns the longest prefix of a history that ends without unsettled submissions, and its
// snapshot.
func settledPrefix(t testing.TB, seed uint64) (batches []conversation.Batch, shown []byte) {
	t.Helper()
	state := conversation.NewStateHolding(math.MaxInt)
	all := generate(seed)
	for i, b := range all {
		if err := state.Apply(b); err != nil {
			t.Fatal(err)
		}
		if !state.Exists() || len(state.Unsettled()) > 0 {
			continue
		}
		var err error
		if shown, err = conversation.EncodeJSON(state.Snapshot()); err != nil {
			t.Fatal(err)
		}
		batches = all[:i+1]
	}
	return batches, shown
}

// incarnationOf returns the target incarnation of a transfer.
func incarnationOf(c *transfer.Conversation) transfer.Incarnation {
	incarnation := transfer.Incarnation{Address: conversation.Address{Agent: "a", ID: "1"}, UID: "inst_1", Files: map[conversation.AttachmentID]conversation.Attachment{}}
	for _, p := range c.Attachments() {
		incarnation.Files[p.ID] = conversation.Attachment{ID: p.ID, SHA256: "00", MimeType: p.MediaType, Size: *p.Size, Filename: p.Filename}
	}
	return incarnation
}

// overlapped is the only accepted failure: a message was answered while those before it were
// suspended.
const overlapped = "is not the first in the queue"

// TestTransferOfRandomHistories checks that a transferred conversation has the same snapshot. Each
// group settles what it admits, and earlier groups stay the same when the conversation continues.
// covers: upgrade/26, upgrade/30, upgrade/33
func TestTransferOfRandomHistories(t *testing.T) {
	over, not := 0, 0
	for seed := range uint64(300) {
		_, shown := settledPrefix(t, seed)
		if shown == nil {
			continue
		}
		c, err := transfer.ParseSnapshot(shown)
		if err != nil {
			t.Fatal(err)
		}
		groups, err := c.Records(incarnationOf(c))
		switch {
		case err == nil:
			over++
			wantSettled(t, seed, groups)
		case errors.Is(err, transfer.ErrEmpty):
		case strings.Contains(err.Error(), overlapped):
			not++
		default:
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if over < 200 || not > over/10 {
		t.Errorf("got %d transferred, %d rejected", over, not)
	}
}

// wantSettled checks that every group ends without unsettled submissions.
func wantSettled(t testing.TB, seed uint64, groups [][]conversation.Record) {
	t.Helper()
	state := conversation.NewState()
	for n, g := range groups {
		if err := state.Apply(conversation.Batch{Offset: conversation.Offset(n), Records: g}); err != nil {
			t.Fatal(err)
		}
		if len(state.Unsettled()) > 0 {
			t.Fatalf("seed %d: group %d ends with unsettled submissions", seed, n)
		}
	}
}

// TestTransferOfRandomStreams checks that a beta event stream yields the users' texts and the
// outcomes, in order.
// covers: upgrade/28, upgrade/30
func TestTransferOfRandomStreams(t *testing.T) {
	over, seeds := 0, sample.Of(300, 50)
	for seed := range uint64(seeds) {
		batches, shown := settledPrefix(t, seed)
		if shown == nil {
			continue
		}
		var events transfer.Events
		p, run := new(feed.Projector), false
		for _, b := range batches {
			born, page := p.FirstEvent(), []json.RawMessage{}
			numbers := []int64{}
			err := p.Apply(b.Records, func(e feed.Event) { page, numbers = append(page, e.JSON), append(numbers, e.Number) })
			if err != nil {
				t.Fatal(err)
			}
			if p.FirstEvent() != born { // a reader gets only the current incarnation
				events, run = transfer.Events{}, false
				for len(page) > 0 && numbers[0] < p.FirstEvent() {
					page, numbers = page[1:], numbers[1:]
				}
			}
			encoded, err := json.Marshal(page)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := events.Page(encoded); err != nil && !strings.Contains(err.Error(), "workflow run") {
				t.Fatal(err)
			} else if err != nil {
				run = true
			}
		}
		c, err := events.Conversation()
		if run || errors.Is(err, transfer.ErrEmpty) {
			continue
		}
		if err == nil {
			_, err = c.Records(incarnationOf(c))
		}
		if err != nil {
			if !strings.Contains(err.Error(), overlapped) {
				t.Errorf("seed %d: %v", seed, err)
			}
			continue
		}
		over++
		snapshot, err := transfer.ParseSnapshot(shown)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ends(snapshot, c), ends(c, c)); diff != "" {
			t.Errorf("seed %d: outcomes (-snapshot +events):\n%s", seed, diff)
		}
	}
	if over < seeds/2 {
		t.Errorf("got %d of %d transferred", over, seeds)
	}
}

// ends returns the outcomes of submissions that both conversations have.
func ends(c, other *transfer.Conversation) (out []string) {
	for _, s := range c.Settlements {
		if slices.ContainsFunc(other.Settlements, func(o conversation.Settlement) bool { return o.SubmissionID == s.SubmissionID }) {
			out = append(out, fmt.Sprint(s.SubmissionID, s.Outcome))
		}
	}
	return out
}
