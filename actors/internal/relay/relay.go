package relay

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// renewEvery is the interval of renewals, and of bucket reads of conversations whose owner is
	// unreachable.
	renewEvery = 3 * time.Second
	// keptFor is the time that an owner keeps a subscription without a renewal.
	keptFor = 10 * renewEvery
	// movedFor is the time after a change of owner that the previous owner may still write. Its pushes
	// may be lost undetected.
	movedFor = 5 * renewEvery
	// askTimeout bounds one request to another node.
	askTimeout = 2 * time.Second
	// atOnce bounds the conversations of one Subscribe.
	atOnce = 1000
	// maxPush bounds the record lines of a pushed batch; of a longer one only the number is sent.
	// maxGroup bounds the lines of one message, maxOutbox those waiting for one node.
	maxPush, maxGroup, maxOutbox = 64 << 10, 128 << 10, 4 << 20
	// deliverPause is the pause before a group is sent again to a node that is not in the view yet.
	deliverPause = 50 * time.Millisecond
	// recheckGroup and recheckPause spread concurrent reads of the bucket.
	recheckGroup = 100
	recheckPause = 50 * time.Millisecond
)

// Relay is one node's relay. Use New.
type Relay struct {
	peers     Peers
	followers Followers
	log       *slog.Logger
	tip       func(conversation.Key) *wire.Tip
	unknown   func(error) bool

	relayed, gaps atomic.Int64

	mu        sync.Mutex
	closed    bool
	followed  map[conversation.Key]*subscription
	ended     map[string][]string // conversations without followers, by owner
	wanted    map[conversation.Key]map[string]time.Time
	outboxes  map[string]*outbox
	renewing  map[string]bool // owners with a renewal in progress
	renewable chan struct{}
	sending   sync.WaitGroup
}

// Followers is the interface to the followers of this node.
type Followers interface {
	OfferStored(conversation.Key, storage.Batch)
	Behind(key conversation.Key, seq int64)
	Recheck(conversation.Key)
}

// Peers is the interface to the other nodes.
type Peers interface {
	// Address returns this node's address, as dialed by the others.
	Address() string
	// Owner returns the node that owns a conversation, or "".
	Owner(id string) (address string, self bool)
	AskNode(ctx context.Context, address string, m proto.Message) (proto.Message, error)
}

// Options are the dependencies of a Relay. All but Logger are required.
type Options struct {
	Peers     Peers
	Followers Followers
	// Tip returns the head of a log as known to this node's activation.
	Tip func(conversation.Key) *wire.Tip
	// Unknown reports whether an error of AskNode means that the other node is not in this node's
	// view, which it may enter soon.
	Unknown func(error) bool
	Logger  *slog.Logger // nil discards
}

type subscription struct {
	owner string    // node that has acknowledged it, or ""
	since time.Time // time of the last change of owner
	due   bool      // subscribe before the next round
	asked string    // last requested owner, or ""
	moved time.Time // when asked last changed
}

// outbox is the queue for one node. Invariant: a goroutine sends while busy is set.
type outbox struct {
	pushes []*wire.Push
	bytes  int
	busy   bool
}

// New returns a relay that is not running yet.
func New(o Options) *Relay {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Relay{
		peers: o.Peers, followers: o.Followers, tip: o.Tip, unknown: o.Unknown, log: log,
		followed: map[conversation.Key]*subscription{}, ended: map[string][]string{},
		wanted: map[conversation.Key]map[string]time.Time{}, outboxes: map[string]*outbox{}, renewing: map[string]bool{},
		renewable: make(chan struct{}, 1),
	}
}

// Run keeps the subscriptions until ctx ends, and returns when no message is in flight.
func (r *Relay) Run(ctx context.Context) {
	defer r.sending.Wait()
	defer r.close()
	t := time.NewTicker(renewEvery)
	defer t.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			all = true
			r.expire()
		case <-r.renewable:
		}
		r.renew(ctx, all)
	}
}

func (r *Relay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.outboxes = map[string]*outbox{}
}

// signal triggers a renewal of due subscriptions. It does not block.
func (r *Relay) signal() {
	select {
	case r.renewable <- struct{}{}:
	default:
	}
}

