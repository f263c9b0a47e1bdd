package providers

import (
	"slices"
	"sync"
)

// Block is an immutable run of messages. A protocol may cache its encoding in the block for the next
// request. A block begins with a user message and includes the available results of all its calls. It
// is safe for concurrent use.
type Block struct {
	messages []Message
	text     int

	mu      sync.Mutex
	encoded any // set by EncodeBlock; nil if there is none
	size    int64
	shown   shown // key of encoded

	// lacking caches the block without the removed images, including its encoding; nil if there is
	// none.
	lacking *Block
	gone    []bool
}

// shown lists the inputs on which the result of Transform depends.
type shown struct {
	spec     string
	images   imageRules
	noReplay bool
}

func viewFor(m Model) shown { return shown{spec: m.Spec(), images: imagesFor(m), noReplay: m.NoReplay} }

// NewBlock returns a block of messages. The block retains the slice; the caller must not change it.
func NewBlock(messages []Message) *Block {
	return &Block{messages: messages, text: TextBytes(messages)}
}

// TextBytes returns the size of the text in the messages of the block, in bytes.
func (b *Block) TextBytes() int { return b.text }

// TextBytes returns the size of all text in messages, in bytes: text, reasoning, calls and results,
// without attachments.
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

// without returns the block without the images marked in gone. It returns the same block for the same
// images.
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

// Messages returns the messages of the block. The caller must not change them.
func (b *Block) Messages() []Message { return b.messages }

// EncodedBytes returns the size of the cached encoding, or 0 without one.
func (b *Block) EncodedBytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size
}

// Evict drops the cached encoding.
func (b *Block) Evict() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.encoded, b.size, b.shown = nil, 0, shown{}
	b.lacking, b.gone = nil, nil
}

// EncodeBlock returns the encoding of the messages of a block, transformed for m. encode returns the
// encoding and its size in bytes. EncodeBlock reuses the cached encoding if it has type T, was made
// for an equivalent model, and fits accepts it. Each codec uses its own T. A T must not change.
func EncodeBlock[T any](b *Block, m Model, fits func(T) bool, encode func([]Message) (T, int64, error)) (T, error) {
	to := viewFor(m)
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

// TransformBlock returns the messages of a block, transformed for m.
func TransformBlock(m Model, b *Block) []Message { return transformMessages(m, b.messages) }

// historyProtocol is a Protocol that accepts Request.History unflattened.
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
