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
	// renewEvery is how often subscriptions are renewed, and how often a conversation
	// whose owner cannot be reached is looked up in the bucket.
	renewEvery = 3 * time.Second
	// keptFor is how long an owner keeps a subscription that is not renewed.
	keptFor = 10 * renewEvery
	// movedFor is how long after a change of owner the last one may still write, and
	// its pushes get lost unnoticed.
	movedFor = 5 * renewEvery
	// askTimeout bounds one question to another node about subscriptions, batches or tips.
	askTimeout = 2 * time.Second
	// atOnce bounds the conversations of one Subscribe.
	atOnce = 1000
	// maxPush bounds the record lines of a batch that travel; a longer one is announced
	// only. maxGroup bounds those of one message, maxOutbox what waits for one node.
	maxPush, maxGroup, maxOutbox = 64 << 10, 128 << 10, 4 << 20
	// deliverPause is the pause before a group is sent again to a node that is not known.
	deliverPause = 50 * time.Millisecond
	// recheckGroup and recheckPause spread reads of the bucket that fall due at once.
	recheckGroup = 100
	recheckPause = 50 * time.Millisecond
)

// Relay is one node's part in it. Use New.
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
	ended     map[string][]string // conversations nobody follows any more, by owner
	wanted    map[conversation.Key]map[string]time.Time
	outboxes  map[string]*outbox
	renewing  map[string]bool // owners that are being asked
	renewable chan struct{}
	sending   sync.WaitGroup
}

// Followers are those of this node.
type Followers interface {
	OfferStored(conversation.Key, storage.Batch)
	Behind(key conversation.Key, seq int64)
	Recheck(conversation.Key)
}

// Peers are the other nodes.
type Peers interface {
	// Address is this node's, as the others dial it.
	Address() string
	// Owner returns the node that owns a conversation, "" if none does now.
	Owner(id string) (address string, self bool)
	AskNode(ctx context.Context, address string, m proto.Message) (proto.Message, error)
}

// Options are what a Relay works with. All but Logger are required.
type Options struct {
	Peers     Peers
	Followers Followers
	// Tip is what an activation of this node knows of the end of its log.
	Tip func(conversation.Key) *wire.Tip
	// Unknown reports whether an error of AskNode says that this node does not know that
	// one, not yet perhaps.
	Unknown func(error) bool
	Logger  *slog.Logger // nil discards
}

// subscription is a conversation that is followed here.
type subscription struct {
	owner string    // the node that has acknowledged it, "" if none has
	since time.Time // of the state above
	due   bool      // to be asked for before the next round
	asked string    // the owner that was asked last, "" if none was
	moved time.Time // when that one took the place of another
}

// outbox is what waits for one node. Invariant: a goroutine sends while busy is set.
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

// Run keeps the subscriptions until ctx ends, and returns when nothing is on its way.
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

// kick has what is due looked at soon. It does not block.
func (r *Relay) kick() {
	select {
	case r.renewable <- struct{}{}:
	default:
	}
}

