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
	// retryAfter is the retry delay for a caller when no owner answered.
	retryAfter = 2 * time.Second
	// moveBackoff bounds the delay before retrying a request whose owner stepped down; the first delay
	// is a sixteenth of it.
	moveBackoff = 400 * time.Millisecond
	// deleteTimeout bounds the deletion of a staged admission.
	deleteTimeout = 5 * time.Second
	// maxMessage is the largest admission, in bytes, that is sent between nodes. Longer ones are
	// staged in the bucket.
	maxMessage = 256 << 10
)

// errPassive is the reason why a passive node rejects work.
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

// Abort implements [conversation.Dispatcher]. It is idempotent: submissions that an earlier attempt
// aborted are settled.
func (r *Runtime) Abort(ctx context.Context, at conversation.Address) (bool, error) {
	reply, err := r.abort(ctx, at, &wire.AbortRequest{})
	return reply.GetAborted(), err
}

// abort sends an abort to the owner of a conversation, and returns the answer if it was carried out.
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

// ask sends an admission to the owner of its conversation.
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

// encodeAdmission encodes an admission. Long ones wait for their turn.
func (r *Runtime) encodeAdmission(a conversation.Admission) ([]byte, error) {
	defer r.accounts.conversations.Turn(a.Delivery.Size() + len(a.InitialData))()
	return json.Marshal(a)
}

// stage stores a long admission in the bucket for another node to read.
func (r *Runtime) stage(ctx context.Context, key string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.AdmitTimeout)
	defer cancel()
	if err := r.bucket.Create(ctx, key, storage.Bytes(body)); err != nil {
		return fmt.Errorf("stage admission: %w", err)
	}
	return nil
}

// unstage deletes a staged admission, even after the caller's context has ended.
func (r *Runtime) unstage(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := r.bucket.Delete(ctx, key); err != nil {
		r.opts.Logger.Info("delete staged admission failed", "key", key, "err", err)
	}
}

// call sends a request to the owner of a conversation and retries when the owner steps down, until
// there is a decision or a timeout. The request must be idempotent.
func (r *Runtime) call(ctx context.Context, at conversation.Address, request proto.Message) (*wire.OwnerReply, error) {
	return r.callWithin(ctx, r.opts.AdmitTimeout, at, request)
}

// callWithin calls the owner like call, within limit.
func (r *Runtime) callWithin(ctx context.Context, limit time.Duration, at conversation.Address, request proto.Message) (*wire.OwnerReply, error) {
	reply, uncertain, err := r.callOwner(ctx, limit, at, request)
	if conversation.CodeOf(err) == conversation.CodeUnavailable {
		r.edge.refused.Add(1)
	}
	if !uncertain {
		return reply, err
	}
	if f := reply.GetFailure(); err == nil && f != nil {
		err = errorOf(f)
	}
	// An unavailable owner cannot report the outcome of an earlier attempt either.
	if conversation.CodeOf(err) == conversation.CodeUnavailable {
		return nil, unknown(request, err)
	}
	return reply, err
}

// unknown returns the error of a request that was sent, and possibly executed, without an answer.
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

// callOwner also reports whether a request was sent without an answer, so that its outcome is unknown.
func (r *Runtime) callOwner(
	ctx context.Context, limit time.Duration, at conversation.Address, request proto.Message,
) (_ *wire.OwnerReply, uncertain bool, _ error) {
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
				return nil, uncertain, fmt.Errorf("call owner: answered with %T", m)
			}
			if !reply.GetMoved() {
				return reply, uncertain, nil
			}
			uncertain = uncertain || !reply.GetUntouched()
		} else {
			uncertain = uncertain || !errors.Is(err, grain.ErrNoOwner)
		}
		switch {
		case err == nil, errors.Is(err, grain.ErrOutcomeUnknown):
		case errors.Is(err, grain.ErrPanicked):
			// One panic may be chance. Two mean a log that crashes this version.
			if panics++; panics > 1 {
				return nil, uncertain, fmt.Errorf("call owner: %w", err)
			}
		default:
			return nil, uncertain, conversation.Unavailable(retryAfter, err)
		}
		if r.edge.ended() {
			return nil, uncertain, conversation.Unavailable(retryAfter, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, uncertain, conversation.Unavailable(retryAfter, errors.Join(ctx.Err(), err))
		}
	}
}

// awaitActive waits while the node is passive, at most for retryAfter. A heartbeat that is late for a
// moment rejects no request.
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
		// Meta contains only strings and numbers.
		f.Meta, _ = json.Marshal(e.Meta)
	}
	return f
}
