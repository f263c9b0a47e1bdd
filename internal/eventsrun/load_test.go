package eventsrun_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/sample"
)

// conv is a conversation. One client uses it at a time.
type conv struct {
	id   string
	rand *rand.Rand
	sent int
}

type message struct {
	key, text string
	abort     bool
	events    int // minimum number of its durable events
}

func (k *conv) next() message {
	r := k.rand
	m := message{key: fmt.Sprintf("%s.%d", k.id, k.sent), events: 10}
	k.sent++
	words := []string{"note=" + m.key}
	calls := func() {
		n := 20 + r.IntN(60)
		m.events += 2 + 2*n
		for i := range n {
			words = append(words, fmt.Sprintf(`tool=lookup {"n":%d}`, i))
		}
	}
	switch r.IntN(10) {
	case 0: // A model call that is refused once.
		words = append(words, "status=503 times=1")
		calls()
		words = append(words, "then reasoning=3 tokens=10")
	case 1: // A model call that breaks off.
		words = append(words, []string{"fail=3 times=1", "truncate=3 times=1"}[r.IntN(2)])
		calls()
		words = append(words, "then tokens=10")
	case 2: // A message that is aborted.
		m.abort = true
		calls()
		m.events = 6 // It may end before its calls.
		words = append(words, "then tokens=3 hang=0")
	case 3: // A task of a subagent.
		words = append(words, fmt.Sprintf(`tool=task {"agent":"helper","prompt":"tokens=%d"} then tokens=5`, 1+r.IntN(9)))
	case 4, 5: // Two steps.
		calls()
		words = append(words, "then")
		calls()
		words = append(words, "then tokens=20")
	default:
		calls()
		words = append(words, "tokens=5 then tokens=20")
	}
	m.text = strings.Join(words, " ")
	return m
}

type load struct {
	client  *client
	clients int
	think   time.Duration // pause of a client between two messages
	idle    chan *conv    // without a client

	mu     sync.Mutex
	rounds []round
	events int // minimum number of durable events of settled messages
	begun  int // conversations
}

// round is a message whose settlement a client received.
type round struct {
	client   int
	from, to time.Time
}

// newLoad makes clients and conversations, in the order of a seed.
func newLoad(c *client, seed uint64, clients, convs int) *load {
	l := &load{client: c, clients: clients, think: sample.Of(300*time.Millisecond, 1500*time.Millisecond), idle: make(chan *conv, convs)}
	for i := range convs {
		l.idle <- newConv(seed, i)
	}
	return l
}

func newConv(seed uint64, i int) *conv {
	return &conv{id: fmt.Sprintf("t%d-%d", seed, i), rand: rand.New(rand.NewPCG(seed, uint64(i)))}
}

// run posts until over ends. Messages in flight then still settle, or ctx ends.
func (l *load) run(ctx, over context.Context) error {
	errs := make([]error, l.clients)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range l.clients {
		wg.Go(func() {
			for over.Err() == nil && errs[i] == nil {
				k := <-l.idle // There are more conversations than clients.
				if errs[i] = l.round(ctx, i, k); errs[i] != nil {
					cancel(errors.New("another client failed"))
				}
				l.idle <- k
				_ = noderun.Pause(over, l.think)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// round posts the next message of a conversation and waits for its settlement.
func (l *load) round(ctx context.Context, client int, k *conv) error {
	return l.send(ctx, client, k, k.next())
}

// send posts a message and waits for its settlement.
func (l *load) send(ctx context.Context, client int, k *conv, m message) error {
	begun := time.Now()
	receipt, err := l.client.post(ctx, k.rand, k.id, m.key, m.text)
	if err != nil {
		return err
	}
	want := conversation.OutcomeCompleted
	if m.abort {
		want = conversation.OutcomeAborted
		if err := noderun.Pause(ctx, time.Duration(k.rand.IntN(1000))*time.Millisecond); err != nil {
			return err
		}
		if err := l.client.abort(ctx, k.rand, k.id); err != nil {
			return fmt.Errorf("abort %s: %w", m.key, err)
		}
	}
	got, err := l.client.settled(ctx, k.rand, k.id, receipt)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("message %s is settled as %s, want %s", m.key, got, want)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rounds = append(l.rounds, round{client, begun, time.Now()})
	l.events += m.events
	if k.sent == 1 {
		l.begun++
	}
	return nil
}

// made returns the minimum number of durable events.
func (l *load) made() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// since counts the messages posted and settled since t, and the clients that had one.
func (l *load) since(t time.Time) (settled, clients int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return count(l.rounds, t)
}

// count implements since. Rounds are in the order of their ends.
func count(rounds []round, t time.Time) (settled, clients int) {
	seen := map[int]bool{}
	for i := len(rounds) - 1; i >= 0 && rounds[i].to.After(t); i-- {
		if r := rounds[i]; r.from.After(t) {
			settled++
			seen[r.client] = true
		}
	}
	return settled, len(seen)
}

func TestCount(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	rounds := []round{
		{client: 0, from: at(1), to: at(3)}, {client: 1, from: at(1), to: at(6)}, // begun before
		{client: 0, from: at(6), to: at(7)}, {client: 0, from: at(7), to: at(8)}, {client: 2, from: at(6), to: at(9)},
	}
	if settled, clients := count(rounds, at(5)); settled != 3 || clients != 2 {
		t.Errorf("%d messages of %d clients, want 3 of 2", settled, clients)
	}
}

func TestSeedRepeatsMessages(t *testing.T) {
	var all []string
	for i := range 40 {
		one, two := newConv(7, i), newConv(7, i)
		for range 5 {
			a, b := one.next(), two.next()
			if a != b {
				t.Fatalf("conversation %d: %+v, then %+v", i, a, b)
			}
			all = append(all, a.text)
		}
	}
	text := strings.Join(all, "\n")
	for _, part := range []string{"status=503", "fail=", "truncate=", "hang=", "tool=task", "tool=lookup"} {
		if !strings.Contains(text, part) {
			t.Errorf("no message has %s", part)
		}
	}
}
