package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
)

const (
	// brief prefixes a body for which the model has one step and no trouble, and the author adds
	// nothing.
	brief = "brief-"
	// waiting prefixes a body for which the model calls the waiting tool in its first step and returns
	// the result in its second. The tool waits for the body's name.
	waiting = "wait-"
)

func isBrief(body string) bool { return strings.HasPrefix(body, brief) }

func waits(body string) bool { return strings.HasPrefix(body, waiting) }

// post is one message to a conversation. Retries send the same post.
type post struct {
	conversation.Admission
	picture []byte
	rival   *post // another payload under the same key
}

type ack struct {
	*post
	receipt conversation.Receipt
}

func picture(seed uint64, body string) []byte {
	d := schedule.Draw(seed, "picture", body)
	return bytes.Repeat([]byte(body), 1+int(d%100))
}

// newPost makes a message. Its body is unique and steers the model.
func (w *world) newPost(rng *rand.Rand, at conversation.Address, key, body string) *post {
	p := &post{Admission: conversation.Admission{
		Address: at, Key: key, Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: body},
	}}
	switch n := rng.IntN(12); {
	case isBrief(body), waits(body), spreads(body):
	case n < 2:
		p.Delivery.Kind, p.Delivery.Type, p.Delivery.TagName = conversation.KindSignal, "tick", "clock"
		p.Delivery.Attributes = map[string]string{"hand": fmt.Sprint(rng.IntN(60))}
	case n < 4:
		p.picture = picture(w.Seed, body)
		sum := sha256.Sum256(p.picture)
		p.Delivery.Attachments = []conversation.Attachment{{
			SHA256: hex.EncodeToString(sum[:]), MimeType: "image/png", Size: int64(len(p.picture)), Filename: key + ".png",
		}}
	case n < 6:
		p.Condition.Absent = true
	case n == 6:
		p.Condition.Set, p.Condition.UID = true, "inst_of_nobody"
	case n == 7:
		w.mu.Lock()
		p.Condition.UID = w.uids[at]
		w.mu.Unlock()
		p.Condition.Set = p.Condition.UID != ""
	}
	return p
}

func (p *post) hash() string {
	hash, err := p.PayloadHash()
	if err != nil {
		return err.Error() // Such a post is never acknowledged.
	}
	return hash
}

// client delivers a few messages to one conversation. The profile decides their kind: brief ones;
// messages whose calls wait, with signals before, during and after the wait; roots of trees; or any.
// Some are sent twice at once, or concurrently with another payload under the same key.
func (w *world) client(ctx context.Context, rng *rand.Rand, name string, at conversation.Address) {
	var wg sync.WaitGroup
	defer wg.Wait()
	most, longest := 3, 5*time.Second
	if w.Profile != Everything && w.Profile != Journals && w.Profile != Trees {
		most, longest = 2, 8*time.Second
	}
	for i := range 1 + rng.IntN(most) {
		if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, longest)) != nil {
			return
		}
		key := fmt.Sprintf("%s-%d", name, i)
		switch w.Profile {
		case Journals:
			if p := w.newPost(rng, at, key, brief+key); !w.deliver(ctx, rng, p, 1+rng.IntN(3)) {
				return
			}
		case Everything:
			tries := 1 + rng.IntN(8)
			p := w.newPost(rng, at, key, "say-"+key)
			if rng.IntN(4) == 0 {
				twin, same := w.rng(key), p
				if twin.IntN(2) == 0 {
					same = w.newPost(twin, at, key, "rather-"+key)
					p.rival, same.rival = same, p
				}
				wg.Go(func() {
					w.apart(key)
					w.deliver(as(ctx, key+" again"), twin, same, 3)
				})
			}
			w.deliver(ctx, rng, p, tries)
		case Trees:
			w.deliver(ctx, rng, w.newPost(rng, at, key, spreading+key), 1+rng.IntN(8))
		default:
			for n := range rng.IntN(3) {
				caller := fmt.Sprint(key, " signal ", n)
				own := w.rng(caller)
				wg.Go(func() { w.signal(as(ctx, caller), own, at, waiting+key, fmt.Sprint(key, "-signal-", n)) })
			}
			w.deliver(ctx, rng, w.newPost(rng, at, key, waiting+key), 1+rng.IntN(8))
		}
	}
}

