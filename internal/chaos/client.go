package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
)

// post is one message to a conversation, however often it is sent.
type post struct {
	conversation.Admission
	body    string // of the model's instructions, unique
	hash    string // of the payload
	picture []byte
	rival   *post // another payload under the same key
}

// ack is an acknowledged admission.
type ack struct {
	*post
	receipt conversation.Receipt
}

// picture is the attachment that goes with a body.
func picture(seed uint64, body string) []byte {
	d := schedule.Draw(seed, "picture", body)
	return bytes.Repeat([]byte(body), 1+int(d%100))
}

// newPost makes up a message.
func (w *world) newPost(rng *rand.Rand, at conversation.Address, key, body string) *post {
	p := &post{body: body, Admission: conversation.Admission{
		Address: at, Key: key, Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: body},
	}}
	switch n := rng.IntN(12); {
	case isBrief(body), waits(body):
	case n < 2:
		p.Delivery.Kind, p.Delivery.Type, p.Delivery.TagName = conversation.KindSignal, "tick", "clock"
		p.Delivery.Attributes = map[string]string{"hand": fmt.Sprint(rng.IntN(60))}
	case n < 4:
		p.picture = picture(w.seed, body)
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
	var err error
	if p.hash, err = p.PayloadHash(); err != nil {
		w.trace.Violate(key, "hash payload: %v", err)
	}
	return p
}

// client delivers a few messages to one conversation and repeats each under its
// key until the answer is definite, or it gives up.
func (w *world) client(ctx context.Context, name string, at conversation.Address) {
	rng := w.rng(name)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 1 + rng.IntN(3) {
		if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, 5*time.Second)) != nil {
			return
		}
		key := fmt.Sprintf("%s-%d", name, i)
		tries := 1 + rng.IntN(8)
		p := w.newPost(rng, at, key, "say-"+key)
		if rng.IntN(4) == 0 {
			twin, same := w.rng(key), p
			if twin.IntN(2) == 0 {
				same = w.newPost(twin, at, key, "rather-"+key)
				p.rival, same.rival = same, p
			}
			wg.Go(func() {
				ctx := as(ctx, key+" again")
				w.apart(key)
				w.deliver(ctx, twin, same, 3)
			})
		}
		w.deliver(ctx, rng, p, tries)
	}
}

func (w *world) deliver(ctx context.Context, rng *rand.Rand, p *post, tries int) {
	for range tries {
		m := w.pick(rng.IntN(slots))
		if m == nil {
			return
		}
		wait := schedule.Between(rng.Uint64(), time.Second, 12*time.Second)
		pause := schedule.Between(rng.Uint64(), 50*time.Millisecond, 2*time.Second)
		first := rng.IntN(4) == 0 || p.picture != nil
		receipt, err := w.admit(ctx, m, wait, p, first)
		if err == nil {
			w.trace.Add(p.Key, "acknowledged by %s: %+v", m.id, receipt)
			w.acknowledged(ack{p, receipt})
			if other := w.pick(rng.IntN(slots)); rng.IntN(5) == 0 && other != nil { // which may not have heard of it
				w.abort(ctx, other, p.Address)
			}
			w.readBack(ctx, w.pick(rng.IntN(slots)), p.Address, receipt.Offset)
			return
		}
		w.trace.Add(p.Key, "no receipt from %s: %v", m.id, m.lastWords(err))
		if w.refused(p, err) || schedule.Sleep(ctx, pause) != nil {
			return
		}
	}
	w.trace.Add(p.Key, "given up")
}

// admit is one try, as an edge makes it. The answer of a node that has died
// meanwhile does not count.
func (w *world) admit(ctx context.Context, m *member, wait time.Duration, p *post, precheck bool) (receipt conversation.Receipt, err error) {
	ctx, cancel := alive(ctx, m)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	if precheck {
		w.shown.Add(didPrecheck)
		var known *conversation.Receipt
		if known, err = m.node.Precheck(ctx, p.Admission); known != nil {
			w.shown.Add(didKnown)
			receipt = *known
		}
	}
	if err == nil && receipt.SubmissionID == "" && p.picture != nil {
		blob := conversation.Blob{
			Content: bytes.NewReader(p.picture), Size: int64(len(p.picture)), Digest: p.Delivery.Attachments[0].SHA256,
		}
		err = m.node.Stage(ctx, p.Address, blob)
	}
	if err == nil && receipt.SubmissionID == "" {
		receipt, err = m.node.Admit(ctx, p.Admission)
	}
	w.apart(p.Key, callerOf(ctx))
	if m.life.Err() != nil {
		return receipt, errDead
	}
	return receipt, err
}

