package conversation

import (
	"context"
	"io"
)

// Dispatcher is the write seam between an edge (http, channels) and the runtime.
// Every method returns a [*Error] for whatever a caller may be told; any other
// error is internal. Implementations are safe for concurrent use.
type Dispatcher interface {
	// Precheck decides an admission without admitting it, at the conversation's
	// owner: key, condition and schema. It writes nothing. The receipt is non-nil
	// when the key is known already, which answers the request. An edge calls it
	// before it stages attachments.
	Precheck(ctx context.Context, a Admission) (*Receipt, error)
	// Stage stores an attachment of a conversation under its digest. Staging the
	// same content twice is one object.
	Stage(ctx context.Context, at Address, b Blob) error
	// Admit accepts a delivery durably. When it returns, the message is recorded
	// and will reach exactly one settlement, whatever dies. CodeAdmissionUnknown says
	// that it may be recorded, or may be yet, and has the key to repeat it with in its
	// meta as idempotencyKey; any other error left nothing behind.
	Admit(ctx context.Context, a Admission) (Receipt, error)
	// Abort records the intent to abort whatever is owed a settlement and reports
	// whether there was anything. When it returns true the intent is durable;
	// settlements follow. A conversation that does not exist has nothing to abort.
	// CodeAbortUnknown says that the intent may be recorded; repeating it is safe.
	Abort(ctx context.Context, at Address) (bool, error)
	// AbortTree is Abort, and aborts the trees of dispatches that began in the conversation: what the work on its
	// submissions dispatched to any conversation, what that dispatched, and so on. Dispatches of these trees are refused
	// from then on. CodeAbortUnknown says that part of it may be missing; repeating it is safe.
	AbortTree(ctx context.Context, at Address) (TreeAborted, error)
}

// TreeAborted is the outcome of [Dispatcher.AbortTree].
type TreeAborted struct {
	// Aborted reports whether the conversation itself had anything to abort.
	Aborted bool `json:"aborted"`
	// Conversations counts those of its trees in which something was aborted.
	Conversations int `json:"conversations"`
	// PartOf are the trees to which the aborted submissions of the conversation belong and that began elsewhere. They go
	// on: an abort where one began ends it.
	PartOf []TreeRef `json:"partOf,omitempty"`
}

// Page is one encoded answer to a read.
type Page struct {
	// JSON is one line without a newline; an empty array is exactly []. It is
	// shared between readers and must not be changed.
	JSON []byte
	// Long writes what JSON would be, and is set in its place where that is too long to
	// be held. It reads on the way, so that it may fail when some of it is written; for want
	// of memory it does before that. It may be called more than once.
	Long func(ctx context.Context, w io.Writer) error
	// Next is the offset to read from next.
	Next Offset
	// UpToDate is set when the read reached the durable head.
	UpToDate bool
}

// Write writes the page's JSON.
func (p *Page) Write(ctx context.Context, w io.Writer) error {
	if p.Long != nil {
		return p.Long(ctx, w)
	}
	_, err := w.Write(p.JSON)
	return err
}

// Bytes returns the page's JSON whole, however long.
func (p *Page) Bytes(ctx context.Context) ([]byte, error) {
	if p.Long == nil {
		return p.JSON, nil
	}
	var out appender
	if err := p.Long(ctx, &out); err != nil {
		return nil, err
	}
	return out.b, nil
}

// Reader is the read seam. A read never activates a conversation. A conversation
// that was never created answers CodeStreamNotFound; an offset beyond the durable
// head CodeStreamStoreFailure. Implementations are safe for concurrent use.
type Reader interface {
	// Head returns the durable head.
	Head(ctx context.Context, at Address) (Offset, error)
	// Snapshot returns the materialized conversation as a JSON object.
	Snapshot(ctx context.Context, at Address) (Page, error)
	// Updates returns the chunks recorded after an offset as a JSON array,
	// covering at most limit batches.
	Updates(ctx context.Context, at Address, after Offset, limit int) (Page, error)
	// Wait returns nil as soon as the durable head is past after, so that Updates
	// makes progress, or the context's error.
	Wait(ctx context.Context, at Address, after Offset) error
	// Attachment returns the facts and the content of an attachment of a message.
	// The content's Read fails if the bytes do not have the size and digest they
	// are stored under. The caller closes it. An unknown id is CodeAttachmentNotFound.
	Attachment(ctx context.Context, at Address, id AttachmentID) (Attachment, io.ReadCloser, error)
}
