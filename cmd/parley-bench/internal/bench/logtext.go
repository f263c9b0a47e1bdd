package bench

import (
	"embed"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// prose holds the words of all texts with their natural frequency. Words drawn from it at random
// compress about as English does.
//
//go:embed prose.txt
var prose embed.FS

// deltas returns n record lines of streamed text of size bytes each, newline included. They are equal
// in every run and contain no character that JSON escapes.
func deltas(n, size int) ([][]byte, error) {
	text, err := prose.ReadFile("prose.txt")
	if err != nil {
		return nil, err
	}
	words, dice := strings.Fields(string(text)), rand.New(rand.NewPCG(uint64(size), 1))
	record := &conversation.Delta{Message: "msg_01JZ4W8Q2M5T7X9B3C6D8F0G1H", Kind: conversation.PartText}
	empty, err := conversation.EncodeRecords(nil, []conversation.Record{record})
	lines := make([][]byte, n)
	for i := range lines {
		var text strings.Builder
		for text.Len() < size-len(empty) {
			text.WriteString(words[dice.IntN(len(words))] + " ")
		}
		record.Text = text.String()[:size-len(empty)]
		if err == nil {
			lines[i], err = conversation.EncodeRecords(nil, []conversation.Record{record})
		}
	}
	return lines, err
}

// payload is the content that both sides of a comparison store: one appends lines as a batch, the
// other stores object, the encoded batch.
type payload struct{ lines, object []byte }

// payloads returns payloads of one record line of size bytes each.
func payloads(size int) ([]payload, error) {
	lines, err := deltas(64, size)
	if err != nil {
		return nil, err
	}
	all := make([]payload, len(lines))
	for i, line := range lines {
		// The header is as long as that of the batches in the comparison.
		head := storage.Header{
			Version: storage.SchemaVersion, Seq: int64(1000 + i), Nonce: storage.Nonce(fmt.Sprintf("01JZ4W8Q2M5T7X9B3C6D8F0G1H-%d", i)),
			Prev: storage.Hash(line[len(line)-18:]), Epoch: 1, At: conversation.Time(1_754_000_000_000 + i),
		}
		object, _, err := storage.EncodeBatch(head, line)
		if err != nil {
			return nil, err
		}
		all[i] = payload{line, object}
	}
	return all, nil
}

func objectBytes(pool []payload) float64 {
	sum := 0
	for _, p := range pool {
		sum += len(p.object)
	}
	return float64(sum) / float64(len(pool))
}
