package http_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

// fakeRuntime is a complete runtime in memory without an agent. It has a log per conversation, folded
// and projected by package conversation.
type fakeRuntime struct {
	mu     sync.Mutex
	convs  map[conversation.Address]*fakeConversation
	blobs  map[string][]byte
	minted int

	// calls are the called methods and their arguments, in order.
	calls      []string
	admissions []conversation.Admission
	// schema validates initialData of a creating admission; nil accepts all.
	schema func(json.RawMessage) error
	// fail, if not nil, is called before every method with its name.
	fail func(method string) error
	// onStage, if not nil, gets every staged blob.
	onStage func(conversation.Blob)
	// content, if not nil, wraps the content of attachments.
	content func(io.Reader) io.Reader
	// long, if not nil, answers snapshots and updates.
	long func() conversation.Page
	// closed marks event streams as closed.
	closed bool
	// unclosed counts the contents that are not closed.
	unclosed int
}

type fakeConversation struct {
	batches []conversation.Batch
	state   *conversation.State
	changed chan struct{} // closed at the next batch
}

func newRuntime() *fakeRuntime {
	return &fakeRuntime{convs: map[conversation.Address]*fakeConversation{}, blobs: map[string][]byte{}}
}

// called records a call and returns its injected error.
func (f *fakeRuntime) called(ctx context.Context, method string) error {
	f.mu.Lock()
	f.calls = append(f.calls, method)
	fail := f.fail
	f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if fail != nil {
		return fail(method)
	}
	return nil
}

func (f *fakeRuntime) mint(prefix string) string {
	f.minted++
	return fmt.Sprintf("%s_%d", prefix, f.minted)
}

// decide returns the receipt of a known key, or whether the admission creates.
func (f *fakeRuntime) decide(a conversation.Admission) (*conversation.Receipt, bool, error) {
	hash, err := a.PayloadHash()
	if err != nil {
		return nil, false, err
	}
	c := f.convs[a.Address.Reach()]
	if c == nil {
		if a.Condition.Set {
			return nil, false, conversation.Errorf(conversation.CodeInstanceNotFound, "No instance has this id and uid.")
		}
		if f.schema != nil {
			if err := f.schema(a.InitialData); err != nil {
				return nil, false, err
			}
		}
		return nil, true, nil
	}
	uid := c.state.Created().UID
	if sub := c.state.Lookup(a.Key); sub != nil {
		if sub.PayloadHash != hash {
			return nil, false, &conversation.Error{Code: conversation.CodeSubmissionConflict,
				Meta: map[string]any{"submissionId": sub.ID}}
		}
		return &conversation.Receipt{SubmissionID: sub.ID, UID: uid, Offset: sub.Offset, Deduplicated: true}, false, nil
	}
	switch {
	case a.Condition.Absent:
		e := conversation.Errorf(conversation.CodeInstanceExists, "The instance exists with uid %s.", uid)
		e.Meta = map[string]any{"uid": uid}
		return nil, false, e
	case a.Condition.Set && a.Condition.UID != uid:
		return nil, false, conversation.Errorf(conversation.CodeInstanceNotFound, "No instance has this id and uid.")
	}
	return nil, false, nil
}

