package actors

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// retryAfter is what a caller is asked to wait when no owner answered.
	retryAfter = 2 * time.Second
	// moveBackoff bounds the pause before a request is repeated whose owner
	// stepped down; the first pause is a sixteenth of it.
	moveBackoff = 400 * time.Millisecond
	// deleteTimeout bounds the deletion of what was staged.
	deleteTimeout = 5 * time.Second
	// maxMessage is how long an admission may be to travel between nodes.
	maxMessage = 256 << 10
)

// errPassive is why a passive node takes no work.
var errPassive = errors.New("the bucket does not confirm this node's row")

// Precheck implements [conversation.Dispatcher].
func (r *Runtime) Precheck(ctx context.Context, a conversation.Admission) (*conversation.Receipt, error) {
	reply, err := r.ask(ctx, a, true)
	if err != nil {
		return nil, err
	}
	if _, ok := reply.GetResult().(*wire.OwnerReply_Clear); ok {
		return nil, nil
	}
	return receiptOf(reply)
}

// Admit implements [conversation.Dispatcher].
func (r *Runtime) Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	reply, err := r.ask(ctx, a, false)
	var unknown *conversation.Error
	if errors.As(err, &unknown) && unknown.Code == conversation.CodeAdmissionUnknown {
		unknown.Meta = map[string]any{"idempotencyKey": a.Key}
	}
	if err != nil {
		return conversation.Receipt{}, err
	}
	receipt, err := receiptOf(reply)
	if err != nil {
		return conversation.Receipt{}, err
	}
	return *receipt, nil
}

// Stage implements [conversation.Dispatcher].
func (r *Runtime) Stage(ctx context.Context, at conversation.Address, b conversation.Blob) error {
	var digest storage.Digest
	if err := digest.UnmarshalText([]byte(b.Digest)); err != nil {
		return fmt.Errorf("stage attachment: %w", err)
	}
	body := storage.Body{Reader: b.Content, Size: b.Size, SHA256: digest}
	ctx, cancel := context.WithTimeout(ctx, r.opts.AdmitTimeout+time.Duration(b.Size>>20)*time.Second)
	defer cancel()
	if err := storage.PutBlob(ctx, r.bucket, at.Key(), body); err != nil {
		var other *storage.IntegrityError
		switch {
		case errors.As(err, &other):
			return &conversation.Error{Code: conversation.CodeAttachmentConflict, Err: err}
		case errors.Is(err, storage.ErrUncertain), errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrNotFound), ctx.Err() != nil:
			return conversation.Unavailable(retryAfter, err)
		}
		return fmt.Errorf("stage attachment: %w", err)
	}
	return nil
}

// Abort implements [conversation.Dispatcher]. Repeating it is safe: what was
// aborted by an attempt whose outcome is unknown is settled by then.
func (r *Runtime) Abort(ctx context.Context, at conversation.Address) (bool, error) {
	reply, err := r.abort(ctx, at, &wire.AbortRequest{})
	return reply.GetAborted(), err
}

// abort sends an abort to the owner of a conversation, and returns the answer of one that was carried out.
func (r *Runtime) abort(ctx context.Context, at conversation.Address, request *wire.AbortRequest) (*wire.OwnerReply, error) {
	reply, err := r.call(ctx, at, request)
	if err != nil {
		return nil, err
	}
	switch res := reply.GetResult().(type) {
	case *wire.OwnerReply_Aborted:
		return reply, nil
	case *wire.OwnerReply_Failure:
		return nil, errorOf(res.Failure)
	}
	return nil, errors.New("abort: owner answered without a result")
}

// ask brings an admission to its owner.
func (r *Runtime) ask(ctx context.Context, a conversation.Admission, precheck bool) (*wire.OwnerReply, error) {
	if a.Key == "" {
		return nil, errors.New("admit: the admission has no key")
	}
	if err := conversation.CheckPayload(a.InitialData); a.InitialData != nil && err != nil {
		return nil, conversation.Errorf(conversation.CodeInvalidRequest, "initialData %v", err)
	}
	if err := r.checkPosts(&a); err != nil {
		return nil, err
	}
	if r.nodes.owns(a.Address.Key()) && survivesJSON(&a) {
		m, err := newOwnAdmission(ctx, a, precheck, r.encodeAdmission)
		if err != nil {
			return nil, fmt.Errorf("encode admission: %w", err)
		}
		return r.call(ctx, a.Address, m)
	}
	body, err := r.encodeAdmission(a)
	if err != nil {
		return nil, fmt.Errorf("encode admission: %w", err)
	}
	if len(body) <= maxMessage || r.nodes.owns(a.Address.Key()) {
		return r.call(ctx, a.Address, &wire.AdmitRequest{Admission: body, Precheck: precheck})
	}
	key := storage.StagedKey(r.sweeper.Journal.Member(), crand.Text())
	if err := r.stage(ctx, key, body); err != nil {
		return nil, conversation.Unavailable(retryAfter, err)
	}
	defer r.unstage(ctx, key)
	return r.call(ctx, a.Address, &wire.AdmitRequest{Staged: key, Precheck: precheck})
}

// encodeAdmission encodes an admission, at its turn if it is long.
func (r *Runtime) encodeAdmission(a conversation.Admission) ([]byte, error) {
	defer r.accounts.conversations.Turn(a.Delivery.Size() + len(a.InitialData))()
	return json.Marshal(a)
}

// stage puts an admission into the bucket on its way to another node.
func (r *Runtime) stage(ctx context.Context, key string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.AdmitTimeout)
	defer cancel()
	if err := r.bucket.Create(ctx, key, storage.Bytes(body)); err != nil {
		return fmt.Errorf("stage admission: %w", err)
	}
	return nil
}