// Follow subscribes to a conversation, unless it is already followed.
func (r *Relay) Follow(key conversation.Key) {
	r.mu.Lock()
	known := r.followed[key] != nil
	if !known {
		r.followed[key] = &subscription{since: time.Now(), due: true}
	}
	r.mu.Unlock()
	if !known {
		r.signal()
	}
}

// Unfollow ends the subscription.
func (r *Relay) Unfollow(key conversation.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.followed[key]; s != nil && s.owner != "" {
		r.ended[s.owner] = append(r.ended[s.owner], string(key))
	}
	delete(r.followed, key)
}

// ViewChanged drops subscribers that left and renews subscriptions whose owner changed.
func (r *Relay) ViewChanged(isMember func(address string) bool) {
	r.mu.Lock()
	for address := range r.outboxes {
		if !isMember(address) {
			r.remove(address)
		}
	}
	r.mu.Unlock()
	r.signal()
}

// LinkDown drops the subscriptions with a node in both directions, because pushes may have been lost.
func (r *Relay) LinkDown(address string) {
	r.mu.Lock()
	r.remove(address)
	for _, s := range r.followed {
		if s.owner == address {
			s.owner, s.since, s.due = "", time.Now(), true
		}
	}
	r.mu.Unlock()
	r.signal()
}

// remove removes a subscriber; mu is held.
func (r *Relay) remove(address string) {
	delete(r.outboxes, address)
	for key, subscribers := range r.wanted {
		delete(subscribers, address)
		if len(subscribers) == 0 {
			delete(r.wanted, key)
		}
	}
}

func (r *Relay) expire() {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, subscribers := range r.wanted {
		for address, until := range subscribers {
			if now.After(until) {
				delete(subscribers, address)
			}
		}
		if len(subscribers) == 0 {
			delete(r.wanted, key)
		}
	}
}

// renew subscribes with the owners: all conversations, or those without an acknowledged subscription.
// It does not block: a hanging owner delays no other.
func (r *Relay) renew(ctx context.Context, all bool) {
	due, moved := r.due(all)
	r.sending.Go(func() { r.recheck(ctx, moved) })
	for address, keys := range due {
		r.sending.Go(func() {
			defer r.renewed(address)
			if len(keys) == 0 { // only ended subscriptions
				r.subscribeAt(ctx, address, nil)
			}
			for part := range slices.Chunk(keys, atOnce) {
				r.subscribeAt(ctx, address, part)
			}
		})
	}
}

func (r *Relay) renewed(owner string) {
	r.mu.Lock()
	delete(r.renewing, owner)
	r.mu.Unlock()
	r.signal()
}

// recheck rechecks conversations in the bucket, in groups.
func (r *Relay) recheck(ctx context.Context, keys []conversation.Key) {
	for part := range slices.Chunk(keys, recheckGroup) {
		for _, key := range part {
			r.followers.Recheck(key)
		}
		if len(part) < recheckGroup {
			return
		}
		select {
		case <-time.After(recheckPause):
		case <-ctx.Done():
			return
		}
	}
}

// due groups the conversations to subscribe to by owner. It also returns the conversations that moved
// to this node or recently changed owner: batches of their previous owner may have been missed.
func (r *Relay) due(all bool) (due map[string][]conversation.Key, moved []conversation.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due = map[string][]conversation.Key{}
	for key, s := range r.followed {
		owner, self := r.peers.Owner(string(key))
		if !self && r.renewing[owner] {
			continue // renewed triggers it
		}
		fresh := s.due || s.asked != owner
		if s.asked != owner {
			if s.asked != "" {
				s.moved = time.Now()
			}
			s.asked = owner
		}
		s.due = false
		if all && owner != "" && time.Since(s.moved) < movedFor {
			moved = append(moved, key)
		}
		switch {
		case self && s.owner != owner:
			s.owner, s.since = owner, time.Now()
			moved = append(moved, key)
		case self:
		case all || fresh:
			if s.owner != owner && s.owner != "" {
				s.owner, s.since = "", time.Now()
			}
			due[owner] = append(due[owner], key)
		}
	}
	for owner := range r.ended {
		if due[owner] == nil && !r.renewing[owner] {
			due[owner] = nil
		}
	}
	for owner := range due {
		r.renewing[owner] = true
	}
	for _, keys := range due {
		slices.Sort(keys)
	}
	slices.Sort(moved)
	return due, moved
}