// Precheck implements conversation.Dispatcher.
func (f *fakeRuntime) Precheck(ctx context.Context, a conversation.Admission) (*conversation.Receipt, error) {
	if err := f.called(ctx, "Precheck"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known, _, err := f.decide(a)
	return known, err
}

// Stage implements conversation.Dispatcher. It checks size and digest.
func (f *fakeRuntime) Stage(ctx context.Context, _ conversation.Address, b conversation.Blob) error {
	if err := f.called(ctx, "Stage"); err != nil {
		return err
	}
	if b.Size == 0 {
		return fmt.Errorf("blob %s is empty", b.Digest) // as a bucket does
	}
	if f.onStage != nil {
		f.onStage(b)
		return nil
	}
	content, err := io.ReadAll(b.Content)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != b.Digest || int64(len(content)) != b.Size {
		return fmt.Errorf("blob %s of %d bytes does not match its content", b.Digest, b.Size)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blobs[b.Digest] = content
	return nil
}

// Admit implements conversation.Dispatcher.
func (f *fakeRuntime) Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	if err := f.called(ctx, "Admit"); err != nil {
		return conversation.Receipt{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admissions = append(f.admissions, a)
	known, creates, err := f.decide(a)
	if err != nil {
		return conversation.Receipt{}, err
	}
	if known != nil {
		return *known, nil
	}
	hash, err := a.PayloadHash()
	if err != nil {
		return conversation.Receipt{}, err
	}
	for i := range a.Delivery.Attachments {
		a.Delivery.Attachments[i].ID = conversation.AttachmentID(f.mint("att"))
	}
	var records []conversation.Record
	if creates {
		f.convs[a.Address.Reach()] = &fakeConversation{state: conversation.NewState(), changed: make(chan struct{})}
		records = append(records, &conversation.ConversationCreated{
			Agent: a.Address.Agent, ID: a.Address.ID, UID: conversation.UID(f.mint("inst")),
			ConversationID: conversation.ConversationID(f.mint("conv")), InitialData: a.InitialData,
		})
	}
	sub := conversation.SubmissionID(f.mint("sub"))
	records = append(records, &conversation.SubmissionAdmitted{
		Submission: sub, Message: conversation.MessageID(f.mint("msg")), Key: a.Key, PayloadHash: hash,
		Delivery: a.Delivery, Trace: a.Trace,
	})
	if _, run := conversation.WorkflowOf(a.Address.Agent); run && creates {
		records = append(records, &conversation.RunStarted{Must: true, Submission: sub, At: runBegan})
	}
	c := f.convs[a.Address.Reach()]
	if err := c.append(records); err != nil {
		return conversation.Receipt{}, err
	}
	return conversation.Receipt{SubmissionID: sub, UID: c.state.Created().UID, Offset: c.state.Head()}, nil
}

// AbortTree implements conversation.Dispatcher, for a conversation with one member in another's tree.
func (f *fakeRuntime) AbortTree(ctx context.Context, at conversation.Address) (conversation.TreeAborted, error) {
	aborted, err := f.Abort(ctx, at)
	return conversation.TreeAborted{Aborted: aborted, Conversations: 2, PartOf: []conversation.TreeRef{{Root: conversation.Address{Agent: "desk", ID: "1"}, Submission: "sub_9"}}}, err
}

// Abort implements conversation.Dispatcher. It settles at once.
func (f *fakeRuntime) Abort(ctx context.Context, at conversation.Address) (bool, error) {
	if err := f.called(ctx, "Abort"); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.convs[at]
	if c == nil || len(c.state.Unsettled()) == 0 {
		return false, nil
	}
	intent := &conversation.AbortRequested{}
	records := []conversation.Record{intent}
	for _, sub := range c.state.Unsettled() {
		intent.Submissions = append(intent.Submissions, sub.ID)
		records = append(records,
			&conversation.Advisory{
				Message: conversation.MessageID(f.mint("msg")), Submission: sub.ID, Text: "Aborted.",
				Display: conversation.DisplayDiagnostic,
			},
			&conversation.SubmissionSettled{
				Submission: sub.ID, Outcome: conversation.OutcomeAborted,
				Error: &conversation.SettlementError{Type: conversation.CodeAborted, Message: "Aborted."},
			})
	}
	return true, c.append(records)
}

func (c *fakeConversation) append(records []conversation.Record) error {
	b := conversation.Batch{Offset: c.state.Head() + 1, Records: records}
	if err := c.state.Apply(b); err != nil {
		return err
	}
	c.batches = append(c.batches, b)
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

// record appends batches on behalf of the agent. Readers see all of them at once.
func (f *fakeRuntime) record(t testing.TB, at conversation.Address, batches ...[]conversation.Record) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range batches {
		if err := f.convs[at].append(b); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fakeRuntime) open(ctx context.Context, method string, at conversation.Address) (*fakeConversation, error) {
	if err := f.called(ctx, method); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.convs[at]
	if c == nil {
		return nil, &conversation.Error{Code: conversation.CodeStreamNotFound}
	}
	return c, nil
}

// Head implements conversation.Reader.
func (f *fakeRuntime) Head(ctx context.Context, at conversation.Address) (conversation.Offset, error) {
	c, err := f.open(ctx, "Head", at)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return c.state.Head(), nil
}

// Snapshot implements conversation.Reader.
func (f *fakeRuntime) Snapshot(ctx context.Context, at conversation.Address) (conversation.Page, error) {
	c, err := f.open(ctx, "Snapshot", at)
	if err != nil {
		return conversation.Page{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.long != nil {
		return f.long(), nil
	}
	b, err := conversation.EncodeJSON(c.state.Snapshot())
	// UpToDate is implied.
	return conversation.Page{JSON: b, Next: c.state.Head()}, err
}

// Updates implements conversation.Reader.
func (f *fakeRuntime) Updates(ctx context.Context, at conversation.Address, after conversation.Offset, limit int) (conversation.Page, error) {
	c, err := f.open(ctx, "Updates", at)
	if err != nil {
		return conversation.Page{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.long != nil && after < c.state.Head() {
		return f.long(), nil
	}
	if after > c.state.Head() {
		return conversation.Page{}, conversation.Errorf(conversation.CodeStreamStoreFailure, "The offset is beyond the head.")
	}
	next := min(after+conversation.Offset(limit), c.state.Head())
	var chunks []conversation.Chunk
	for _, b := range c.batches[after+1 : next+1] {
		more, err := conversation.Project(c.state.Created().ConversationID, b, nil)
		if err != nil {
			return conversation.Page{}, err
		}
		chunks = append(chunks, more...)
	}
	out, err := conversation.AppendChunks([]byte{'['}, chunks)
	return conversation.Page{JSON: append(out, ']'), Next: next, UpToDate: next == c.state.Head()}, err
}

// Wait implements conversation.Reader.
func (f *fakeRuntime) Wait(ctx context.Context, at conversation.Address, after conversation.Offset) error {
	c, err := f.open(ctx, "Wait", at)
	if err != nil {
		return err
	}
	for {
		f.mu.Lock()
		head, changed := c.state.Head(), c.changed
		f.mu.Unlock()
		if head > after {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Attachment implements conversation.Reader with staged blobs.
func (f *fakeRuntime) Attachment(ctx context.Context, at conversation.Address, id conversation.AttachmentID) (conversation.Attachment, io.ReadCloser, error) {
	c, err := f.open(ctx, "Attachment", at)
	if err != nil {
		return conversation.Attachment{}, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := c.state.Attachment(id)
	if !ok {
		return a, nil, &conversation.Error{Code: conversation.CodeAttachmentNotFound}
	}
	var content io.Reader = bytes.NewReader(f.blobs[a.SHA256])
	if f.content != nil {
		content = f.content(content)
	}
	f.unclosed++
	return a, &fakeContent{ctx, content, f}, nil
}

// fakeContent is an attachment's content as from a bucket: its reads end with the request. It counts
// Close.
type fakeContent struct {
	ctx     context.Context
	content io.Reader
	f       *fakeRuntime
}

// Read implements io.Reader.
func (c *fakeContent) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.content.Read(p)
}

// Close implements io.Closer.
func (c *fakeContent) Close() error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.unclosed--
	return nil
}

// wrote returns the calls that may have a lasting effect.
func (f *fakeRuntime) wrote() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, c := range f.calls {
		if c == "Stage" || c == "Admit" || c == "Abort" {
			out = append(out, c)
		}
	}
	return out
}
