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

// restful returns the longest beginning of a history at whose end nothing is owed, and what a
// server shows then; none if there is none.
func restful(t testing.TB, seed uint64) (batches []conversation.Batch, shown []byte) {
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

// lifeOf is where tests bring conversations to.
func lifeOf(c *transfer.Conversation) transfer.Life {
	life := transfer.Life{Address: conversation.Address{Agent: "a", ID: "1"}, UID: "inst_1", Files: map[conversation.AttachmentID]conversation.Attachment{}}
	for _, p := range c.Attachments() {
		life.Files[p.ID] = conversation.Attachment{ID: p.ID, SHA256: "00", MimeType: p.MediaType, Size: *p.Size, Filename: p.Filename}
	}
	return life
}

// overlapped is the one thing that does not come over: a message that was answered while
// those before it were parked.
const overlapped = "is not the first in the queue"

// TestRandomHistoriesComeOver: what a server shows of a conversation is brought over and
// shown alike, in groups that each settle what they admit, and that stay when the
// conversation goes on.
func TestRandomHistoriesComeOver(t *testing.T) {
	over, not := 0, 0
	for seed := range uint64(300) {
		_, shown := restful(t, seed)
		if shown == nil {
			continue
		}
		c, err := transfer.ParseSnapshot(shown)
		if err != nil {
			t.Fatal(err)
		}
		groups, err := c.Records(lifeOf(c))
		switch {
		case err == nil:
			over++
			rests(t, seed, groups)
		case errors.Is(err, transfer.ErrEmpty):
		case strings.Contains(err.Error(), overlapped):
			not++
		default:
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if over < 200 || not > over/10 {
		t.Errorf("%d came over, %d did not", over, not)
	}
}

// rests: at the end of every group nothing is owed.
func rests(t testing.TB, seed uint64, groups [][]conversation.Record) {
	t.Helper()
	state := conversation.NewState()
	for n, g := range groups {
		if err := state.Apply(conversation.Batch{Offset: conversation.Offset(n), Records: g}); err != nil {
			t.Fatal(err)
		}
		if len(state.Unsettled()) > 0 {
			t.Fatalf("seed %d: group %d leaves something owed", seed, n)
		}
	}
}

// TestRandomStreamsComeOver: what the beta line shows of a conversation has the texts of
// its users and the outcomes of its submissions, in order.
func TestRandomStreamsComeOver(t *testing.T) {
	over, seeds := 0, sample.Of(300, 50)
	for seed := range uint64(seeds) {
		batches, shown := restful(t, seed)
		if shown == nil {
			continue
		}
		var events transfer.Events
		p, run := new(feed.Projector), false
		for _, b := range batches {
			born, page := p.Born(), []json.RawMessage{}
			numbers := []int64{}
			err := p.Apply(b.Records, func(e feed.Event) { page, numbers = append(page, e.JSON), append(numbers, e.Number) })
			if err != nil {
				t.Fatal(err)
			}
			if p.Born() != born { // a reader gets the present life alone
				events, run = transfer.Events{}, false
				for len(page) > 0 && numbers[0] < p.Born() {
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
			_, err = c.Records(lifeOf(c))
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
		t.Errorf("%d of %d came over", over, seeds)
	}
}

// ends are the outcomes of a conversation, of submissions that another has as well.
func ends(c, other *transfer.Conversation) (out []string) {
	for _, s := range c.Settlements {
		if slices.ContainsFunc(other.Settlements, func(o conversation.Settlement) bool { return o.SubmissionID == s.SubmissionID }) {
			out = append(out, fmt.Sprint(s.SubmissionID, s.Outcome))
		}
	}
	return out
}
