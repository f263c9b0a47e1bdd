package clusterrun_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// conv is one conversation and its history as seen by clients.
type conv struct {
	id    string
	seed  uint64
	alone bool // without followers

	mu           sync.Mutex
	sent         []*sent
	observations []observation
	readers      []*reader
	shed         int // reads without an answer
}

type load struct {
	client  *client
	convs   []*conv
	think   time.Duration // mean pause between a receipt and the next message
	reading sync.WaitGroup
	read    context.Context // context of the current readers
}

func newLoad(c *client, seed uint64, convs int, think time.Duration) *load {
	l := &load{client: c, think: think}
	for i := range convs {
		l.convs = append(l.convs, &conv{id: fmt.Sprintf("t%d-%d", seed, i), seed: seed<<16 + uint64(i)})
	}
	return l
}

// dice returns the random numbers of one task of a conversation.
func (k *conv) dice(task uint64) *rand.Rand { return rand.New(rand.NewPCG(k.seed, task)) }

// scriptOf chooses the model's script for a message.
func scriptOf(r *rand.Rand) string {
	var words []string
	for range r.IntN(3) / 2 { // one in three has a tool
		words = append(words, fmt.Sprintf(`pace=%v tokens=%d tool=task {"agent":"helper","prompt":"pace=10ms tokens=%d"} then`,
			milliseconds(r, 5, 30), 1+r.IntN(20), 1+r.IntN(30)))
	}
	words = append(words, fmt.Sprintf("pace=%v tokens=%d", milliseconds(r, 5, 60), 5+r.IntN(80)))
	return strings.Join(words, " ")
}

// post sends the n-th message of a conversation and waits for its receipt. It starts the readers once
// the conversation exists.
func (l *load) post(ctx context.Context, k *conv, r *rand.Rand, n int) bool {
	return l.send(ctx, k, r, l.client.nodes, n, scriptOf(r))
}

// send is post with a script, at some of the nodes.
func (l *load) send(ctx context.Context, k *conv, r *rand.Rand, nodes []*node, n int, script string) bool {
	m := newSent(fmt.Sprintf("%s.%d", k.id, n), script)
	k.mu.Lock()
	k.sent = append(k.sent, m)
	k.mu.Unlock()
	done := *m // Other tasks read the shared message concurrently.
	err := l.client.sendTo(ctx, r, nodes, k.id, &done)
	k.mu.Lock()
	defer k.mu.Unlock()
	*m = done
	if err != nil {
		l.client.Fail("message %s is not answered: %v", m.Key, err)
		return false
	}
	if len(k.readers) == 0 && !k.alone {
		for i, from := range []conversation.Offset{conversation.Start, m.Receipt.Offset} {
			rd := newReader(l.client, k.dice(uint64(10+i)), k.id, from)
			k.readers = append(k.readers, rd)
			l.reading.Go(func() { rd.follow(l.read) })
		}
	}
	return true
}

// driveOn posts in one conversation until over ends. A message in flight is still answered, or ctx
// ends.
func (l *load) driveOn(ctx, over context.Context, k *conv) {
	r := k.dice(1)
	if noderun.Pause(over, milliseconds(r, 0, int(l.think.Milliseconds()))) != nil {
		return
	}
	for n := 0; ; n++ {
		if !l.post(ctx, k, r, n) || noderun.Pause(over, l.think/2+milliseconds(r, 0, int(l.think.Milliseconds()))) != nil {
			return
		}
	}
}

// pollOn reads one conversation in every way until over ends.
func (l *load) pollOn(over context.Context, k *conv) {
	r := k.dice(2)
	for noderun.Pause(over, l.think/4+milliseconds(r, 0, int(l.think.Milliseconds())/2)) == nil {
		n := l.client.any(r)
		var seen observation
		var err error
		if r.IntN(2) == 0 {
			seen, err = l.client.snapshot(over, n, k.id)
		} else {
			seen, _, err = l.client.updates(over, n, k.id, k.offset(r))
		}
		k.mu.Lock()
		switch {
		case err == nil:
			k.observations = append(k.observations, seen)
		case over.Err() == nil && noderun.Broken(err):
			l.client.Fail("read of %s at %v: %v", k.id, n, err)
		default:
			k.shed++
		}
		k.mu.Unlock()
	}
}

// offset returns an offset that a client of the conversation may know.
func (k *conv) offset(r *rand.Rand) conversation.Offset {
	known := []conversation.Offset{conversation.Start}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.sent {
		if m.Receipt != nil {
			known = append(known, m.Receipt.Offset)
		}
	}
	if n := len(k.observations); n > 0 {
		known = append(known, k.observations[n-1].Next)
	}
	for _, rd := range k.readers {
		known = append(known, rd.At())
	}
	return known[r.IntN(len(known))]
}

// run posts to and reads all conversations until over ends.
func (l *load) run(ctx, over context.Context) {
	var wg sync.WaitGroup
	for _, k := range l.convs {
		wg.Go(func() { l.driveOn(ctx, over, k) })
		wg.Go(func() { l.pollOn(over, k) })
	}
	wg.Wait()
}

// burst posts once more in every conversation, concurrently.
func (l *load) burst(ctx context.Context) {
	var wg sync.WaitGroup
	for _, k := range l.convs {
		wg.Go(func() { l.post(ctx, k, k.dice(3), 1_000_000) })
	}
	wg.Wait()
}

// resume restarts all readers until ctx ends.
func (l *load) resume(ctx context.Context) {
	l.read = ctx
	for _, k := range l.convs {
		for _, rd := range k.readers {
			l.reading.Go(func() { rd.follow(ctx) })
		}
	}
}

// acknowledged returns the keys of a conversation with a receipt.
func (k *conv) acknowledged() (keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.sent {
		if m.Receipt != nil {
			keys = append(keys, m.Key)
		}
	}
	return keys
}

// glimpses records the heads of conversations in the bucket until over ends.
func (l *load) glimpses(over context.Context, bucket storage.Bucket, seed uint64) (out []glimpse) {
	logs := storage.NewLogs(bucket, nil)
	r := rand.New(rand.NewPCG(seed, 4))
	for noderun.Pause(over, 200*time.Millisecond) == nil {
		k := l.convs[r.IntN(len(l.convs))]
		s := newLogView(k.id)
		if err := s.Read(over, logs); err == nil {
			out = append(out, glimpse{k.id, s.After})
		} else if over.Err() == nil {
			l.client.Fail("%s: read log during the run: %v", k.id, err)
		}
	}
	return out
}

// settled returns the acknowledged messages that are not settled yet. It reads the bucket and sends no
// request to a node.
func (l *load) settled(ctx context.Context, logs *storage.Logs, views map[string]*logView) (unsettled []string, err error) {
	for _, k := range l.convs {
		s := views[k.id]
		if s == nil {
			s = newLogView(k.id)
			views[k.id] = s
		}
		keys := k.acknowledged()
		if s.unsettled() > 0 || len(s.Order) < len(keys) {
			if err := s.Read(ctx, logs); err != nil {
				return nil, fmt.Errorf("%s: %w", k.id, err)
			}
		}
		for _, key := range keys {
			i := slices.IndexFunc(s.Order, func(a *noderun.Admitted) bool { return a.Key == key })
			if i < 0 || len(s.Order[i].Settled) == 0 {
				unsettled = append(unsettled, key)
			}
		}
	}
	return unsettled, nil
}