// subscribeAt subscribes with an owner. Without an answer the bucket is read.
func (r *Relay) subscribeAt(ctx context.Context, owner string, keys []conversation.Key) {
	m := &wire.Subscribe{Address: r.peers.Address()}
	for _, key := range keys {
		m.Conversations = append(m.Conversations, string(key))
	}
	r.mu.Lock()
	m.Ended = r.ended[owner]
	delete(r.ended, owner)
	r.mu.Unlock()
	var reply *wire.Subscribed
	if owner != "" {
		limited, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		answer, err := r.peers.AskNode(limited, owner, m)
		if err != nil && ctx.Err() == nil {
			r.log.Debug("owner did not answer subscription", "node", owner, "count", len(keys), "err", err)
		}
		reply, _ = answer.(*wire.Subscribed)
	}
	if len(reply.GetTips()) != len(keys) {
		r.unanswered(owner, keys)
		r.recheck(ctx, keys)
		return
	}
	var unsure []conversation.Key
	for i, tip := range reply.GetTips() {
		if !r.acknowledged(owner, keys[i], tip) {
			unsure = append(unsure, keys[i])
		}
	}
	r.recheck(ctx, unsure)
}

// unanswered records that no batches of these conversations are pushed.
func (r *Relay) unanswered(owner string, keys []conversation.Key) {
	r.mu.Lock()
	for _, key := range keys {
		if s := r.followed[key]; s != nil && s.owner == owner && owner != "" {
			s.owner, s.since = "", time.Now()
		}
	}
	r.mu.Unlock()
}

// acknowledged compares the local tip with the owner's and reports whether that is sufficient. Batches
// that landed before the subscription, or while it was broken, were not pushed.
func (r *Relay) acknowledged(owner string, key conversation.Key, tip *wire.Tip) bool {
	r.mu.Lock()
	s := r.followed[key]
	// A subscription unknown to this node may be younger than its last read of the bucket.
	kept := tip.GetKept() && s != nil && s.owner == owner
	if s != nil && s.owner != owner {
		s.owner, s.since = owner, time.Now()
	}
	r.mu.Unlock()
	if tip.GetKnown() && s != nil {
		r.followers.Behind(key, tip.GetSeq())
	}
	return s == nil || tip.GetKnown() || kept
}

// Lag returns the longest time that a subscription has been without an owner that pushes.
func (r *Relay) Lag() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var worst time.Duration
	for _, s := range r.followed {
		if s.owner == "" {
			worst = max(worst, time.Since(s.since))
		}
	}
	return worst
}

func (r *Relay) subscribe(m *wire.Subscribe) *wire.Subscribed {
	out := &wire.Subscribed{}
	now := time.Now()
	kept := make([]bool, len(m.GetConversations()))
	r.mu.Lock()
	for _, c := range m.GetEnded() {
		delete(r.wanted[conversation.Key(c)], m.GetAddress())
	}
	for i, c := range m.GetConversations() {
		key := conversation.Key(c)
		until, there := r.wanted[key][m.GetAddress()]
		kept[i] = there && now.Before(until)
		if r.wanted[key] == nil {
			r.wanted[key] = map[string]time.Time{}
		}
		r.wanted[key][m.GetAddress()] = now.Add(keptFor)
	}
	r.mu.Unlock()
	// Read the tips after the subscriptions are active, so that no batch falls in between.
	for i, c := range m.GetConversations() {
		tip := r.tip(conversation.Key(c))
		tip.Kept = kept[i]
		out.Tips = append(out.Tips, tip)
	}
	return out
}

