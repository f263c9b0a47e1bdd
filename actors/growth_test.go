package actors_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
)

var growthTurns = flag.Int("turns", sample.Of(40, 10), "measure what a conversation of so many turns stores")

const (
	// replyBytes and tokenTime describe a reply of typical length and speed.
	replyBytes = 2000
	tokenBytes = 4
	tokenTime  = 15 * time.Millisecond
	activities = 30 // activations of the conversation
	// checkpointShare approximates the size of the two newest checkpoints, which does not depend on
	// the length; it matters while the log is short.
	checkpointShare = 96 << 10
)

// prose returns the text of the project's pages, from which replies are made.
func prose(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return strings.ToValidUTF8(strings.ReplaceAll(all.String(), "\n", " "), "")
}

// textScript answers with the next part of a text, one token at a time.
func textScript(text string) script {
	at := 0
	return func(ctx context.Context, _ providers.Request, a *providers.Assembler) error {
		for size := 0; size < replyBytes; size += tokenBytes {
			if at+2*tokenBytes > len(text) {
				at = 0
			}
			a.Text(strings.ToValidUTF8(text[at:at+tokenBytes], "-"))
			at += tokenBytes
			select {
			case <-time.After(tokenTime):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	}
}

// TestStoredSizeOfConversation measures the bucket after many turns of one conversation, in bytes per
// streamed byte and in objects, after garbage collection of replaced objects. Claims, one per
// activation, are counted separately.
func TestStoredSizeOfConversation(t *testing.T) {
	text := prose(t)
	for _, tt := range []struct {
		pace  time.Duration
		bytes float64 // maximum per streamed byte
	}{
		{250 * time.Millisecond, 1.0},
		{50 * time.Millisecond, 1.8},
	} {
		t.Run(tt.pace.String(), func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				opts := actors.Options{Pace: tt.pace, UnloadAfter: time.Second, EvictAfter: 2 * time.Second, SegmentGrace: time.Minute}
				opts.Agents = agents(chatAgent()).Agents
				n := l.run(part{opts: opts, vendor: onlyModel(textScript(text))})
				for i := range *growthTurns {
					if i%max(1, *growthTurns/activities) == 0 {
						time.Sleep(opts.EvictAfter + time.Second)
					}
					r := n.admit(chat("c"), fmt.Sprint(i), "Go on.")
					if _, err := n.rt.Wait(t.Context(), chat("c"), r); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(2 * opts.SegmentGrace)
				l.checkStored(chat("c"), float64(*growthTurns*replyBytes), tt.bytes)
			})
		})
	}
}

// checkStored compares the stored size of a conversation with the streamed size.
func (l *loop) checkStored(at conversation.Address, streamed, limit float64) {
	l.tb.Helper()
	const objects = 150
	claims := len(l.claims(at))
	stored, count, kinds := int64(0), 0, map[string]int64{}
	for key, size := range l.listing() {
		stored += size
		count++
		kind := strings.Split(key+"//", "/")[2]
		kinds[kind] += size
		kinds[kind+" objects"]++
	}
	l.tb.Logf("%.0f bytes streamed, %d stored: %.2f; %d objects, %d of them claims: %v",
		streamed, stored, float64(stored)/streamed, count, claims, kinds)
	allowed := limit * streamed
	if *growthTurns < 1000 {
		allowed += checkpointShare
	}
	if float64(stored) > allowed {
		l.tb.Errorf("got %d bytes stored, want at most %.0f", stored, allowed)
	}
	if count-claims > objects {
		l.tb.Errorf("got %d objects in addition to %d claims, want at most %d", count-claims, claims, objects)
	}
	if kinds["seg"] == 0 {
		l.tb.Error("got no segment")
	}
}
