package conversation

import (
	"context"
	"io"
)

// Dispatcher is the write interface between an edge (http, channels) and the runtime. Methods return a
// [*Error] for caller-safe errors; any other error is internal. Implementations are safe for
// concurrent use.
type Dispatcher interface {
	// Precheck decides an admission without admitting it, at the conversation's owner: key, condition
	// and schema. It writes nothing. The receipt is non-nil if the key is known; it is then the
	// response. An edge calls Precheck before it stages attachments.
	Precheck(ctx context.Context, a Admission) (*Receipt, error)
	// Stage stores an attachment of a conversation under its digest. Staging the same content twice
	// creates one object.
	Stage(ctx context.Context, at Address, b Blob) error
	// Admit accepts a delivery durably. When it returns, the message is recorded and will reach
	// exactly one settlement, despite crashes. CodeAdmissionUnknown means that the message may be
	// recorded now or later; its meta has the key for a retry as idempotencyKey. Any other error had
	// no effect.
	Admit(ctx context.Context, a Admission) (Receipt, error)
	// Abort records the intent to abort all unsettled submissions and reports whether there were any.
	// When it returns true the intent is durable; settlements follow. A conversation that does not
	// exist has nothing to abort. CodeAbortUnknown means that the intent may be recorded; a retry is
	// safe.
	Abort(ctx context.Context, at Address) (bool, error)
	// AbortTree is Abort, and also aborts the dispatch trees that began in the conversation: all
	// submissions dispatched by its work, by theirs, and so on. Further dispatches of these trees are
	// rejected. CodeAbortUnknown means that the abort may be incomplete; a retry is safe.
	AbortTree(ctx context.Context, at Address) (TreeAborted, error)
}

// TreeAborted is the outcome of [Dispatcher.AbortTree].
type TreeAborted struct {
	// Aborted reports whether the conversation itself had anything to abort.
	Aborted bool `json:"aborted"`
	// Conversations counts those of its trees in which something was aborted.
	Conversations int `json:"conversations"`
	// PartOf are the trees of the aborted submissions that began in other conversations. They
	// continue; only an abort where a tree began ends it.
	PartOf []TreeRef `json:"partOf,omitempty"`
}

// Page is one encoded response to a read.
type Page struct {
	// JSON is one line without a newline; an empty array is exactly []. It is shared between readers
	// and must not be changed.
	JSON []byte
	// Long writes the JSON form if it is too long for memory; JSON is nil then. It reads while it
	// writes, so it may fail after a partial write. A lack of memory is reported before the first
	// write. It may be called more than once.
	Long func(ctx context.Context, w io.Writer) error
	// Next is the offset to read from next.
	Next Offset
	// UpToDate is set if the read reached the durable head.
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

// Bytes returns the page's whole JSON, of any length.
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

// Reader is the read interface. A read never activates a conversation. A conversation that was never
// created returns CodeStreamNotFound; an offset beyond the durable head returns
// CodeStreamStoreFailure. Implementations are safe for concurrent use.
type Reader interface {
	// Head returns the durable head.
	Head(ctx context.Context, at Address) (Offset, error)
	// Snapshot returns the materialized conversation as a JSON object.
	Snapshot(ctx context.Context, at Address) (Page, error)
	// Updates returns the chunks recorded after an offset as a JSON array, from at most limit batches.
	Updates(ctx context.Context, at Address, after Offset, limit int) (Page, error)
	// Wait blocks until the durable head is past after, so that Updates makes progress. Otherwise it
	// returns the context's error.
	Wait(ctx context.Context, at Address, after Offset) error
	// Attachment returns the metadata and the content of a message's attachment. The content's Read
	// fails if the bytes do not match the size and digest under which they are stored. The caller
	// closes it. An unknown id returns CodeAttachmentNotFound.
	Attachment(ctx context.Context, at Address, id AttachmentID) (Attachment, io.ReadCloser, error)
}