// unstage removes what was staged, also when the caller has left.
func (r *Runtime) unstage(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := r.bucket.Delete(ctx, key); err != nil {
		r.opts.Logger.Info("delete staged admission; a sweep does when this node is gone", "key", key, "err", err)
	}
}

// call brings a request to the owner of a conversation, again when the owner steps
// down, until it is decided or time is up. The request must be safe to repeat.
func (r *Runtime) call(ctx context.Context, at conversation.Address, request proto.Message) (*wire.OwnerReply, error) {
	return r.callWithin(ctx, r.opts.AdmitTimeout, at, request)
}

// callWithin is call with another limit of time.
func (r *Runtime) callWithin(ctx context.Context, limit time.Duration, at conversation.Address, request proto.Message) (*wire.OwnerReply, error) {
	reply, doubt, err := r.callOwner(ctx, limit, at, request)
	if conversation.CodeOf(err) == conversation.CodeUnavailable {
		r.edge.refused.Add(1)
	}
	if !doubt {
		return reply, err
	}
	if f := reply.GetFailure(); err == nil && f != nil {
		err = errorOf(f)
	}
	// Whoever is unavailable cannot tell either what became of an attempt before.
	if conversation.CodeOf(err) == conversation.CodeUnavailable {
		return nil, unknown(request, err)
	}
	return reply, err
}

// unknown is what a caller gets of a request that was handed over, and may have been
// taken, when no answer has told.
func unknown(request proto.Message, cause error) error {
	switch m := request.(type) {
	case admitRequest:
		if !m.GetPrecheck() {
			return conversation.InDoubt(conversation.CodeAdmissionUnknown, retryAfter, cause)
		}
	case *wire.AbortRequest:
		return conversation.InDoubt(conversation.CodeAbortUnknown, retryAfter, cause)
	}
	return cause
}

// callOwner also reports whether a request was handed over to somebody who did not say
// what became of it.
func (r *Runtime) callOwner(
	ctx context.Context, limit time.Duration, at conversation.Address, request proto.Message,
) (_ *wire.OwnerReply, doubt bool, _ error) {
	if !r.edge.enter() {
		return nil, false, conversation.Unavailable(retryAfter, nil)
	}
	defer r.edge.leave()
	if err := r.awaitActive(ctx); err != nil {
		return nil, false, conversation.Unavailable(retryAfter, err)
	}
	if err := r.sweeper.Quarantine.Refused(r.edge.known.Put(at)); err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	panics := 0
	for pause := moveBackoff / 16; ; pause = min(2*pause, moveBackoff) {
		m, err := r.nodes.host.Request(ctx, string(at.Key()), request)
		if err == nil {
			reply, ok := m.(*wire.OwnerReply)
			if !ok {
				return nil, doubt, fmt.Errorf("call owner: answered with %T", m)
			}
			if !reply.GetMoved() {
				return reply, doubt, nil
			}
			doubt = doubt || !reply.GetUntouched()
		} else {
			doubt = doubt || !errors.Is(err, grain.ErrNoOwner)
		}
		switch {
		case err == nil, errors.Is(err, grain.ErrOutcomeUnknown):
		case errors.Is(err, grain.ErrPanicked):
			// Once may be chance. Twice is a log that brings this version down.
			if panics++; panics > 1 {
				return nil, doubt, fmt.Errorf("call owner: %w", err)
			}
		default:
			return nil, doubt, conversation.Unavailable(retryAfter, err)
		}
		if r.edge.ended() {
			return nil, doubt, conversation.Unavailable(retryAfter, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, doubt, conversation.Unavailable(retryAfter, errors.Join(ctx.Err(), err))
		}
	}
}

// awaitActive waits while the node is passive, as long as its callers would be asked to wait:
// one whose heartbeat is late for a moment refuses nobody.
func (r *Runtime) awaitActive(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, retryAfter, errPassive)
	defer cancel()
	return r.nodes.members.awaitActive(ctx)
}

func receiptOf(reply *wire.OwnerReply) (*conversation.Receipt, error) {
	switch res := reply.GetResult().(type) {
	case *wire.OwnerReply_Receipt:
		return &conversation.Receipt{
			SubmissionID: conversation.SubmissionID(res.Receipt.GetSubmissionId()),
			UID:          conversation.UID(res.Receipt.GetUid()),
			Offset:       conversation.Offset(res.Receipt.GetOffset()),
			Deduplicated: res.Receipt.GetDeduplicated(),
		}, nil
	case *wire.OwnerReply_Failure:
		return nil, errorOf(res.Failure)
	}
	return nil, fmt.Errorf("admit: owner answered without a result")
}

func errorOf(f *wire.Failure) error {
	e := &conversation.Error{
		Code: conversation.Code(f.GetCode()), Details: f.GetDetails(),
		RetryAfter: time.Duration(f.GetRetryAfterMs()) * time.Millisecond,
	}
	if len(f.GetMeta()) > 0 {
		if err := json.Unmarshal(f.GetMeta(), &e.Meta); err != nil {
			return fmt.Errorf("decode meta of %s: %w", f.GetCode(), err)
		}
	}
	return e
}

func failureOf(e *conversation.Error) *wire.Failure {
	f := &wire.Failure{Code: string(e.Code), Details: e.Details, RetryAfterMs: e.RetryAfter.Milliseconds()}
	if e.Meta != nil {
		// Meta is made in this module from strings and numbers only.
		f.Meta, _ = json.Marshal(e.Meta)
	}
	return f
}
