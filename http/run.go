package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/http/beta"
)

// HeaderKey is the header of a POST that begins a run with its idempotency key, 1 to 256 characters.
// The same key of the same workflow identifies the same run.
const HeaderKey = "Idempotency-Key"

// runBegun is the body of a 202, and of the 200 with a result.
type runBegun struct {
	Result    json.RawMessage    `json:"result,omitempty"`
	ID        conversation.RunID `json:"runId"`
	StreamURL string             `json:"streamUrl"`
	Offset    string             `json:"offset"`
}

// begin begins a run. The stream of a run begins with it, so that its offset always precedes it.
func (l *runLine) begin(w *response, r *http.Request, at conversation.Address) error {
	wait, err := waits(parseQuery(r.URL.RawQuery))
	if err != nil {
		return err
	}
	workflow, _ := conversation.WorkflowOf(at.Agent)
	id, err := runFor(workflow, r.Header.Values(HeaderKey))
	if err != nil {
		return err
	}
	if bodied(r) && !strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "application/json") {
		return checkMediaType(r)
	}
	at.ID = string(id)
	_, _, err = l.take(w, r, at, func(opts *Options, body *spool) (*prompt, error) { return readInput(opts, body, id) })
	if err != nil {
		return err
	}
	begun := runBegun{ID: id, StreamURL: l.runURL(r, id), Offset: beta.Offset(-1)}
	if !wait {
		w.Header().Set("Location", begun.StreamURL)
		w.Header().Set(headerNextOffset, begun.Offset)
		return respond(w, http.StatusAccepted, begun)
	}
	run, err := l.ended(w, r, id)
	switch {
	case err != nil:
		return l.noResult(r, err, fmt.Sprintf("The run %s has begun and will end.", id), map[string]any{
			"runId": id, "streamUrl": begun.StreamURL, "offset": begun.Offset,
		})
	case run.Outcome != conversation.OutcomeCompleted:
		l.writeEnvelope(w, r, http.StatusInternalServerError, settledError(run.Error))
		return nil
	}
	begun.Result = orNull(run.Output)
	return respond(w, http.StatusOK, begun)
}

// runFor returns the run id of a key, or a new id.
func runFor(workflow string, keys []string) (conversation.RunID, error) {
	if len(keys) == 0 {
		return conversation.RunID("run_" + ulid.Make().String()), nil
	}
	if n := utf8.RuneCountInString(keys[0]); len(keys) > 1 || n < 1 || n > maxKey || !utf8.ValidString(keys[0]) {
		return "", invalid("The header %s must occur once, with 1 to %d characters.", HeaderKey, maxKey)
	}
	return conversation.RunFor(workflow, keys[0]), nil
}

// bodied reports whether a request has a body according to its headers. Without length and media type
// it has none.
func bodied(r *http.Request) bool {
	return r.ContentLength > 0 || r.ContentLength < 0 && r.Header.Get("Content-Type") != ""
}

// readInput reads the input of a run: any JSON, compacted. A blank body counts as an empty object.
func readInput(opts *Options, body *spool, id conversation.RunID) (*prompt, error) {
	p := &prompt{key: string(id)}
	p.delivery.Kind, p.delivery.Body = conversation.KindUser, "{}"
	from, err := afterBOM(body)
	if err != nil {
		return nil, err
	}
	if body.size > 2*opts.MaxTextBytes {
		return nil, inputTooLong(opts)
	}
	s := newScanner(body, span{from, body.size})
	if _, err := s.next(); errors.Is(err, io.EOF) {
		return p, nil
	}
	v, err := s.span()
	if err == nil {
		err = s.end()
	}
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		return nil, conversation.Errorf(conversation.CodeInvalidJSON, "The body cannot be parsed as JSON: %v.", syntax)
	}
	var raw []byte
	if err == nil {
		raw, err = body.bytes(v)
	}
	if err == nil {
		raw, err = conversation.EncodeJSON(json.RawMessage(raw))
	}
	if err != nil {
		return nil, fmt.Errorf("read spooled body: %w", err)
	}
	if p.delivery.Body = strings.ToValidUTF8(string(raw), "\ufffd"); int64(len(p.delivery.Body)) > opts.MaxTextBytes {
		return nil, inputTooLong(opts)
	}
	return p, nil
}

func inputTooLong(opts *Options) error {
	return invalid("The input is longer than the limit of %d bytes.", opts.MaxTextBytes)
}

// runURL returns the URL of a run for a request to its workflow.
func (h *Handler) runURL(r *http.Request, id conversation.RunID) string {
	at := h.streamURL(r)
	if i := strings.LastIndex(at, "/workflows/"); i >= 0 { // always, unless middleware has changed the path
		at = at[:i]
	}
	return at + "/runs/" + string(id)
}