// Publish pushes a durable batch to its subscribers. It does not block.
func (r *Relay) Publish(key conversation.Key, b storage.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	subscribers := r.wanted[key]
	if len(subscribers) == 0 || r.closed {
		return
	}
	p := &wire.Push{Conversation: string(key), Seq: b.Seq, Hash: b.Hash[:], Prev: b.Prev[:]}
	if len(b.Lines) <= maxPush {
		p.Lines = b.Lines
	}
	for address := range subscribers {
		o := r.outboxes[address]
		if o == nil {
			o = &outbox{}
			r.outboxes[address] = o
		}
		if o.bytes > maxOutbox {
			r.lose(address, []*wire.Push{p})
			continue
		}
		o.pushes, o.bytes = append(o.pushes, p), o.bytes+weightOf(p)
		if !o.busy {
			o.busy = true
			r.sending.Go(func() { r.send(address, o) })
		}
	}
}

func weightOf(p *wire.Push) int { return len(p.GetLines()) + 100 }

// lose ends the subscriptions of batches that cannot be delivered. The subscriber's next renewal
// detects that and reads the bucket; mu is held.
func (r *Relay) lose(address string, pushes []*wire.Push) {
	r.gaps.Add(int64(len(pushes)))
	for _, p := range pushes {
		delete(r.wanted[conversation.Key(p.GetConversation())], address)
	}
}

func (r *Relay) send(address string, o *outbox) {
	for {
		group := r.take(address, o)
		if group == nil {
			return
		}
		err := r.deliver(address, &wire.Pushes{Pushes: group})
		if err == nil {
			r.relayed.Add(int64(len(group)))
			continue
		}
		r.log.Debug("push failed; subscriptions dropped", "node", address, "count", len(group), "err", err)
		r.mu.Lock()
		r.lose(address, append(group, o.pushes...))
		o.pushes, o.bytes = nil, 0
		r.mu.Unlock()
	}
}

// deliver sends a group to a node. It retries for a short time if the node is a new member that is not
// in the view yet.
func (r *Relay) deliver(address string, group *wire.Pushes) error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	for {
		_, err := r.peers.AskNode(ctx, address, group)
		if !r.unknown(err) {
			return err
		}
		select {
		case <-time.After(deliverPause):
		case <-ctx.Done():
			return err
		}
	}
}

// take returns the next group, or nil.
func (r *Relay) take(address string, o *outbox) []*wire.Push {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(o.pushes) == 0 || r.outboxes[address] != o {
		o.busy = false
		return nil
	}
	n, bytes := 0, 0
	for n < len(o.pushes) && (n == 0 || bytes+weightOf(o.pushes[n]) <= maxGroup) {
		bytes += weightOf(o.pushes[n])
		n++
	}
	group := slices.Clone(o.pushes[:n])
	o.pushes, o.bytes = slices.Delete(o.pushes, 0, n), o.bytes-bytes
	return group
}

// receive delivers batches of another node to the followers.
func (r *Relay) receive(m *wire.Pushes) *wire.Pong {
	for _, p := range m.GetPushes() {
		key := conversation.Key(p.GetConversation())
		var b storage.Batch
		if len(p.GetLines()) == 0 || copy(b.Hash[:], p.GetHash()) != len(b.Hash) || copy(b.Prev[:], p.GetPrev()) != len(b.Prev) {
			r.followers.Behind(key, p.GetSeq())
			continue
		}
		b.Seq, b.Lines = p.GetSeq(), p.GetLines()
		r.followers.OfferStored(key, b)
	}
	return &wire.Pong{}
}

// AskTip asks the owner of a conversation for the head of its log. known is true if the owner runs the
// conversation with a verified claim.
func (r *Relay) AskTip(ctx context.Context, owner string, key conversation.Key) (seq int64, known bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m, err := r.peers.AskNode(ctx, owner, &wire.TipRequest{Conversation: string(key)})
	t, ok := m.(*wire.Tip)
	return t.GetSeq(), err == nil && ok && t.GetKnown()
}

// Counts returns the number of batches pushed to other nodes, and of those that could not be.
func (r *Relay) Counts() (relayed, gaps int64) { return r.relayed.Load(), r.gaps.Load() }

// Answer handles a message of another node; nil is no reply.
func (r *Relay) Answer(m proto.Message) proto.Message {
	switch m := m.(type) {
	case *wire.Subscribe:
		return r.subscribe(m)
	case *wire.Pushes:
		return r.receive(m)
	case *wire.TipRequest:
		return r.tip(conversation.Key(m.GetConversation()))
	}
	return nil
}