// Follow subscribes to a conversation that somebody waits for here, if that is news.
func (r *Relay) Follow(key conversation.Key) {
	r.mu.Lock()
	known := r.followed[key] != nil
	if !known {
		r.followed[key] = &subscription{since: time.Now(), due: true}
	}
	r.mu.Unlock()
	if !known {
		r.kick()
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

// ViewChanged looks for conversations whose owner is another now.
func (r *Relay) ViewChanged(isMember func(address string) bool) {
	r.mu.Lock()
	for address := range r.outboxes {
		if !isMember(address) {
			r.forget(address)
		}
	}
	r.mu.Unlock()
	r.kick()
}

// LinkDown forgets what was agreed with a node: pushes may have been lost both ways.
func (r *Relay) LinkDown(address string) {
	r.mu.Lock()
	r.forget(address)
	for _, s := range r.followed {
		if s.owner == address {
			s.owner, s.since, s.due = "", time.Now(), true
		}
	}
	r.mu.Unlock()
	r.kick()
}

// forget drops a subscriber; mu is held.
func (r *Relay) forget(address string) {
	delete(r.outboxes, address)
	for key, subscribers := range r.wanted {
		delete(subscribers, address)
		if len(subscribers) == 0 {
			delete(r.wanted, key)
		}
	}
}

// expire drops subscribers that have not renewed.
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

// renew subscribes to what has no acknowledged subscription with its owner, or to all. It
// waits for nobody: an owner that does not answer holds up no other.
func (r *Relay) renew(ctx context.Context, all bool) {
	due, came := r.due(all)
	r.sending.Go(func() { r.recheck(ctx, came) })
	for address, keys := range due {
		r.sending.Go(func() {
			defer r.renewed(address)
			if len(keys) == 0 { // only ends are to be told
				r.subscribeAt(ctx, address, nil)
			}
			for part := range slices.Chunk(keys, atOnce) {
				r.subscribeAt(ctx, address, part)
			}
		})
	}
}

// renewed lets the next renewal at an owner begin.
func (r *Relay) renewed(owner string) {
	r.mu.Lock()
	delete(r.renewing, owner)
	r.mu.Unlock()
	r.kick()
}

// recheck has conversations looked up in the bucket, not all of them at once.
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

// due groups by owner what is to be subscribed to, and returns what came to this node
// itself: what its last owner wrote may have been missed.
func (r *Relay) due(all bool) (due map[string][]conversation.Key, came []conversation.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due = map[string][]conversation.Key{}
	for key, s := range r.followed {
		owner, self := r.peers.Owner(string(key))
		if !self && r.renewing[owner] {
			continue // The end of that looks again.
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
			came = append(came, key)
		}
		switch {
		case self && s.owner != owner:
			s.owner, s.since = owner, time.Now()
			came = append(came, key)
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
	slices.Sort(came)
	return due, came
}

// subscribeAt subscribes at an owner. Where it gives no answer, the bucket is asked.
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
			r.log.Debug("owner does not answer subscription", "node", owner, "count", len(keys), "err", err)
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

// unanswered notes that nothing of these conversations is pushed.
func (r *Relay) unanswered(owner string, keys []conversation.Key) {
	r.mu.Lock()
	for _, key := range keys {
		if s := r.followed[key]; s != nil && s.owner == owner && owner != "" {
			s.owner, s.since = "", time.Now()
		}
	}
	r.mu.Unlock()
}

// acknowledged compares what is known here with what the owner knows, and reports
// whether that is enough: what landed before the subscription, or while it was broken,
// was not pushed.
func (r *Relay) acknowledged(owner string, key conversation.Key, tip *wire.Tip) bool {
	r.mu.Lock()
	s := r.followed[key]
	// A subscription that this node has not heard of may be younger than its last look.
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

// Lag is how long the worst subscription has had no owner that pushes.
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

// subscribe answers a node that follows conversations of this one.
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
	// The tips are taken after the subscriptions count, so that none falls between.
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

// lose ends the subscriptions of batches that do not reach their subscriber: its next
// renewal finds them gone and reads the bucket; mu is held.
func (r *Relay) lose(address string, pushes []*wire.Push) {
	r.gaps.Add(int64(len(pushes)))
	for _, p := range pushes {
		delete(r.wanted[conversation.Key(p.GetConversation())], address)
	}
}

// send empties an outbox.
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
		r.log.Debug("node does not take batches", "node", address, "count", len(group), "err", err)
		r.mu.Lock()
		r.lose(address, append(group, o.pushes...))
		o.pushes, o.bytes = nil, 0
		r.mu.Unlock()
	}
}

// deliver brings a group to a node. One that has just become a member, so that this node
// does not know it yet, gets a moment.
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

// take returns the next group, or nil when there is none.
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

// taken hands batches of another node to the followers here.
func (r *Relay) taken(m *wire.Pushes) *wire.Pong {
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

// AskTip asks the owner of a conversation where its log ends. It is known if that one runs
// it with a verified claim.
func (r *Relay) AskTip(ctx context.Context, owner string, key conversation.Key) (seq int64, known bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m, err := r.peers.AskNode(ctx, owner, &wire.TipRequest{Conversation: string(key)})
	t, ok := m.(*wire.Tip)
	return t.GetSeq(), err == nil && ok && t.GetKnown()
}

// Counts returns how many batches went to followers on other nodes, and how many could
// not.
func (r *Relay) Counts() (relayed, gaps int64) { return r.relayed.Load(), r.gaps.Load() }

// Answer replies to what other nodes send to this one; nil is no reply.
func (r *Relay) Answer(m proto.Message) proto.Message {
	switch m := m.(type) {
	case *wire.Subscribe:
		return r.subscribe(m)
	case *wire.Pushes:
		return r.taken(m)
	case *wire.TipRequest:
		return r.tip(conversation.Key(m.GetConversation()))
	}
	return nil
}