func (w *world) signal(ctx context.Context, rng *rand.Rand, at conversation.Address, name, key string) {
	if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, 15*time.Second)) != nil {
		return
	}
	d, err := conversation.SignalFor(name, "said "+key)
	w.trace.ViolateIf(err != nil, key, "make a signal: %v", err)
	w.deliver(ctx, rng, &post{Admission: conversation.Admission{Address: at, Key: key, Delivery: d}}, 8)
}

// deliver retries a message under its key until the answer is definite or the tries are used up. It
// reports whether a client that stops at a refusal may continue.
func (w *world) deliver(ctx context.Context, rng *rand.Rand, p *post, tries int) bool {
	patience, short := 12*time.Second, w.Profile == Journals
	if short {
		patience /= 2
	}
	for range tries {
		m := w.pick(rng.IntN(slots))
		if m == nil {
			return false
		}
		wait := schedule.Between(rng.Uint64(), time.Second, patience)
		pause := schedule.Between(rng.Uint64(), 50*time.Millisecond, 2*time.Second)
		precheck := !short && (rng.IntN(4) == 0 || p.picture != nil)
		receipt, err := w.admit(ctx, m, wait, p, precheck)
		if err == nil {
			w.trace.Add(p.Key, "acknowledged by %s: %+v", m.id, receipt)
			w.acknowledged(ack{p, receipt})
			w.receiptSeen(p.Address)
			if !short {
				if other := w.pick(rng.IntN(slots)); rng.IntN(5) == 0 && other != nil { // which may not know of the receipt
					w.abort(ctx, other, p.Address)
				}
				w.readBack(ctx, w.pick(rng.IntN(slots)), p.Address, receipt.Offset)
			}
			return true
		}
		w.trace.Add(p.Key, "no receipt from %s: %v", m.id, m.traced(err))
		if w.refused(p, err) || schedule.Sleep(ctx, pause) != nil {
			return false
		}
	}
	w.trace.Add(p.Key, "tries used up")
	return true
}

// receiptSeen signals the moment "receipt seen" at every node that may have sent the receipt.
func (w *world) receiptSeen(at conversation.Address) {
	for slot := range slots {
		if m := w.at(slot); m != nil && w.owner(slot, string(at.Key())) == m.id {
			m.link.came(receiptSeen)
		}
	}
}

// admit makes one attempt, as an edge does. The answer of a node that crashed before it arrived is
// discarded.
func (w *world) admit(ctx context.Context, m *member, wait time.Duration, p *post, precheck bool) (receipt conversation.Receipt, err error) {
	ctx, cancel := m.call(ctx, wait)
	defer cancel()
	var known *conversation.Receipt
	if precheck {
		w.trace.Did("precheck")
		known, err = m.node.Precheck(ctx, p.Admission)
	}
	if known != nil {
		w.trace.Did("precheck knew the key")
		receipt = *known
	} else {
		if err == nil && p.picture != nil {
			blob := conversation.Blob{
				Content: bytes.NewReader(p.picture), Size: int64(len(p.picture)), Digest: p.Delivery.Attachments[0].SHA256,
			}
			err = m.node.Stage(ctx, p.Address, blob)
		}
		if err == nil {
			receipt, err = m.node.Admit(ctx, p.Admission)
		}
	}
	w.apart(p.Key, callerOf(ctx))
	if m.ctx.Err() != nil {
		return receipt, errKilled
	}
	return receipt, err
}

// refused reports whether an answer is definite, and records a violation for an unexpected one.
func (w *world) refused(p *post, err error) bool {
	if errors.Is(err, errKilled) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old, acked := w.acks[ackID(&p.Admission)]
	mine := acked && old.hash() == p.hash()
	name, signal := p.Delivery.Awaited()
	switch code := conversation.CodeOf(err); {
	case code == conversation.CodeQuarantined:
	case code == conversation.CodeUnavailable, code == conversation.CodeAdmissionUnknown:
		return false
	case code == conversation.CodeAlreadyDecided && signal && !mine:
		w.trace.Did("signal too late")
		w.tooLate[p.Address] = append(w.tooLate[p.Address], name)
	case code == conversation.CodeSubmissionConflict && p.rival != nil && !mine:
		w.trace.Did("conflict refused")
	case code == conversation.CodeInstanceExists && p.Condition.Absent && !mine:
		w.trace.Did("creation refused")
	case code == conversation.CodeInstanceNotFound && p.Condition.UID == "inst_of_nobody":
		w.trace.Did("wrong uid refused")
	default:
		w.trace.Violate(p.Key, "admit with condition %+v: got unexpected %v", p.Condition, err)
	}
	return true
}