// refused reports whether an answer is definite. One that nobody asked for is told.
func (w *world) refused(p *post, err error) bool {
	if errors.Is(err, errDead) {
		return false
	}
	w.mu.Lock()
	old, acked := w.acks[ackID(&p.Admission)]
	w.mu.Unlock()
	mine := acked && old.hash == p.hash
	code := conversation.CodeOf(err)
	switch {
	case code == conversation.CodeSetAside:
	case code == conversation.CodeUnavailable, code == conversation.CodeAdmissionUnknown:
		return false
	case code == conversation.CodeAlreadyDecided && isSignal(p) && !mine:
		w.shown.Add(didComeLate)
		w.comesLate(p)
	case code == conversation.CodeSubmissionConflict && p.rival != nil && !mine:
		w.shown.Add(didConflict)
	case code == conversation.CodeInstanceExists && p.Condition.Absent && !mine:
		w.shown.Add(didExist)
	case code == conversation.CodeInstanceNotFound && p.Condition.UID == "inst_of_nobody":
		w.shown.Add(didWrongUID)
	default:
		w.trace.Violate(p.Key, "an admission with %+v ends with %v", p.Condition, err)
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
	if ok && (old.hash != a.hash || old.receipt != a.receipt) {
		w.trace.Violate(a.Key, "two receipts: %+v for %s and %+v for %s", old.receipt, old.body, a.receipt, a.body)
	}
}

// readBack reads after an acknowledged offset, which any node must know.
func (w *world) readBack(ctx context.Context, m *member, at conversation.Address, off conversation.Offset) {
	if m == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := alive(ctx, m)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	_, err := w.updates(ctx, m, at, off, 1)
	if err != nil && ctx.Err() == nil && !refusal(err) {
		w.trace.Violate(m.id, "offset %d was acknowledged, and a read after it says %v", int64(off), err)
	}
}

// aborter aborts a conversation a few times.
func (w *world) aborter(ctx context.Context, name string, at conversation.Address) {
	rng := w.rng(name)
	for range rng.IntN(6) / 3 {
		if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), time.Second, w.profile.busyTime())) != nil {
			return
		}
		if m := w.pick(rng.IntN(slots)); m != nil {
			w.abort(ctx, m, at)
		}
	}
}

// refusal reports whether an error says that nobody can be asked now: a node may say so of
// any conversation, and whatever nodes died of, one may be set aside for it.
func refusal(err error) bool {
	code := conversation.CodeOf(err)
	return code == conversation.CodeUnavailable || code == conversation.CodeSetAside
}

// abort asks a node for an abort. When it is granted, nothing is owed any more of
// what was when it was asked for.
func (w *world) abort(ctx context.Context, m *member, at conversation.Address) {
	ctx, cancel := alive(ctx, m)
	defer cancel()
	call, owed := w.ledger.abort(at.Key())
	any, err := m.node.Abort(ctx, at)
	var wrong string
	switch {
	case err != nil && !refusal(err) && conversation.CodeOf(err) != conversation.CodeAbortUnknown:
		wrong = fmt.Sprintf("an abort ends with %v", err)
	case err == nil && any:
		if left := w.ledger.aborted(at.Key(), call, owed); len(left) > 0 {
			wrong = fmt.Sprintf("an abort was granted and has not ended %v", left)
		}
	case err == nil && !w.ledger.denied(call):
		wrong = fmt.Sprintf("an abort has found nothing, and all the time the log owed something, at first %v", owed)
	}
	w.apart("abort", at.ID, callerOf(ctx))
	w.trace.Add(m.id, "abort of %s, owed %v: %v, %v", at.ID, owed, any, m.lastWords(err))
	switch {
	case m.life.Err() != nil || ctx.Err() != nil:
	case wrong != "":
		w.trace.Violate(m.id, "%s", wrong)
	case err == nil && any:
		w.shown.Add(didAbort)
	case err == nil:
		w.shown.Add(didFindNothing)
	}
}