// ended waits for the end of a run.
func (l *runLine) ended(w *response, r *http.Request, id conversation.RunID) (*conversation.Run, error) {
	live, leave, err := l.enterLive(r.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	w.unlimited()
	_, run, err := conversation.AwaitRun(live, l.runs, id)
	if cause := context.Cause(live); err != nil && cause != nil && r.Context().Err() == nil {
		err = cause
	}
	return run, err
}

// settledError returns the error of a settlement for an envelope.
func settledError(e *conversation.SettlementError) envelopeError {
	if e == nil {
		return envelopeError{Type: conversation.CodeInternal}
	}
	return envelopeError{Type: e.Type, Message: e.Message, Details: e.Message, Meta: e.Meta}
}

// runRecord is the status of a run. Error is that of its last event.
type runRecord struct {
	ID         conversation.RunID `json:"runId"`
	Workflow   string             `json:"workflowName"`
	Status     string             `json:"status"`
	StartedAt  conversation.Time  `json:"startedAt"`
	Input      json.RawMessage    `json:"input"`
	Payload    json.RawMessage    `json:"payload,omitempty"` // name of the first beta clients
	EndedAt    conversation.Time  `json:"endedAt,omitzero"`
	IsError    *bool              `json:"isError,omitempty"`
	DurationMs *int64             `json:"durationMs,omitempty"`
	Result     json.RawMessage    `json:"result,omitempty"`
	Error      *runError          `json:"error,omitempty"`
}

type runError struct {
	Name    conversation.Code `json:"name"`
	Message string            `json:"message"`
}

// get reads the event stream of a run, or its status.
func (l *runLine) get(w *response, r *http.Request, at conversation.Address) error {
	if !parseQuery(r.URL.RawQuery).Has("meta") {
		return l.eventLine.get(w, r, at)
	}
	id := conversation.RunID(at.ID)
	workflow, run, err := l.known(r, id)
	if err != nil {
		return err
	}
	out := runRecord{ID: id, Workflow: workflow, Status: "active", StartedAt: run.StartedAt, Input: run.Input}
	if l.beta {
		out.Payload = run.Input
	}
	if run.Outcome != "" {
		out.EndedAt, out.IsError = run.EndedAt, new(run.Outcome != conversation.OutcomeCompleted)
		out.DurationMs = new(max(int64(run.EndedAt-run.StartedAt), 0))
	}
	switch {
	case run.Outcome == conversation.OutcomeCompleted:
		out.Status, out.Result = "completed", orNull(run.Output)
	case run.Outcome == conversation.OutcomeAborted && !l.beta:
		out.Status = "aborted"
	case run.Outcome != "":
		out.Status = "errored"
	}
	if run.Error != nil {
		out.Error = &runError{run.Error.Type, run.Error.Message}
	}
	w.Header().Set("Cache-Control", "no-store")
	return respond(w, http.StatusOK, out)
}

// runSignalled is the body of the 202 of a signal.
type runSignalled struct {
	StreamURL    string                    `json:"streamUrl"`
	Offset       string                    `json:"offset"`
	SubmissionID conversation.SubmissionID `json:"submissionId"`
	Deduplicated bool                      `json:"deduplicated,omitempty"`
}

// signal delivers a signal to a run. Its effects follow the returned offset.
func (l *runLine) signal(w *response, r *http.Request, at conversation.Address) error {
	if parseQuery(r.URL.RawQuery).Has("wait") {
		return invalid("The query parameter wait is not supported: a signal never waits for the run.")
	}
	if err := checkMediaType(r); err != nil {
		return err
	}
	end, err := l.events.EventTail(r.Context(), at)
	if err != nil {
		return err
	}
	receipt, keyed, err := l.take(w, r, at, readSignal)
	if err != nil {
		return err
	}
	out := runSignalled{
		StreamURL: l.streamURL(r), Offset: beta.Offset(end.Next), SubmissionID: receipt.SubmissionID, Deduplicated: keyed && receipt.Deduplicated,
	}
	w.Header().Set("Location", out.StreamURL)
	w.Header().Set(headerNextOffset, out.Offset)
	return respond(w, http.StatusAccepted, out)
}

// readSignal reads the only kind of message that runs accept.
func readSignal(opts *Options, body *spool) (*prompt, error) {
	p, err := readPrompt(opts, body)
	if err != nil {
		return nil, err
	}
	d, alone := &p.delivery, p.condition == conversation.Condition{} && p.initialData == nil
	if d.Kind != conversation.KindSignal || d.Type != conversation.SignalWait || !alone {
		err = invalid(`A run takes {"kind":"signal","type":%q,"attributes":{"name":…},"body":…} alone, and an idempotencyKey.`, conversation.SignalWait)
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// respond sends JSON. It ignores write errors, because the reported change is durable.
func respond(w *response, status int, v any) error {
	body, err := conversation.EncodeJSON(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return nil
}

// orNull returns v or JSON null.
func orNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
}

// noResult returns the error for a caller that waits for a result and cannot get it. The admission
// stands, so the error must not claim that nothing was stored.
func (h *Handler) noResult(r *http.Request, err error, admitted string, meta map[string]any) error {
	if r.Context().Err() != nil {
		return err
	}
	e := conversation.InDoubt(conversation.CodeAdmissionUnknown, time.Second, err)
	e.Details = admitted + " This server cannot wait for it: read the stream after meta.offset."
	e.Meta = meta
	return e
}
