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

// HeaderNotify is the header of a POST that names a target to notify when the submission is settled.
// The agent's Notifiable must permit the target for callers. The runtime rejects any other, without
// naming valid targets. An idempotency key does not cover the header.
const HeaderNotify = "Parley-Notify"

// precheckBytes is the body size from which an admission is decided before its attachments are stored,
// so that a rejected one costs little.
const precheckBytes = 256 << 10

// admitted is the body of a 202.
type admitted struct {
	StreamURL    string                    `json:"streamUrl"`
	Offset       conversation.Offset       `json:"offset"`
	SubmissionID conversation.SubmissionID `json:"submissionId"`
	UID          conversation.UID          `json:"uid,omitempty"`
	Deduplicated bool                      `json:"deduplicated,omitempty"`
}

// copies is the number of copies of a message in memory until it is admitted: decoded, and encoded for
// its conversation and for its log, each temporarily twice.
const copies = 4

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

// take reads a body and admits it. keyed is set if the sender provided a key.
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
	text := min(body.size, 2*h.opts.MaxTextBytes) // upper bound of decoded memory
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
		Key: p.key, Trace: conversation.TraceOf(r.Header.Values("Traceparent"), r.Header.Values("Tracestate")), Notify: strings.Join(r.Header.Values(HeaderNotify), ", "), // several headers count as none
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

// readPrompt reads a body. Long bodies wait at the gate, except those with attachments, which are
// written to disk.
func (h *Handler) readPrompt(body *spool, read func(*Options, *spool) (*prompt, error)) (*prompt, error) {
	if body.size <= 2*h.opts.MaxTextBytes {
		defer h.spools.memory.Turn(int(body.size))()
	}
	return read(&h.opts, body)
}

// discard closes a resource of a request. A failure costs disk space but does not fail the request.
func (h *Handler) discard(ctx context.Context, c io.Closer) {
	if err := c.Close(); err != nil {
		h.opts.Logger.WarnContext(ctx, "remove temporary file failed", "err", err)
	}
}

// admit passes a validated delivery to the runtime. Large ones are decided first, so that nothing is
// staged for a rejected or repeated delivery.
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

// accept answers 202. A request without a key cannot be a repetition.
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
	_, _ = w.Write(body) // the submission is durable; a lost response does not matter
	return nil
}
