package segment_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

// prose is the source of words for replies, with natural frequencies.
const prose = `The harbour of the small town lies behind a long wall of grey stones, and on most
mornings you can see between twelve and twenty boats there, painted in every colour that was cheap in
the year they were built. Nobody remembers who began with it. Martha, who has kept the shop on the corner
since 1987, says it was her uncle; the man at the ferry says the paint came from a ship that was broken up
two summers after the storm. Either may be right. What is certain is that the fishermen repaint them every
spring, usually in the last week of April, and that each of them asks his neighbour first, so that no two
boats next to each other ever look alike. If you want to visit, take the early bus from the station and
walk down through the gardens; it takes about forty minutes and the view is worth more than the ticket.
Bring a coat even in July, because the wind turns quickly. You should also know three practical things.
First, the only bank closes at noon. Second, the museum is larger than it looks and shows charts, letters,
instruments, and a complete kitchen from an old lighthouse. Third, rooms are hard to find on weekends, but
almost every house will give you soup, bread and good advice. I would stay for two nights, rent a bicycle,
follow the coast as far as the white chapel, and come back by the upper road where the orchards are. There
you get apples for very little money, and, when the air is clear, a glimpse of the islands which our
grandparents still called by another name.`

// text returns English-like words, the same in every run.
func text(rng *rand.Rand, words []string, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// turns returns recorded turns of a conversation: a message, a reply of 2,000 characters streamed in
// deltas of delta characters, one per batch, and the settlement.
func turns(tb testing.TB, n, delta int) (batches []segment.Batch, stored, streamed int) {
	tb.Helper()
	const reply = 2000
	rng, words := rand.New(rand.NewPCG(uint64(delta), 1)), strings.Fields(prose)
	h := after(-1, "")
	h.head.Nonce = "01JZ4W8Q2M5T7X9B3C6D8F0G1H"
	add := func(records ...conversation.Record) {
		lines, err := conversation.EncodeRecords(nil, records)
		if err != nil {
			tb.Fatal(err)
		}
		batches = append(batches, h.next(string(lines)))
		stored += len(lines)
	}
	id := func(kind string) string {
		const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
		b := []byte(kind + "_01JZ4W8Q")
		for range 18 {
			b = append(b, digits[rng.IntN(len(digits))])
		}
		return string(b)
	}
	for range n {
		submission, message, turn := conversation.SubmissionID(id("sub")), conversation.MessageID(id("msg")), conversation.TurnID(id("turn"))
		add(&conversation.SubmissionAdmitted{
			Submission: submission, Message: conversation.MessageID(id("msg")), Key: id("key"), PayloadHash: fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()),
			Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: text(rng, words, 80)}, At: h.head.At,
		}, &conversation.AttemptStarted{Submission: submission, Attempt: 1, Writer: string(h.head.Nonce), At: h.head.At})
		add(&conversation.ResponseStarted{Message: message, Submission: submission, Turn: turn, Model: "anthropic/claude-opus-4-6", At: h.head.At})
		for whole := text(rng, words, reply); whole != ""; {
			n := min(delta, len(whole))
			add(&conversation.Delta{Message: message, Kind: conversation.PartText, Text: whole[:n]})
			whole = whole[n:]
		}
		add(&conversation.StepCompleted{Message: message, Turn: turn, StopReason: "stop", ElapsedMs: rng.Int64N(20000), At: h.head.At},
			&conversation.SubmissionSettled{Submission: submission, Outcome: conversation.OutcomeCompleted, ElapsedMs: rng.Int64N(20000), At: h.head.At})
		streamed += reply
	}
	return batches, stored, streamed
}

// BenchmarkSegment builds and reads a segment of streamed replies. MB/s counts record lines;
// stored/char is the stored size per streamed character, including everything that belongs to its
// turn.
func BenchmarkSegment(b *testing.B) {
	for _, size := range []int{13, 66} {
		batches, stored, streamed := turns(b, 100, size)
		c := segment.NewCodec(limit, 1)
		object, index := build(b, c, batches)
		b.Run(fmt.Sprintf("delta=%d/encode", size), func(b *testing.B) {
			b.SetBytes(int64(stored))
			b.ReportAllocs()
			for b.Loop() {
				build(b, c, batches)
			}
			b.ReportMetric(float64(len(object))/float64(streamed), "stored/char")
		})
		b.Run(fmt.Sprintf("delta=%d/decode", size), func(b *testing.B) {
			b.SetBytes(int64(stored))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := read(c, object); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("delta=%d/one", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				frame, offset := index.Find(index.Last / 2)
				if _, err := c.Frame(index, frame, object[offset:offset+index.Frames[frame].Size]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestStoredBytes bounds the stored size of a streamed character in a segment.
func TestStoredBytes(t *testing.T) {
	for delta, limit := range map[int]float64{13: 1.8, 66: 1} {
		batches, _, streamed := turns(t, 30, delta)
		object, _ := build(t, segment.NewCodec(1<<20, 1), batches)
		got := float64(len(object)) / float64(streamed)
		t.Logf("deltas of %d characters: %.2f bytes stored per character", delta, got)
		if got > limit {
			t.Errorf("deltas of %d characters: %.2f bytes stored per character, want at most %.2f", delta, got, limit)
		}
	}
}