func ackID(a *conversation.Admission) string { return a.Address.ID + " " + a.Key }

func (w *world) acknowledged(a ack) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := ackID(&a.Admission)
	old, ok := w.acks[id]
	w.acks[id] = a
	w.uids[a.Address] = a.receipt.UID
	old.receipt.Deduplicated, a.receipt.Deduplicated = false, false
	if ok && (old.hash() != a.hash() || old.receipt != a.receipt) {
		w.trace.Violate(a.Key, "two receipts: %+v for %s and %+v for %s", old.receipt, old.Delivery.Body, a.receipt, a.Delivery.Body)
	}
}

// readBack reads after an acknowledged offset, which every node must accept.
func (w *world) readBack(ctx context.Context, m *member, at conversation.Address, off conversation.Offset) {
	if m == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := m.call(ctx, 20*time.Second)
	defer cancel()
	if _, err := w.updates(ctx, m, at, off, 1); err != nil && ctx.Err() == nil && !refusal(err) {
		w.trace.Violate(m.id, "read after acknowledged offset %d: %v", int64(off), err)
	}
}

func (w *world) aborter(ctx context.Context, rng *rand.Rand, at conversation.Address) {
	aborts := rng.IntN(6) / 3
	if w.Profile == Trees {
		aborts = rng.IntN(4)
	}
	for range aborts {
		if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), time.Second, w.pendingTime)) != nil {
			return
		}
		if m := w.pick(rng.IntN(slots)); m != nil {
			w.abort(ctx, m, at)
		}
	}
}

// refusal reports whether an error means that the conversation cannot be served now: it is unavailable
// or quarantined.
func refusal(err error) bool {
	code := conversation.CodeOf(err)
	return code == conversation.CodeUnavailable || code == conversation.CodeQuarantined
}

// abort asks a node for an abort. Once it is granted, all submissions that were unsettled at the
// request have settled. In the Trees profile most aborts are of trees.
func (w *world) abort(ctx context.Context, m *member, at conversation.Address) {
	if w.Profile == Trees && schedule.Draw(w.Seed, "abort", at.ID, w.aborts.Next(at.ID))%4 != 0 {
		w.abortTree(ctx, m, at)
		return
	}
	ctx, cancel := m.call(ctx, time.Hour)
	defer cancel()
	asked := w.ledger.abort(at.Key())
	granted, err := m.node.Abort(ctx, at)
	w.abortEnds(ctx, m, at, asked, granted, err)
}

func (w *world) abortEnds(ctx context.Context, m *member, at conversation.Address, asked *abortCall, granted bool, err error) {
	var left []conversation.SubmissionID
	free := false
	if err == nil {
		left, free = w.ledger.ended(asked)
	}
	w.apart("abort", at.ID, callerOf(ctx))
	w.trace.Add(m.id, "abort of %s, unsettled %v: %v, %v", at.ID, asked.unsettled, granted, m.traced(err))
	switch {
	case m.ctx.Err() != nil || ctx.Err() != nil, refusal(err), conversation.CodeOf(err) == conversation.CodeAbortUnknown:
	case err != nil:
		w.trace.Violate(m.id, "abort: got unexpected %v", err)
	case len(left) > 0 && (granted || asked.trees):
		w.trace.Violate(m.id, "abort was granted, but %v are unsettled", left)
	case granted:
		w.trace.Did("abort")
	case !free:
		w.trace.Violate(m.id, "abort found nothing, but submissions were unsettled throughout, at first %v", asked.unsettled)
	default:
		w.trace.Did("abort without effect")
	}
}
