package providers

import (
	"slices"
	"sync"
)

// Block is a run of messages that never change, so that a protocol that has encoded
// it once may leave its encoding there for the next request. It begins with a user
// message and holds the results of all its calls that have one. It is safe for
// concurrent use.
type Block struct {
	messages []Message
	text     int

	mu      sync.Mutex
	encoded any // by EncodeBlock; nil if there is none
	size    int64
	shown   shown // what encoded was made for

	// lacking is the block without the images that are gone, in its place with its
	// encoding; nil if there is none.
	lacking *Block
	gone    []bool
}

// shown is what Transform's treatment of messages depends on.
type shown struct {
	spec     string
	images   imageRules
	noReplay bool
}

func shownTo(m Model) shown { return shown{spec: m.Spec(), images: imagesFor(m), noReplay: m.NoReplay} }

// NewBlock returns a block of messages, which it keeps and which must not be
// changed any more.
func NewBlock(messages []Message) *Block {
	return &Block{messages: messages, text: TextBytes(messages)}
}

// TextBytes is how much text the messages of the block hold, in bytes.
func (b *Block) TextBytes() int { return b.text }

// TextBytes is how much text messages hold, in bytes: what people, models and tools have
// said, without attachments.
func TextBytes(messages []Message) (n int) {
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case Text:
				n += len(p.Text) + len(p.Signature)
			case Reasoning:
				n += len(p.Text) + len(p.Signature)
			case ToolCall:
				n += len(p.Arguments) + len(p.Signature)
			case ToolResult:
				n += TextBytes([]Message{{Parts: p.Content}})
			}
		}
	}
	return n
}

// without returns the block without some of its images, the same as long as they are.
func (b *Block) without(gone []bool) *Block {
	if !slices.Contains(gone, true) {
		return b
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lacking == nil || !slices.Equal(b.gone, gone) {
		b.lacking, b.gone = NewBlock(withoutImages(b.messages, gone)), gone
	}
	b.encoded, b.size, b.shown = nil, 0, shown{}
	return b.lacking
}

// Messages are the messages of the block, which must not be changed.
func (b *Block) Messages() []Message { return b.messages }

// EncodedBytes is the size of the encoding that the block holds, 0 if it holds none.
func (b *Block) EncodedBytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size
}

// Forget drops the encoding that the block holds.
func (b *Block) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.encoded, b.size, b.shown = nil, 0, shown{}
	b.lacking, b.gone = nil, nil
}

// EncodeBlock returns what encode makes of the messages of a block as Transform
// shows them to m, and how many bytes that takes. It returns what the block holds
// from an earlier call instead if that has the type T, which tells codecs apart, was
// made for such a model, and still fits. T must not change.
func EncodeBlock[T any](b *Block, m Model, fits func(T) bool, encode func([]Message) (T, int64, error)) (T, error) {
	to := shownTo(m)
	b.mu.Lock()
	encoded, was := b.encoded, b.shown
	b.mu.Unlock()
	if v, ok := encoded.(T); ok && was == to && fits(v) {
		return v, nil
	}
	v, size, err := encode(TransformBlock(m, b))
	if err != nil {
		return v, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.encoded, b.size, b.shown = v, size, to
	b.lacking, b.gone = nil, nil
	return v, nil
}

// TransformBlock returns the messages of a block as Transform shows them to m.
func TransformBlock(m Model, b *Block) []Message { return transformMessages(m, b.messages) }

// historyProtocol is a Protocol that takes Request.History as it is.
type historyProtocol interface {
	Protocol
	takesHistory()
}

// flat returns the request with all messages in one list.
func (r Request) flat() Request {
	if len(r.History) == 0 {
		return r
	}
	var all []Message
	for _, b := range r.History {
		all = append(all, b.messages...)
	}
	r.History, r.Messages = nil, append(all, r.Messages...)
	return r
}
