package http

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// HeaderNotify is the header of a POST that names a target which is told when the submission is
// settled: one that the agent opens to callers, by its Notifiable. The runtime refuses any other, and the
// refusal names none. It is no part of what an idempotency key stands for.
const HeaderNotify = "Parley-Notify"

// precheckBytes is the body size from which an admission is decided before it is
// sent, so that a refused one costs little.
const precheckBytes = 256 << 10

// admitted is the body of a 202.
type admitted struct {
	StreamURL    string                    `json:"streamUrl"`
	Offset       conversation.Offset       `json:"offset"`
	SubmissionID conversation.SubmissionID `json:"submissionId"`
	UID          conversation.UID          `json:"uid,omitempty"`
	Deduplicated bool                      `json:"deduplicated,omitempty"`
}

// copies is how many of a message are in memory until it is admitted: decoded, and encoded
// for its conversation and for its log, each for a moment twice.
const copies = 4

// post admits one message.
func (h *Handler) post(w *response, r *http.Request, at conversation.Address) error {
	if err := checkAdmissible(at.ID); err != nil {
		return err
	}
	if parseQuery(r.URL.RawQuery).Has("wait") {
		return invalid("The query parameter wait is not supported: an admission never waits for the agent.")
	}
	if err := checkMediaType(r); err != nil {
		return err
	}
	receipt, keyed, err := h.take(w, r, at, readPrompt)
	if err != nil {
		return err
	}
	return h.accept(w, r, receipt, keyed)
}

// take reads a body and admits what it says. keyed says that its sender gave it a key.
func (h *Handler) take(
	w *response, r *http.Request, at conversation.Address, read func(*Options, *spool) (*prompt, error),
) (receipt conversation.Receipt, keyed bool, err error) {
	body, err := h.readBody(w, r)
	if err != nil {
		return receipt, false, err
	}
	defer h.discard(r.Context(), body)
	leave, err := h.gate.enter(r.Context(), body)
	if err != nil {
		return receipt, false, err
	}
	defer leave()
	text := min(body.size, 2*h.opts.MaxTextBytes) // at most what is decoded into memory
	if err := h.spools.memory.Take(text); err != nil {
		return receipt, false, err
	}
	defer func() { h.spools.memory.Add(-text) }()
	p, err := h.readPrompt(body, read)
	if err != nil {
		return receipt, false, err
	}
	defer h.discard(r.Context(), p)
	if more := copies*int64(p.delivery.Size()+len(p.initialData)) - text; more > 0 {
		if err := h.spools.memory.Take(more); err != nil {
			return receipt, false, err
		}
		text += more
	}
	a := conversation.Admission{
		Address: at, Delivery: p.delivery, Condition: p.condition, InitialData: p.initialData,
		Key: p.key, Trace: conversation.TraceOf(r.Header.Values("Traceparent"), r.Header.Values("Tracestate")), Notify: strings.Join(r.Header.Values(HeaderNotify), ", "), // several name none
	}
	if len(a.Notify) > conversation.MaxTarget {
		return receipt, false, invalid("The header %s has more than %d bytes.", HeaderNotify, conversation.MaxTarget)
	}
	if a.Key == "" {
		a.Key = h.opts.NewKey()
	}
	receipt, err = h.admit(r.Context(), a, p.files, body.size)
	return receipt, p.key != "", err
}

// readPrompt reads a body, at its turn if that is long. What has attachments takes none:
// they are written to the disk on the way.
func (h *Handler) readPrompt(body *spool, read func(*Options, *spool) (*prompt, error)) (*prompt, error) {
	if body.size <= 2*h.opts.MaxTextBytes {
		defer h.spools.memory.Turn(int(body.size))()
	}
	return read(&h.opts, body)
}

// discard closes what a request held. A failure costs disk space, not the request.
func (h *Handler) discard(ctx context.Context, c io.Closer) {
	if err := c.Close(); err != nil {
		h.opts.Logger.WarnContext(ctx, "temporary file was not removed", "err", err)
	}
}

// admit hands a checked delivery to the runtime. Large ones are decided first,
// so that nothing is staged for a delivery that is refused or known already.
func (h *Handler) admit(ctx context.Context, a conversation.Admission, files []*spool, size int64) (conversation.Receipt, error) {
	if len(files) > 0 || size > precheckBytes {
		known, err := h.dispatcher.Precheck(ctx, a)
		if err != nil {
			return conversation.Receipt{}, err
		}
		if known != nil {
			return *known, nil
		}
	}
	staged := map[string]bool{}
	for i, f := range files {
		at := a.Delivery.Attachments[i]
		if staged[at.SHA256] {
			continue
		}
		staged[at.SHA256] = true
		blob := conversation.Blob{Content: f.section(span{0, f.size}), Size: at.Size, Digest: at.SHA256}
		if err := h.dispatcher.Stage(ctx, a.Address, blob); err != nil {
			return conversation.Receipt{}, err
		}
	}
	return h.dispatcher.Admit(ctx, a)
}

// accept answers 202. A caller without a key cannot have repeated itself.
func (h *Handler) accept(w *response, r *http.Request, receipt conversation.Receipt, keyed bool) error {
	url := h.streamURL(r)
	body, err := conversation.EncodeJSON(admitted{
		StreamURL: url, Offset: receipt.Offset, SubmissionID: receipt.SubmissionID, UID: receipt.UID,
		Deduplicated: keyed && receipt.Deduplicated,
	})
	if err != nil {
		return fmt.Errorf("encode receipt of %s: %w", receipt.SubmissionID, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Location", url)
	w.Header().Set(headerNextOffset, receipt.Offset.String())
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(body) // it is admitted, whether the client hears it or not
	return nil
}
