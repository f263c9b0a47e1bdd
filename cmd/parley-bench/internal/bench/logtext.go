package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// prose gives the words of all texts as often as people use them. Drawn one by one
// they compress about as English does.
const prose = `When the order arrived on Tuesday, the customer found that two of the five boxes were
open and that one invoice was missing. She wrote to us the same evening, with a picture of each box
and the number of the delivery, and asked whether we could send the missing parts before the end of
the week. I looked at what the warehouse had noted: everything left complete at noon, and nobody saw
any damage. The carrier says otherwise; their driver reported a wet pallet and a torn label, but only
after he had been asked twice. My suggestion is that we replace both boxes today, at our own cost, and
then talk to the carrier about who pays for it. Here is what I would answer her. Thank you for the
pictures, they help a great deal. New boxes will leave our house tomorrow morning and should be with
you by Thursday; you need not send anything back. If there is something else that we have overlooked,
please tell me directly and I will see to it. As for the invoice, it is attached below, and the amount
stays the same as in your order. There are three things you may want to check first: is the address
still right, was the discount taken into account, and do you need a separate note for the repair of
the machine? Once I know, the rest takes less than an hour. In the long run it would be better to have
one person who follows every shipment from the first call to the last, because most questions come up
between two desks, where each believes that the other has already replied.`

// deltas returns n record lines of streamed text, with their newlines, of size bytes each, the
// same in every run. No character is one that JSON escapes.
func deltas(n, size int) ([][]byte, error) {
	words, dice := strings.Fields(prose), rand.New(rand.NewPCG(uint64(size), 1))
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

// payload is what both sides of a comparison store: one the lines as a batch, the
// other the object of such a batch, as it is.
type payload struct{ lines, object []byte }

// payloads returns payloads of one record line of size bytes each.
func payloads(size int) ([]payload, error) {
	lines, err := deltas(64, size)
	if err != nil {
		return nil, err
	}
	all := make([]payload, len(lines))
	for i, line := range lines {
		// As long as the headers of the batches it is compared with.
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

// objectBytes returns the mean size of the objects.
func objectBytes(pool []payload) float64 {
	sum := 0
	for _, p := range pool {
		sum += len(p.object)
	}
	return float64(sum) / float64(len(pool))
}
