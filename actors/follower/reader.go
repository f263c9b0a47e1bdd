package follower

import (
	"context"
	"errors"

	"github.com/parleyrun/parley/conversation"
)

// Head implements [conversation.Reader].
func (s *Set) Head(ctx context.Context, at conversation.Address) (conversation.Offset, error) {
	f, err := s.acquire(at, false)
	if err != nil {
		return conversation.Start, err
	}
	defer s.release(f)
	v, err := f.open(ctx, conversation.Start)
	if err != nil {
		return conversation.Start, err
	}
	defer f.unlock()
	return v.head(), nil
}

// Attachment returns the metadata of an attachment of a message.
func (s *Set) Attachment(ctx context.Context, at conversation.Address, id conversation.AttachmentID) (meta conversation.Attachment, err error) {
	defer s.answer(at.Key(), &err)
	f, err := s.acquire(at, false)
	if err != nil {
		return conversation.Attachment{}, err
	}
	defer s.release(f)
	v, err := f.open(ctx, conversation.Start)
	if err != nil {
		return conversation.Attachment{}, err
	}
	defer f.unlock()
	a, ok := v.state.Attachment(id)
	if !ok {
		return a, conversation.Errorf(conversation.CodeAttachmentNotFound, "No message of this conversation has the attachment %.64q.", string(id))
	}
	return a, nil
}

// ReadRun implements [conversation.RunReader].
func (s *Set) ReadRun(ctx context.Context, id conversation.RunID) (workflow string, run *conversation.Run, err error) {
	at := conversation.RunAddress(id)
	defer s.answer(at.Key(), &err)
	f, err := s.acquire(at, false)
	if err != nil {
		return "", nil, err
	}
	defer s.release(f)
	v, err := f.open(ctx, conversation.Start)
	if err == nil {
		defer f.unlock()
		run = v.state.Run()
	}
	if err == nil && run == nil || conversation.CodeOf(err) == conversation.CodeStreamNotFound {
		err = conversation.Errorf(conversation.CodeRunNotFound, "No run %.80q is known.", string(id))
	}
	if err != nil {
		return "", nil, err
	}
	workflow, _ = conversation.WorkflowOf(v.state.Created().Agent)
	return workflow, run, nil
}

// Pending reports whether a submission is unsettled, and its sender, which is nil for an external
// caller.
func (s *Set) Pending(ctx context.Context, of conversation.Sender) (by *conversation.Sender, pending bool, err error) {
	defer s.answer(of.Address.Key(), &err)
	f, err := s.acquire(of.Address, false)
	if err != nil {
		return nil, false, err
	}
	defer s.release(f)
	v, err := f.open(ctx, conversation.Start)
	if conversation.CodeOf(err) == conversation.CodeStreamNotFound {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.unlock()
	sub := v.state.Submission(of.Submission)
	if sub == nil || sub.Settled {
		return nil, false, nil
	}
	return sub.Sender, true, nil
}

// Snapshot implements [conversation.Reader].
func (s *Set) Snapshot(ctx context.Context, at conversation.Address) (page conversation.Page, err error) {
	defer s.answer(at.Key(), &err)
	f, err := s.acquire(at, false)
	if err != nil {
		return conversation.Page{}, err
	}
	defer s.release(f)
	v, err := f.open(ctx, conversation.Start)
	if err != nil {
		return conversation.Page{}, err
	}
	defer f.unlock()
	return v.snapshot()
}

// Updates implements [conversation.Reader]. A limit below 1 is 1. Batches before the current
// incarnation are skipped and do not count. A page may end before its limit where the retained batches
// begin. If a batch resets its readers and the history is long, they are reset to the head instead.
func (s *Set) Updates(ctx context.Context, at conversation.Address, after conversation.Offset, limit int) (page conversation.Page, err error) {
	defer s.answer(at.Key(), &err)
	f, err := s.acquire(at, false)
	if err != nil {
		return conversation.Page{}, err
	}
	defer s.release(f)
	v, err := f.open(ctx, after)
	if err != nil {
		return conversation.Page{}, err
	}
	r := v.plan(after, max(limit, 1))
	if !r.cold {
		defer f.unlock()
		return v.page(r)
	}
	f.unlock()
	page, err = f.coldPage(ctx, r)
	if !errors.Is(err, errReset) {
		return page, err
	}
	if v, err = f.open(ctx, after); err != nil {
		return conversation.Page{}, err
	}
	defer f.unlock()
	return v.reset()
}

// Wait implements [conversation.Reader]. It fails if the bucket must be read and does not answer, or
// if there is no room for another follower. It also fails when the set is stopped.
func (s *Set) Wait(ctx context.Context, at conversation.Address, after conversation.Offset) error {
	f, err := s.acquire(at, true)
	if err != nil {
		return err
	}
	defer s.release(f)
	v, err := f.open(ctx, conversation.Start)
	if err != nil {
		return err
	}
	head := v.head()
	f.unlock()
	if head > after {
		return nil
	}
	s.options.Waited(f.key)
	for {
		more, err := f.past(after)
		if more == nil {
			return err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return s.unavailable(errStopped)
		}
	}
}
